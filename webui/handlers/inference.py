"""Tab 3: speak, show and store takes, download models."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from utils.dataset.edits.edit import current_report
from utils.errors import UserError
from utils.options import SpeechSettings
from utils.project.paths import Project
from utils.speech.compare import MAX_MODELS, comparisons
from utils.speech.models import speaking_models
from utils.speech.pack import pack_ready, pack_take
from utils.speech.takes import Take, find_take, list_takes
from webui import forms, text
from webui.change import TOAST, Change, Updates, Values
from webui.handlers import voices
from webui.handlers.speech_form import FORM, chosen_model, chosen_voice, read_settings, read_text
from webui.markup import join
from webui.sound import address
from webui.studio import Studio
from webui.takes import MAX_TAKES
from webui.views import inference as view
from webui.views.parts import framed, message
from webui.views.run import worse_than_base

SPEAK_INPUTS = (
    "project.project",
    "inference.model",
    "inference.text",
    "inference.text_file",
    "inference.by_lines",
    "inference.voice",
    "inference.recording",
    "inference.clip",
    "inference.speaker",
    "inference.random_seed",
    f"{FORM}*",
    "inference.library_voice",
)
HIDDEN_OF_PROJECT = (
    "inference.zip",
    "inference.ready_zip",
    *(f"inference.side_{number}" for number in range(MAX_MODELS)),
)
BOXES = ("inference.compared", "inference.take_tools")
OF_PROJECT = (
    *HIDDEN_OF_PROJECT,
    *BOXES,
    *(f"inference.{name}" for name in ("speaker", "status", "current", "player", "whole")),
    *(f"inference.{name}" for name in ("compare_status", "trial", "a", "b", "votes", "voted")),
)
"""What the tab shows of one project's takes and comparisons, beside the lists to choose from."""
VOICE_FIELDS = ("recording", "clip", "speaker", "library_box")
"""What is asked for one kind of voice only; their names begin with it."""
MAX_CLIPS = 300
MAX_PLAYERS = 12
"""Takes that the page lists with a player; all are in the list to choose from."""
STOP_TIMEOUT_S = 20.0
"""How long a stopped take may continue with the code that is being computed, or with loading."""


def models(studio: Studio, values: Values) -> Updates:
    """List the models of a project, the last trained one first, and the voices of its dataset."""
    project = studio.project_or_none(values)
    if project is None:
        return {}
    choices = [
        (text.model_name(model.kind, Path(model.source).name, model.checkpoint, model.step), model.id)
        for model in speaking_models(project)
    ]
    ids = [identity for _, identity in choices]
    chosen, first = values["inference.model"], next(iter(ids), None)
    # Choices that were made for another project are no choices for this one, though both may have what they name.
    is_another = values["inference.listed"] not in ("", None, project.name)
    is_own_choice = chosen in ids and chosen != values["inference.offered"] and not is_another
    takes = [(take.label, take.id) for take in studio.takes.newest(project)]
    clips = _clips(project)
    is_own_clip = values["inference.clip"] in [clip for _, clip in clips] and not is_another
    first_clip = clips[0][1] if clips else None
    updates: Updates = {
        "inference.model": Change(choices=choices, value=chosen if is_own_choice else first),
        "inference.offered": first or "",
        "inference.listed": project.name,
        "inference.models": Change(choices=choices, **_nothing(is_another, [])),
        "inference.clip": Change(choices=clips, **({} if is_own_clip else {"value": first_clip})),
        "inference.voice_clips": Change(choices=clips, **_nothing(is_another, [])),
        **voices.listed(studio),
        "inference.comparison": Change(choices=comparison_choices(project), **_nothing(is_another)),
        "inference.take": Change(choices=takes, **_nothing(is_another)),
    }
    return updates | _nothing_of_project() if is_another else updates


def _nothing(is_another: bool, nothing: Any = None) -> dict[str, Any]:
    """The empty value of a list when its project is another one; otherwise its value stays."""
    return {"value": nothing} if is_another else {}


def _nothing_of_project() -> Updates:
    """What was spoken and compared in the project before is not shown with the next."""
    return {
        **dict.fromkeys(OF_PROJECT, None),
        **{key: Change(value=None, visible=False) for key in HIDDEN_OF_PROJECT},
        "inference.speaker": Change(choices=[], value=None),
        "inference.status": text.NOTHING_SPOKEN,
        "inference.compare_status": text.NO_COMPARISON,
        **dict.fromkeys(BOXES, Change(visible=False)),
        **dict.fromkeys(("inference.current", "inference.trial", "inference.votes", "inference.voted"), ""),
    }


def choose_voice(studio: Studio, values: Values) -> Updates:
    """Show the field of the selected kind of voice."""
    kind = values["inference.voice"]
    return {f"inference.{name}": Change(visible=name.startswith(str(kind))) for name in VOICE_FIELDS}


def speak(studio: Studio, values: Values) -> Iterator[Updates]:
    """Speak a text. The first sentence is returned as soon as it is spoken, the whole recording at the end.

    The page plays it from its first words on. With `by_lines`, each line becomes a recording of its own, and the call
    returns at once.
    """
    project = studio.project(values)
    lines = read_text(values)
    reference, name, speaker = chosen_voice(project, values)
    take = studio.generations.submit(
        project,
        lines,
        model=chosen_model(values),
        settings=read_settings(project, values),
        reference=reference,
        reference_name=name,
        speaker=speaker,
    )
    if len(lines) > 1:
        yield {**_shown(take), TOAST: text.take_started(len(lines))}
        return
    yield from follow(studio, take)


def say_busy(studio: Studio, values: Values) -> Updates:
    """Say why a page that is still speaking does not begin again: its next click would only wait."""
    project = studio.project_or_none(values)
    if project is None or not values["inference.current"]:
        return {}
    try:
        take = find_take(project, str(values["inference.current"]))
    except UserError:
        return {}
    return {TOAST: text.STILL_SPEAKING} if take.is_live else {}


def resume(studio: Studio, values: Values) -> Iterator[Updates]:
    """Resume a take: speak its missing lines."""
    project, take = chosen_take(studio, values)
    yield from follow(studio, studio.generations.resume(project, take.id))


def follow(studio: Studio, take: Take) -> Iterator[Updates]:
    """Yield a take as it grows: the page plays it meanwhile, and shows the whole recording at the end.

    The guards repeat no sentence of a single text, because it was played: what they found is shown at the sentence.
    """
    # Drawn again, so that a take that is resumed is played again.
    sound = f"{address(take.folder.parent.parent.name, take.id)}?{secrets.token_hex(4)}"
    yield {**_shown(take, sound), "inference.player": None, "inference.whole": None}
    playing = False
    for newest in studio.generations.follow(take):
        take = newest
        updates = _shown(take, sound)
        if take.sentences and not playing:
            playing = True
            updates |= {"inference.player": _sound(take)}
        yield updates
    last = _shown(take, sound) | {"inference.speaker": Change(choices=studio.generations.speakers(take.model))}
    if take.state == "failed" and not take.sentences:
        raise UserError(what=take.message, where=text.INFERENCE_TAB, fix=text.TAKE_FAILED_FIX)
    yield last | {"inference.whole": str(take.wavs[0]) if take.wavs else None}


def stop(studio: Studio, values: Values) -> Updates:
    """Stop speaking a take. Its finished sentences are kept, and returned as one recording."""
    project = studio.project(values)
    live = [take for take in list_takes(project, limit=MAX_TAKES) if take.is_live]
    chosen = [take for take in live if take.id == values["inference.current"]] or live
    if not chosen:
        raise UserError(what=text.NOTHING_RUNS, where=text.INFERENCE_TAB, fix=text.NOTHING_SPEAKS_FIX)
    for take in chosen:
        studio.generations.stop(take.folder)
    # The page that began it may not follow it any more: its final state is shown here.
    ended = chosen[0]
    for newest in studio.generations.follow(ended, timeout_s=STOP_TIMEOUT_S):
        ended = newest
        if not ended.is_live:
            break
    return _shown(ended) | {"inference.whole": str(ended.wavs[0]) if ended.wavs else None}


def show_take(studio: Studio, values: Values) -> Updates:
    """Return a take with its settings and its audio."""
    _, take = chosen_take(studio, values)
    whole = str(take.wavs[0]) if take.wavs else (_sound(take) if take.sentences else None)
    shown = _shown(take) | {"inference.status": view.join(view.take(take), view.settings(take))}
    shown |= {"inference.take_tools": Change(visible=True)}
    return shown | {"inference.whole": whole, "inference.player": None}


def reuse(studio: Studio, values: Values) -> Updates:
    """Load the text, model and settings of a take into the form."""
    _, take = chosen_take(studio, values)
    updates: Updates = {
        # Sliders take numbers; other fields what `forms` shows.
        f"{FORM}{name}": value if isinstance(value, float) else "" if value is None else forms.shown(field, value)
        for name, field in forms.fields_of(SpeechSettings).items()
        for value in [getattr(take.settings, name)]
    }
    return updates | {
        "inference.text": "\n".join(line.text for line in take.lines),
        "inference.model": take.model,
        "inference.by_lines": len(take.lines) > 1,
        "inference.random_seed": False,
    }


def pack(studio: Studio, values: Values) -> Updates:
    """Return a ZIP file of a take: recordings, texts and settings."""
    _, take = chosen_take(studio, values)
    return {"inference.zip": Change(value=str(pack_take(take)), visible=True)}


def pack_model(studio: Studio, values: Values) -> Updates:
    """Return a ZIP file of the project's exported model."""
    packed = pack_ready(studio.project(values))
    return {"inference.ready_zip": Change(value=str(packed), visible=True)}


def activity(studio: Studio, values: Values) -> Updates:
    """What the speaking process does, and takes that are being spoken; asked every few seconds."""
    queue = studio.generations
    updates: Updates = {"inference.worker": view.worker(queue.worker.state, queue.worker.device, queue.num_waiting)}
    project = studio.project_or_none(values)
    if project is None:
        return updates
    takes = studio.takes.newest(project)
    live = [take.progress for take in takes if take.progress is not None]
    listed = framed(text.TAKES, *live, *(take.listed for take in takes[:MAX_PLAYERS]))
    return updates | {
        "inference.progress": join(worse_than_base(project.ready), listed if takes else message("hint", text.NO_TAKES)),
        "inference.stop": Change(interactive=any(take.live is not None for take in takes)),
        "inference.take": Change(choices=[(take.label, take.id) for take in takes]),
    }


def comparison_choices(project: Project) -> list[tuple[str, str]]:
    """The comparisons of a project as (what people read, id)."""
    return [(identity[:15], identity) for identity in comparisons(project)]


def _clips(project: Project) -> list[tuple[str, str]]:
    """Clips of the dataset as (what people read, path in the dataset), the longest first."""
    try:
        report = current_report(project)
    except UserError:
        return []
    used = sorted((clip for clip in report.clips if clip.status == "used"), key=lambda clip: -clip.seconds)
    return [(f"{clip.seconds:.1f} s · {clip.text[:60]}", clip.clip) for clip in used[:MAX_CLIPS]]


def chosen_take(studio: Studio, values: Values) -> tuple[Project, Take]:
    """Project and take of the list.

    Raises:
        UserError: none is chosen, or it is not there any more.
    """
    project, take = studio.project(values), values["inference.take"]
    return project, find_take(project, forms.required(take, what=text.NO_TAKE, where=text.TAKES, fix=text.NO_TAKE_FIX))


def _shown(take: Take, sound: str | None = None) -> Updates:
    return {"inference.status": view.take(take, sound=sound), "inference.current": take.id}


def _sound(take: Take) -> str:
    return str(take.folder / take.sentences[0].file)
