"""Periodic updates of all tabs in one answer, read from disk and driver each time."""

import logging
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from utils import jobs
from utils.config import TrainConfig
from utils.errors import UserError
from utils.jobs import Job
from utils.jobs.run_queue import read_queue
from utils.project.paths import Project
from utils.project.projects import list_projects, project_language
from utils.runs.layout import VOICE_FILE, Which, find_run, newest_of
from utils.runs.list import speech_scores
from utils.runs.log import Event, last_lines, read_events
from utils.runs.progress import observe, progress_of
from utils.switches import CHECKBOXES
from utils.text.languages import AMHARIC, plain_code
from webui import forms, text
from webui.change import Change, Updates, Values
from webui.fields import fields_of
from webui.handlers import inference, sample, server
from webui.handlers.language import made_base, next_base
from webui.handlers.project import bases_of, kept
from webui.handlers.training import FORM, queue_shown, starts
from webui.markup import Markup, join
from webui.studio import Studio
from webui.views import gpu, parts, run
from webui.views import language as views_language
from webui.views.project import activity, steps_done

DEFAULTS = tuple(f"{FORM}{name}" for name in ("num_epochs", "learning_rate", "max_audio_length"))
"""Settings whose default belongs to the base."""
WHICH: tuple[Which, ...] = ("best", "last")
NUM_SAMPLES = 40
MAX_POINTS = 300
"""Points of a curve."""
NUM_TIMED = 50
NUM_COMPARED = 3
"""Other runs whose evaluations are drawn behind those of the one that is shown."""
LOG_LINES = 200

log = logging.getLogger(__name__)


def poll(studio: Studio, values: Values) -> Updates:
    """Return everything of the page that changes without a click; the page polls this."""
    project = studio.project_or_none(values)
    updates: Updates = {}
    questions = [partial(_project, studio, project, values) if project else partial(_no_project, studio, values)]
    questions += [
        partial(_download, studio),
        partial(_defaults, project, values["project.base"]),
    ]
    questions += [partial(inference.activity, studio, values), partial(server.shown, studio)]
    for question in questions:
        updates |= _answer(studio, question)
    return updates if "train.gpu" in updates else updates | _machine(studio, None, None)


def _answer(studio: Studio, question: Callable[[], Updates], otherwise: Updates | None = None) -> Updates:
    """A part of the page; one that fails shows a message, and does not take the others with it.

    Args:
        studio: the app.
        question: makes the part.
        otherwise: what stands there then: nothing may stay of what was shown before, such as another project's run.
    """
    try:
        return question()
    except (UserError, OSError) as error:
        # A folder that is being removed, or cannot be read at this moment: the next poll may.
        log.warning("cannot update a part of the page: %s", error)
        said: object = error
    except Exception as error:
        # Files of another make or another version hold unforeseen values; asked every two seconds, it is logged once.
        place = traceback.extract_tb(error.__traceback__)[-1]
        fault = f"{type(error).__name__} {place.filename}:{place.lineno}"
        if fault not in studio.faults:
            studio.faults.add(fault)
            log.exception("cannot update a part of the page")
        said = text.NOT_READ
    return (otherwise or {}) | {"project.activity": parts.message("error", said)}


def _no_project(studio: Studio, values: Values) -> Updates:
    """What to do first; nothing before the browser has restored its project."""
    if values["project.project"]:
        # It is not there any more: nothing of it stays on the page.
        return kept(studio, None) | _NO_DATASET | _nothing_shown(parts.empty(text.PROJECT_GONE)) | _NO_STEPS
    try:
        updates = kept(studio, None)
    except UserError as error:
        return {"project.activity": parts.message("error", error)}
    has_none = not updates["project.project"]["choices"]
    updates |= {"project.welcome": Change(visible=has_none), "project.sample": join()} | _NO_STEPS | _NO_DATASET
    if not has_none:
        return updates
    return updates | {
        "project.activity": activity(None, [], [], None),
        "train.progress": parts.empty(text.NO_PROJECT_YET),
    }


def _defaults(project: Project | None, base: Any) -> Updates:
    """The base's own defaults, shown where a field may be left empty."""
    entry = next((entry for entry in bases_of(project) if entry.name == base), None)
    known = fields_of(TrainConfig)
    own, base_name = (entry.training, text.base_name(entry.name)) if entry else ({}, "")
    return {
        key: Change(placeholder=text.default_of(forms.shown(known[name], own.get(name)), base_name))
        for key, name in ((key, key.removeprefix(FORM)) for key in DEFAULTS)
    }


def _project(studio: Studio, project: Project, values: Values) -> Updates:
    found = jobs.list(project, read=studio.read_job)
    runs = [job for job in found if job.kind == "train"]
    wanted = values["train.run"]
    chosen = _chosen(project, runs, wanted)
    # A run that is gone, or is another project's, is no longer chosen: buttons would act on another than is shown.
    is_gone = bool(wanted) and (chosen is None or chosen.name != wanted)
    updates: Updates = {
        "project.activity": _activity(studio, project, found),
        "project.welcome": Change(visible=False),
        "project.sample": sample.shown(studio, project, found),
        "train.run": Change(
            choices=[(text.NEWEST_RUN, ""), *((f"{j.name} ({text.STATES[j.state]})", j.name) for j in runs)],
            **({"value": ""} if is_gone else {}),
        ),
        "train.start_from": Change(choices=starts(project)),
    }
    updates |= _queue(studio, project)
    not_read = parts.message("error", text.NOT_READ)
    no_run = parts.empty(text.NO_RUN_YET if project.train_csv.is_file() else text.NO_DATASET_YET)
    questions: list[tuple[Callable[[], Updates], Updates]] = [
        (partial(kept, studio, project), {}),
        (partial(_dataset, studio, project, found, values["project.base"]), _NO_DATASET),
        (partial(_export, studio, project, found), {"train.exported": not_read}),
        (partial(_language, studio, project, found), {"language.progress": not_read}),
        (partial(_run, studio, chosen, runs) if chosen else partial(_nothing_shown, no_run), _nothing_shown(not_read)),
    ]
    for question, otherwise in questions:
        updates |= _answer(studio, question, otherwise)
    return updates | _steps(project, found, chosen)


def _activity(studio: Studio, project: Project, found: list[Job]) -> Markup:
    own = next((job for job in found if job.alive), None)
    done = progress_of(own, studio.log_of(own.events)) if own else None
    return activity(
        project, found, jobs.running(studio.output, read=studio.read_job), done, last_export_s(studio, project)
    )


def last_export_s(studio: Studio, project: Project) -> float | None:
    """Seconds of the newest export that finished, of any project, where the next step is the first of this one."""
    if next((step for step, is_done in steps_done(project).items() if not is_done), None) != "export":
        return None
    took = {
        job.ended or 0.0: seconds
        for other in list_projects(studio.output)
        for job in jobs.list(other, kind="export", read=studio.read_job)
        if job.state == "finished" and (seconds := _export_s(other, job)) is not None
    }
    return took[max(took)] if took else None


def _steps(project: Project, found: list[Job], run_shown: Job | None) -> Updates:
    """The bar's buttons: the next step is the primary one, and Stop stands where the step was while its job runs.

    Args:
        project: the project on the page.
        found: its jobs.
        run_shown: the run that tab 2 shows, which is what Stop and Export act on.
    """
    done, alive = steps_done(project, found), {job.kind: job for job in found if job.alive}
    following = next((name for name, is_done in done.items() if not is_done), "listen")
    primary = {name: "primary" if name == following else "secondary" for name in done}
    is_training = run_shown is not None and run_shown.alive
    is_stopping = run_shown is not None and run_shown.state == "stopping"
    can_export = run_shown is not None and bool(newest_of(run_shown.folder)) and "export" not in alive
    return {
        "data.start": Change(variant=primary["data"], interactive=True, visible="prepare" not in alive),
        "data.cancel": Change(visible="prepare" in alive),
        "train.start": Change(variant=primary["train"], interactive=done["data"], visible=not is_training),
        "train.stop": Change(visible=is_training, value=text.STOP_NOW if is_stopping else text.STOP),
        "train.export": Change(variant=primary["export"], interactive=can_export, visible="export" not in alive),
        "train.export_stop": Change(visible="export" in alive),
        "project.listen": Change(variant=primary["listen"], interactive=True),
    }


_NO_STEPS: Updates = {
    key: Change(interactive=False, visible=True) for key in ("data.start", "train.start", "train.export")
} | {
    **{key: Change(visible=False) for key in ("data.cancel", "train.stop", "train.export_stop")},
    "project.listen": Change(interactive=False),
}
"""The bar's buttons without a project."""
# Not empty, as the page begins: what changes is shown.
_NO_DATASET: Updates = {"data.progress": join(), "data.revision": "none", "data.fix_progress": join()}


def _queue(studio: Studio, project: Project) -> Updates:
    """The queued runs; while a training has the machine, another one can be queued."""
    queued = read_queue(project)
    is_busy = any(job.kind == "train" for job in jobs.running(studio.output, read=studio.read_job))
    return queue_shown(queued) | {
        "train.enqueue": Change(visible=is_busy or any(not run.fault for run in queued)),
    }


def _chosen(project: Project, runs: list[Job], name: Any) -> Job | None:
    """The run that was chosen; the newest when none was, or when it is gone."""
    newest = runs[0] if runs else None
    try:
        return jobs.status(find_run(project, name)) if isinstance(name, str) and name else newest
    except UserError:
        return newest


def _machine(studio: Studio, job: Job | None, memory: Event | None) -> Updates:
    reading = studio.monitor.now()
    return {"train.gpu": gpu.panel(reading, job, memory), "train.memory_plot": gpu.history(studio.monitor)}


def _run(studio: Studio, job: Job, runs: list[Job]) -> Updates:
    log = studio.log_of(job.events)
    memory = studio.since_start(job, "memory") or None if job.alive else None
    proof = studio.since_start(job, "optimizations").get("switches")
    switches = proof if isinstance(proof, dict) else {}
    evaluations = log.curve("eval", ["loss"], MAX_POINTS)
    steps = log.curve("step", ["loss", "audio_s", "step_s"], MAX_POINTS)
    others = [other for other in runs if other.name != job.name][:NUM_COMPARED]
    earlier = {other.name: studio.log_of(other.events).curve("eval", ["loss"], MAX_POINTS) for other in others}
    best = min((loss for loss in evaluations["loss"] if loss is not None), default=None)
    updates = _machine(studio, job if job.alive else None, memory)
    timed = log.tail(NUM_TIMED, kind="step", start=job.events_offset)
    newest, scores = newest_of(job.folder), speech_scores(studio.since_start(job, "speech_scores"))
    exportable = {which: scores.get(newest[which].step) if which in newest else None for which in WHICH}
    updates |= {
        f"train.badge_{switch.name}": run.badge_of(switches.get(switch.name), is_short=True) for switch in CHECKBOXES
    }
    return updates | {
        "train.proofs": run.proofs(switches),
        "train.progress": run.progress(job, progress_of(job, log), best, observe(job, log)),
        "train.loss_plot": run.losses(steps, evaluations, earlier),
        "train.speed_plot": join(run.details(job.folder, _started(studio, job), timed), run.speeds(steps)),
        "train.samples": run.samples(log.tail(NUM_SAMPLES, kind="sample"), job.folder),
        "train.log": "\n".join(last_lines(job.log, LOG_LINES)),
        **_actions(job, has_last="last" in newest, has_any=bool(newest)),
        "train.checkpoint": Change(choices=[(text.checkpoint_choice(w, score), w) for w, score in exportable.items()]),
    }


def _actions(job: Job | None, *, has_last: bool = False, has_any: bool = False) -> Updates:
    """Whether the run can be resumed or exported; what is disabled says why.

    Args:
        job: the run that is shown.
        has_last, has_any: whether it has a checkpoint to resume from, or one to export.
    """
    is_alive = job is not None and job.alive
    if job is None:
        no_resume, no_export = text.NO_RESUME_WITHOUT_RUN, text.NO_EXPORT_WITHOUT_RUN
    else:
        no_export = "" if has_any else text.NO_EXPORT_YET
        if is_alive:
            no_resume = text.NO_RESUME_RUNNING
        elif job.process_alive:
            no_resume = text.NO_RESUME_ENDING
        else:
            no_resume = "" if has_last else text.NO_RESUME_CHECKPOINT
    return {
        "train.resume": Change(interactive=not no_resume),
        "train.resume_why": parts.reason(no_resume),
        "train.export_why": parts.reason(no_export),
    }


def _started(studio: Studio, job: Job) -> Event | None:
    """What the run computes in and on now; who chose its settings, its very first start knows.

    After a resume all settings count as given: as the user's choice then count only those that differ from the first.
    """
    log = studio.log_of(job.events)
    now, first = log.last("started", start=job.events_offset), next(read_events(job.events, kind="started"), {})
    if not all(isinstance(e.get("config"), dict) for e in (now, first)):
        return now or None
    sources = first.get("sources")
    if not isinstance(sources, dict):
        return now
    changed = {name for name in sources if now["config"].get(name) != first["config"].get(name)}
    return now | {"sources": sources | dict.fromkeys(changed, "you")}


def _nothing_shown(why: Markup) -> Updates:
    return {f"train.badge_{switch.name}": run.badge_of(None) for switch in CHECKBOXES} | {
        "train.proofs": run.proofs({}),
        "train.progress": why,
        "train.loss_plot": join(),
        "train.speed_plot": join(),
        "train.samples": join(),
        "train.log": "",
        **_actions(None),
        "train.checkpoint": Change(choices=[(text.checkpoint_choice(which, None), which) for which in WHICH]),
    }


def _dataset(studio: Studio, project: Project, found: list[Job], base: Any) -> Updates:
    files = (project.report, project.train_csv, project.eval_csv)
    times = [str(path.stat().st_mtime_ns) for path in files if path.is_file()]
    revision = " ".join([project.name, str(base), *times])
    return {
        "data.progress": _progress(studio, _newest(found, "prepare")),
        "data.revision": revision,
        "data.fix_progress": _fix(studio, project, found),
    }


def _newest(found: list[Job], kind: str) -> Job | None:
    return next((job for job in found if job.kind == kind), None)


def _progress(studio: Studio, job: Job | None) -> Markup:
    """How far a job is; nothing without one."""
    return run.progress(job, progress_of(job, studio.log_of(job.events))) if job else join()


def _fix(studio: Studio, project: Project, found: list[Job]) -> str:
    """A clip that is being updated, or whose update failed; nothing once the dataset was prepared again since."""
    job = _newest(found, "fix")
    made = project.report.stat().st_mtime if project.report.is_file() else 0.0
    if job is None or job.state == "finished" or (not job.alive and (job.started or 0.0) < made):
        return join()
    return _progress(studio, job)


def _language(studio: Studio, project: Project, found: list[Job]) -> Updates:
    job = _newest(found, "language")
    made = made_base(project)
    return {
        "language.next": parts.small(text.NEXT_BASE.format(name=next_base(project))),
        "language.found": views_language.found(project),
        "language.progress": _progress(studio, job if job and job.state != "finished" else None),
        "language.latin": Change(visible=plain_code(project_language(project)) == AMHARIC),
        "language.adopt": Change(
            visible=made is not None, value=text.ADOPT.format(name=Path(made).name) if made else text.ADOPT_BASE
        ),
    }


def _download(studio: Studio) -> Updates:
    job = next(iter(jobs.list(studio.no_project, kind="download", read=studio.read_job)), None)
    return {"system.download_progress": _progress(studio, job)}


def _export(studio: Studio, project: Project, found: list[Job]) -> Updates:
    job = _newest(found, "export")
    if job is not None and job.state != "finished":
        return {"train.exported": _progress(studio, job)}
    model, voice = project.ready / "model.pth", project.ready / VOICE_FILE
    if not model.is_file():
        return {"train.exported": run.voice_file(voice)}
    # A full export keeps the file of an earlier run's voice.
    is_new = voice.is_file() and voice.stat().st_mtime >= model.stat().st_mtime
    exported = run.ready_model(project.ready, _export_s(project, job) if job else None)
    return {"train.exported": join(run.voice_file(voice) if is_new else None, exported)}


def _export_s(project: Project, job: Job) -> float | None:
    """Seconds of the export that made a project's model; None for another one, such as of a voice's file alone."""
    model = project.ready / "model.pth"
    if not (job.started and job.ended and model.is_file()):
        return None
    # Times of files may be whole seconds.
    return job.ended - job.started if job.started - 1 <= model.stat().st_mtime <= job.ended else None
