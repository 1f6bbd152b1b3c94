"""Tab 2: start, stop and resume a run, recommend settings, export."""

import json
import time
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

from utils import jobs
from utils.bases.catalog import base_folder, has_weights, read_about
from utils.config import ExportConfig, TrainConfig
from utils.errors import UserError
from utils.hardware.estimates import XTTS_V2, size_in
from utils.hardware.recommendations import Recommendation, UseCase
from utils.hardware.recommendations import recommend as recommend_settings
from utils.jobs import Job
from utils.jobs.run_queue import QueuedRun, dequeue, enqueue, holder, move, read_queue
from utils.project.paths import Project
from utils.project.projects import project_language
from utils.runs.layout import READY, ModelRef, find_run, newest_of
from utils.runs.log import read_events
from utils.switches import CHECKBOXES, SWITCHES
from utils.text.languages import AMHARIC, plain_code
from webui import forms, text
from webui.change import TOAST, Change, Updates, Values
from webui.fields import KINDS, fields_of, training_fields
from webui.handlers.project import bases_of, checked_base, chosen_base, stop_running
from webui.studio import Studio
from webui.views import run as view

FORM = "train.set_"
"""Ids of components that hold a setting begin so."""
END_OF_PROCESS_S = 20.0
SAME_STOP_S = 3.0
"""Stop pressed again sooner is the same request: by another person, or a second click."""


def start(studio: Studio, values: Values) -> Updates:
    """Start a training run of a project."""
    _, config = _planned(studio, values)
    try:
        freed = studio.start_alone("train", config)
    except UserError as error:
        busy = holder(config)
        if busy is None or busy.kind != "train":
            raise
        raise UserError(what=error.what, where=error.where, fix=text.QUEUE_FIX) from error
    return {"train.run": Change(value=""), TOAST: text.sentences(text.TRAINING_STARTED, freed)}


def queue_run(studio: Studio, values: Values) -> Updates:
    """Queue a run with the form's settings: it starts when the runs before it have ended."""
    project, config = _planned(studio, values)
    enqueue(project, config)
    return _queue(project) | {TOAST: text.RUN_QUEUED}


def _planned(studio: Studio, values: Values) -> tuple[Project, TrainConfig]:
    """The project, which has a dataset, and the form's settings.

    Raises:
        UserError: it has none, or a value is not usable.
    """
    project = studio.project(values)
    config = training_config(project, values)
    if not project.train_csv.is_file():
        raise UserError(what=text.NO_DATASET, where=project.name, fix=text.NO_DATASET_FIX)
    return project, config


def queue_remove(studio: Studio, values: Values) -> Updates:
    """Remove a run from the queue."""
    project, name = _queued(studio, values)
    dequeue(project, name)
    return _queue(project)


def queue_move(places: int, studio: Studio, values: Values) -> Updates:
    """Move a queued run one place, to the front or to the back."""
    project, name = _queued(studio, values)
    move(project, name, places)
    return _queue(project)


queue_earlier, queue_later = partial(queue_move, -1), partial(queue_move, 1)


def _queued(studio: Studio, values: Values) -> tuple[Project, str]:
    """The chosen run of the queue.

    Raises:
        UserError: it does not wait any more, or none was chosen.
    """
    project, name = studio.project(values), str(values["train.queued"] or "")
    if name not in {run.name for run in read_queue(project)}:
        raise UserError(what=text.NOT_QUEUED, where=text.QUEUE, fix=text.NOT_QUEUED_FIX)
    return project, name


def _queue(project: Project) -> Updates:
    runs = read_queue(project)
    return queue_shown(runs, value=runs[0].name if runs else "")


def queue_shown(runs: list[QueuedRun], **chosen: str) -> Updates:
    """The list of queued runs, and what can be chosen of them."""
    choices = [(f"{number}. {run.name}", run.name) for number, run in enumerate(runs, start=1)]
    return {
        "train.queue": view.queue(runs),
        "train.queue_group": Change(visible=bool(runs)),
        "train.queued": Change(choices=choices, **chosen),
    }


def training_config(project: Project, values: Values) -> TrainConfig:
    """The settings of the form.

    Raises:
        UserError: naming every value that is not usable.
    """
    form, base = forms.by_field(values, FORM) | switches(values), _start_from(project, values)
    if plain_code(project_language(project)) == AMHARIC:
        folders = {entry.name: entry.folder for entry in bases_of(project)} | {str(project.ready): project.ready}
        folder = folders.get(base)
        if folder and read_about(folder).get("amharic_g2p"):
            # A base for Amharic in Latin letters reads nothing else: a second box to tick would only be a way to fail.
            form["use_amharic_g2p"] = True
    return forms.settings(
        TrainConfig, form, where=text.TRAIN_TAB, project=project.name, output=project.output, base=base
    )


def switches(values: Values) -> dict[str, Any]:
    """The checkboxes as settings: ticked takes the kind that is chosen under "more"."""
    kinds = {field: values[f"train.{component}"] for field, component in KINDS.items()}
    return {
        switch.field: (kinds.get(switch.field) or switch.on) if values[f"train.{switch.field}"] else switch.off
        for switch in CHECKBOXES
    }


def _ticked(settings: Any) -> Updates:
    """The checkboxes for such settings, and which kind of those that are on."""
    on = {switch.field: getattr(settings, switch.field) for switch in CHECKBOXES if switch.is_on(settings)}
    kinds = {f"train.{component}": on[field] for field, component in KINDS.items() if field in on}
    return {f"train.{switch.field}": switch.field in on for switch in CHECKBOXES} | kinds


def _start_from(project: Project, values: Values) -> str:
    """The base that the project's bar names, the project's own exported model, or a checkpoint of an earlier run.

    Raises:
        UserError: something else, or a model that is not there.
    """
    chosen = values.get("train.start_from") or ""
    if chosen == "":
        return checked_base(project, values["project.base"] or chosen_base(project))
    ref = ModelRef.parse(str(chosen))
    if ref.kind == "run":
        ref.resolve(project)
        return str(ref)
    if ref.kind != READY:
        raise UserError(what=text.NO_START.format(name=chosen), where=text.START_FROM, fix=text.START_FROM_FIX)
    if not has_weights(project.ready):
        raise UserError(what=text.NOT_EXPORTED, where=text.START_FROM, fix=text.NOT_EXPORTED_FIX)
    return str(project.ready)


def starts(project: Project) -> list[tuple[str, str]]:
    """What a training can start from, as (what people read, value)."""
    choices = [(text.START_FROM_BASE, "")]
    if has_weights(project.ready):
        choices.append((text.START_FROM_READY, READY))
    runs = sorted((run for run in project.runs.glob("*") if not run.is_symlink()), reverse=True)
    found = [ModelRef(kind="run", name=run.name, which=which) for run in runs for which in newest_of(run)]
    return choices + [(text.start_from_run(ref.name, ref.which), str(ref)) for ref in found]


def stop(studio: Studio, values: Values) -> Updates:
    """Stop a run after its current step and save a checkpoint. A second call, 3 s later or more, stops it at once."""
    job = shown_run(studio.project(values), values["train.run"])
    if job is None or not (job.alive or job.process_alive):
        raise UserError(what=text.NOTHING_RUNS, where=text.RUN, fix=text.NOTHING_RUNS_FIX)
    again = job.state == "stopping"
    job = jobs.stop(job.folder, same_for_s=SAME_STOP_S)
    return {TOAST: text.STOPPED_AT_ONCE if again and not job.alive else text.STOPPING}


def resume(studio: Studio, values: Values) -> Updates:
    """Resume a run from its last checkpoint, with its own settings."""
    project, job = _required_run(studio, values)
    if not job.alive:
        # A run that has just ended holds its device for another moment.
        jobs.wait(job.folder, END_OF_PROCESS_S)
    epochs = _more_epochs(job, values)
    config = TrainConfig(project=project.name, output=project.output, resume=job.folder, num_epochs=epochs)
    freed = studio.start_alone("train", config)
    return {TOAST: text.sentences(text.resumed(epochs), freed)}


def _required_run(studio: Studio, values: Values) -> tuple[Project, Job]:
    """The project, and the run that the page shows.

    Raises:
        UserError: there is none.
    """
    project = studio.project(values)
    job = shown_run(project, values["train.run"])
    if job is None:
        raise UserError(what=text.NO_RUN, where=text.RUN, fix=text.NO_RUN_FIX)
    return project, job


def _more_epochs(job: Job, values: Values) -> int | None:
    """How many epochs the run shall have now, where the form asks for more than it had; no other setting may change.

    The form may be filled with another run's settings: fewer than the run's own are no wish to cut it short.
    """
    field = fields_of(TrainConfig)["num_epochs"]
    try:
        epochs = forms.parse(field, values.get(f"{FORM}num_epochs"))
    except ValueError as error:
        raise UserError(what=str(error), where=text.TRAIN_TAB) from error
    if epochs is None:
        return None
    own = TrainConfig.load(job.folder / "config.yaml").num_epochs
    return epochs if own is None or epochs > own else None


def export(studio: Studio, values: Values) -> Updates:
    """Export a run to the project's ready/ folder; with `adapter` only a LoRA run's small voice file."""
    project, job = _required_run(studio, values)
    which = values["train.checkpoint"] or "best"
    config = forms.settings(
        ExportConfig,
        {"checkpoint": which},
        where=text.STEP_2_5,
        project=project.name,
        output=project.output,
        run=job.name,
        adapter=bool(values["train.adapter"]),
        tune_decoder={"fit": True, "keep": False}.get(values["train.decoder"]),
    )
    jobs.start("export", config)
    return {TOAST: text.EXPORT_STARTED}


def stop_export(studio: Studio, values: Values) -> Updates:
    """Stop an export that is running. The model that was exported before stays."""
    stop_running(studio, values, "export", where=text.STEP_2_5, fix=text.NO_EXPORT_RUNS_FIX)
    return {TOAST: text.EXPORT_STOPPED}


def recommended(base: str, use_case: UseCase = "production") -> tuple[Recommendation, Updates]:
    """What is recommended for a base on this machine, and the form's values for it."""
    found = recommend_settings(use_case, model=size_in(base_folder(base)) or XTTS_V2)
    known, wanted = fields_of(TrainConfig), found.settings
    form = {f"{FORM}{name}": forms.shown(known[name], wanted[name]) for name in RECOMMENDED if name in wanted}
    return found, form | _ticked(found)


def origins(origin: str, form: Updates) -> str:
    """Who set the form to which values, for the marks at settings that are not at their default, in the words of these.

    Args:
        origin: project, recommendation or file.
        form: new values of checkboxes and settings, by component.
    """
    settings = {element_id(key): value for key, value in form.items()}
    defaults = {element_id(key): default_of_form(key) for key in form_of(TrainConfig(project=""))}
    words = {"by": text.SET_BY, "default": text.DEFAULT_IS, "open": text.OPEN, "count": text.NUM_CHANGED}
    # Numbered: the same values may be set again after others.
    said = {"origin": origin, "settings": settings, "defaults": defaults, "words": words, "at": time.monotonic_ns()}
    return json.dumps(said)


def default_of_form(key: str) -> tuple[Any, str]:
    """What a checkbox or setting of the form holds by default, and that in words; no words for what is left open."""
    name = key.removeprefix(FORM).removeprefix("train.")
    kinds = {kind: field for field, kind in KINDS.items()}
    if name in kinds:
        value: Any = next(switch.on for switch in CHECKBOXES if switch.field == kinds[name])
        return value, text.choice(str(value))
    ticked = {switch.field: switch.is_on(TrainConfig) for switch in CHECKBOXES}
    if name in ticked:
        return ticked[name], text.ON if ticked[name] else text.OFF
    field = training_fields()[name]
    value = forms.shown(field, field.default)
    return ("", "") if value is None else (value, text.choice(str(value)))


def element_id(key: str) -> str:
    """The id on the page of a checkbox or a setting of the form."""
    name = key.removeprefix("train.")
    prefix = "" if name.startswith("set_") or name in KINDS.values() else "switch-"
    return f"{prefix}{name}".replace("_", "-")


def changes(values: Values, form: Updates) -> list[tuple[str, str, str]]:
    """What new values of the form change, as (setting, before, now).

    Args:
        values: what the form holds.
        form: new values of checkboxes and settings, by component.
    """
    ticked = {f"train.{switch.field}": switch for switch in CHECKBOXES}
    found = [
        (text.label(switch.field), *((text.ON, text.OFF) if before else (text.OFF, text.ON)))
        for key, switch in ticked.items()
        if key in form and (before := bool(values.get(key))) != bool(form[key])
    ]
    return found + [
        (text.label(name), old, new)
        for key, value in form.items()
        if key.startswith(FORM) and (name := key.removeprefix(FORM))
        if (old := _words(name, values.get(key))) != (new := _words(name, value))
    ]


def _words(name: str, value: Any) -> str:
    """A setting's value in the form, for people."""
    return text.when_empty(name) if value in (None, "") else text.choice(str(value))


def show_form(studio: Studio, values: Values) -> Updates:
    """Load the settings of the project's newest run into the form.

    A project without runs gets what is recommended for its base on this machine: the form and the advice never differ.
    """
    project = studio.project_or_none(values)
    if project is None:
        return {}
    config, open_ones = _newest_settings(project)
    choices, start = starts(project), READY if Path(config.base) == project.ready else config.base
    form, origin = form_of(config, open_ones), "project"
    if shown_run(project, "") is None:
        form, origin = form | recommended(chosen_base(project))[1], "recommendation"
    return form | {
        "train.run": "",
        "train.origins": origins(origin, form),
        # The project's base where what the run started from is not there any more.
        "train.start_from": Change(choices=choices, value=start if start in dict(choices).values() else ""),
    }


def form_of(config: TrainConfig, open_ones: Collection[str] = ()) -> Updates:
    """The form's checkboxes and fields for such settings.

    Args:
        config: the settings.
        open_ones: fields that were left to the base: they are left to it again.
    """
    known = training_fields()
    shown = {name: "" if name in open_ones else forms.in_form(known[name], getattr(config, name)) for name in known}
    kinds = {f"train.{KINDS[switch.field]}": switch.on for switch in CHECKBOXES if switch.field in KINDS}
    return {f"{FORM}{name}": value for name, value in shown.items()} | kinds | _ticked(config)


def _newest_settings(project: Project) -> tuple[TrainConfig, set[str]]:
    """The settings of a project's newest run, and which of them were left to the base; the defaults without a run."""
    job = shown_run(project, "")
    try:
        config = TrainConfig.load(job.folder / "config.yaml") if job else None
    except UserError:
        config = None
    if job is None or config is None:
        return TrainConfig(project=project.name), set()
    # The first start knows: after a resume, every setting counts as given.
    sources = next(read_events(job.events, kind="started"), {}).get("sources")
    return config, {name for name, who in sources.items() if who != "you"} if isinstance(sources, dict) else set()


RECOMMENDED = ("batch_size", "grad_accumulation", *(switch.field for switch in SWITCHES if switch.place == "more"))
"""Settings of the form that a recommendation may set."""
FORM_IDS = tuple(f"{FORM}{name}" for name in RECOMMENDED)


def shown_run(project: Project, chosen: object) -> Job | None:
    """The run that the page shows: the chosen one, or the newest.

    Raises:
        UserError: there is no run of the chosen name.
    """
    if isinstance(chosen, str) and chosen:
        try:
            return jobs.status(find_run(project, chosen))
        except UserError as error:
            raise UserError(what=error.what, where=text.RUN, fix=text.NO_SUCH_RUN_FIX) from error
    return next((job for job in jobs.list(project, kind="train")), None)
