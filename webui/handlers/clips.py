"""Tab 1, single clips: listen, edit the transcript, exclude, restore, cut."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from utils import jobs
from utils.dataset.edits import edit
from utils.dataset.edits.edit import FixConfig, FixKind
from utils.dataset.storage.report import BY_HAND, ClipReport
from utils.errors import UserError
from utils.project.paths import Project
from webui import forms, text
from webui.change import ROW, TOAST, Change, Updates, Values
from webui.handlers import recut
from webui.studio import Studio
from webui.views import report as view

FIXED = ("clip", "fix", "project", "output")
"""Settings of a fix that the page gives itself."""
CUT = ("data.start_s", "data.end_s", "data.at_s", "data.text_before", "data.text_after", *recut.EDGES)
TYPED = ("data.transcript", *CUT)
"""Fields of a clip that a person may be filling in."""
_FROM = "\nfrom "
"""Before the id of the clip that the one shown was made from."""
CLOSED: Updates = {"data.clip_box": Change(visible=False), "data.clip": "", "data.shown": ""}
"""No clip is shown."""


def choose(studio: Studio, values: Values) -> Updates:
    """Show the selected clip: its audio, its transcript and what can be done with it."""
    project = studio.project(values)
    row = values.get(ROW)
    wanted = [str(cell) for cell in row] if isinstance(row, list) and row else [""]
    named = [clip for clip in edit.current_clips(project) if view.clip_name(clip) == wanted[-1]]
    # Excluded clips of one recording may share its name: the other columns distinguish them.
    found = max(
        named,
        key=lambda clip: sum(a == str(b) for a, b in zip(wanted, view.rows([clip])[0], strict=False)),
        default=None,
    )
    return _shown(project, found) if found else CLOSED


def apply(studio: Studio, values: Values) -> Updates:
    """Save what the form changed: the transcript and the edges, or a split where the transcript has a bar."""
    before, bar, after = str(values["data.transcript"] or "").partition("|")
    project = studio.project(values)
    found = _find(project, _chosen(project, values))
    is_moved = found is not None and recut.moved(found, values)
    if bar and is_moved:
        raise UserError(what=text.SPLIT_AND_MOVED, where=text.CUT_TITLE, fix=text.SPLIT_AND_MOVED_FIX)
    if bar:
        return split(studio, {**values, "data.text_before": before.strip(), "data.text_after": after.strip()})
    if found is None or not is_moved:
        return save(studio, values)
    saved = save(studio, values) if before != found.text else {}
    # Not the edges: they hold what is wanted until the job has moved them.
    return {key: value for key, value in saved.items() if key not in CUT} | move_edges(studio, values)


def save(studio: Studio, values: Values) -> Updates:
    """Replace the transcript of a clip."""
    words = str(values["data.transcript"] or "")

    def change(project: Project, clip: str) -> None:
        found, shown = _find(project, clip), values.get("data.shown")
        # Scripts name a clip without having been shown it.
        if found and shown and shown != _mark(project, found) and words != found.text:
            raise UserError(what=text.CLIP_CHANGED, where=clip, fix=text.CLIP_CHANGED_FIX)
        edit.save_text(project, clip, words)

    return _edited(studio, values, change, text.CLIP_SAVED)


def exclude(studio: Studio, values: Values) -> Updates:
    """Exclude a clip from training. It can be restored."""
    return _edited(studio, values, edit.exclude, text.CLIP_EXCLUDED)


def restore(studio: Studio, values: Values) -> Updates:
    """Restore an excluded clip, or undo a clip's trim, split, merge or acceptance."""
    project = studio.project(values)
    clip = _chosen(project, values)
    found = _find(project, clip)
    if found is None or edit.can_be_restored(found):
        return _edited(studio, values, edit.restore, text.CLIP_RESTORED)
    return _start_fix(project, "restore", found.made_from[0] if found.made_from else clip, {})


def fix(kind: FixKind, studio: Studio, values: Values) -> Updates:
    """Trim a clip, split it, merge it with the next one, or keep it as it is, in a job of its own."""
    project = studio.project(values)
    return _start_fix(project, kind, _chosen(project, values), forms.by_field(values, "data."))


def move_edges(studio: Studio, values: Values) -> Updates:
    """Move the start and end of a clip within its recording, in a job of its own."""
    project = studio.project(values)
    times = {name: values.get(field) for name, field in zip(("start_s", "end_s"), recut.EDGES, strict=True)}
    return _start_fix(project, "recut", _chosen(project, values), times)


accept, trim, split, merge = (partial(fix, kind) for kind in ("accept", "trim", "split", "merge"))


def _start_fix(project: Project, kind: FixKind, clip: str, form: Values) -> Updates:
    found = _find(project, clip)
    if found is None:
        # Reported here, not by a process that takes seconds to start.
        raise UserError(what=text.NO_SUCH_CLIP.format(name=clip), where=project.name, fix=text.NO_CLIP_FIX)
    config = forms.settings(
        FixConfig,
        {name: value for name, value in form.items() if name not in FIXED},
        where=text.CUT_TITLE,
        project=project.name,
        output=project.output,
        clip=clip,
        fix=kind,
    )
    recut.check(found, config)
    require_idle(project)
    jobs.start("fix", config)
    return {TOAST: text.FIX_STARTED}


def refreshed(project: Project, clips: Sequence[ClipReport], clip: object, shown: object) -> Updates:
    """The clip that is shown after the dataset changed; what is being typed stays, unless it belongs to other words.

    Args:
        project: whose dataset.
        clips: its clips as they are now.
        clip: path of the one that is shown; empty when none is.
        shown: whose clip that was, and its words on disk then; see `_mark`.
    """
    named = [item for item in clips if clip and item.clip == clip]
    found = max(named, key=lambda item: item.status == "used", default=None) or _cut_from(clips, clip, shown)
    if found is None or not isinstance(shown, str) or shown.partition("\n")[0] != project.name:
        # Clips are named after their sound: another project with the same recordings has one of this name, too.
        return CLOSED
    cut = next((item for item in clips if found.id in item.made_from), None)
    if found.reason == "replaced" and cut is not None and shown == _mark(project, replace(found, reason="")):
        # It was cut while it was shown: what was made of it takes its place, with what is being typed.
        updates = _shown(project, cut)
        return updates | ({"data.transcript": Change(interactive=True)} if cut.text == found.text else {})
    updates = _shown(project, found)
    is_same = shown == _mark(project, found)
    return {key: value for key, value in updates.items() if key not in TYPED} if is_same else updates


def can_be_accepted(found: ClipReport) -> bool:
    """Whether a measure speaks against a clip that was not accepted so far."""
    return found.reason == "flagged" or bool(found.status == "used" and found.flags and not found.accepted)


def _mark(project: Project, found: ClipReport) -> str:
    """Which words the fields of a clip were filled with, and whether it was cut since."""
    parent = f"{_FROM}{found.made_from[0]}" if found.made_from else ""
    return f"{project.name}\n{found.text}" + ("\nreplaced" if found.reason == "replaced" else "") + parent


def _cut_from(clips: Sequence[ClipReport], clip: object, shown: object) -> ClipReport | None:
    """What the clip that is shown was made from, once that cut was undone and the clip is no more."""
    parent = shown.rpartition(_FROM)[2] if clip and isinstance(shown, str) and _FROM in shown else ""
    return next((item for item in clips if parent and item.id == parent), None)


def _edited(studio: Studio, values: Values, change: Callable[[Project, str], None], said: str) -> Updates:
    project = studio.project(values)
    clip = _chosen(project, values)
    require_idle(project)
    change(project, clip)
    found = _find(project, clip)
    assert found is not None, "it was changed just now"
    return _shown(project, found) | {TOAST: said}


def require_idle(project: Project) -> None:
    """Do nothing when no other process writes the dataset.

    Raises:
        UserError: it is being created, or a clip is being updated.
    """
    busy = {job.kind for job in jobs.list(project) if job.alive}
    if "prepare" in busy:
        raise UserError(what=text.PREPARING_NOW, where=project.name, fix=text.PREPARING_NOW_FIX)
    if "fix" in busy:
        raise UserError(what=text.UPDATING_NOW, where=project.name, fix=text.UPDATING_NOW_FIX)


def _find(project: Project, clip: str) -> ClipReport | None:
    named = [item for item in edit.current_clips(project) if clip and clip in (item.clip, item.id)]
    # A clip that was cut at other times may have the same sound once silence was removed, and then shares its wav.
    return max(named, key=lambda item: item.status == "used", default=None)


def walk(step: int, studio: Studio, values: Values) -> Updates:
    """Show the previous clip, or the next one."""
    project = studio.project(values)
    clip = _chosen(project, values)
    clips = [item for item in edit.current_clips(project) if item.clip]
    at = next((number for number, item in enumerate(clips) if item.clip == clip), None)
    return _shown(project, clips[(at + step) % len(clips)]) if at is not None else {}


go_back, go_on = partial(walk, -1), partial(walk, 1)


def _chosen(project: Project, values: Values) -> str:
    """Path of the clip that is shown.

    Raises:
        UserError: none is, or it was shown for another project, whose words would be written into this one.
    """
    clip = forms.required(values["data.clip"], what=text.NO_CLIP, where=text.DATA_TAB, fix=text.NO_CLIP_FIX)
    # Scripts name a clip without having been shown it.
    shown = values.get("data.shown")
    if isinstance(shown, str) and shown.partition("\n")[0] not in ("", project.name):
        raise UserError(what=text.CLIP_OF_ANOTHER, where=project.name, fix=text.NO_CLIP_FIX)
    return clip


def _shown(project: Project, found: ClipReport) -> Updates:
    path: Path = project.dataset / found.clip
    # A report that was edited by hand must not lead out of the dataset.
    has_sound = bool(found.clip) and path.resolve().is_relative_to(project.dataset.resolve()) and path.is_file()
    is_used = found.status == "used"
    # Cut at the space nearest to the middle: where to begin when two clips are made of one.
    spaces = [at for at, char in enumerate(found.text) if char == " "]
    at = min(spaces, key=lambda space: abs(space - len(found.text) / 2), default=len(found.text))
    before, after = found.text[:at], found.text[at + 1 :]
    is_excluded = found.reason == "excluded"
    # By hand, but for the transcript: at once or by a job.
    can_be_restored = found.reason in BY_HAND or found.accepted or bool(found.made_from)
    return {
        "data.clip_box": Change(visible=True),
        "data.clip_title": view.clip(found, has_sound=has_sound),
        "data.clip_sound": Change(value=str(project.dataset / found.clip) if has_sound else None, visible=has_sound),
        "data.transcript": Change(value=found.text, interactive=is_used),
        "data.save": Change(interactive=is_used),
        "data.exclude": Change(visible=is_used),
        "data.restore": Change(visible=can_be_restored, value=text.RESTORE_CLIP if is_excluded else text.UNDO_EDIT),
        "data.accept": Change(visible=can_be_accepted(found)),
        "data.merge": Change(interactive=is_used and has_sound),
        "data.clip": found.clip,
        "data.shown": _mark(project, found),
        "data.start_s": 0,
        "data.end_s": round(found.seconds, 2),
        "data.at_s": round(found.seconds / 2, 2),
        "data.text_before": before,
        "data.text_after": after,
        **recut.shown(project, found, has_sound=has_sound),
    }
