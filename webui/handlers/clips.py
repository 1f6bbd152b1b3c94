"""Tab 1, clip by clip: listen, mend the transcript, leave out, use again."""

from collections.abc import Callable
from pathlib import Path

from utils import jobs
from utils.dataset import edit
from utils.dataset.report import ClipReport
from utils.errors import UserError
from utils.paths import Project
from webui import text
from webui.change import ROW, TOAST, Change, Updates, Values
from webui.studio import Studio
from webui.views import report as view


def choose(studio: Studio, values: Values) -> Updates:
    """Show the clip of the row that was chosen."""
    project = studio.project(values["project.project"])
    row = values.get(ROW)
    name = row[0] if isinstance(row, list) and row else None
    found = next((clip for clip in edit.current_clips(project) if view.clip_name(clip) == name), None)
    return _shown(project, found) if found else {"data.clip_box": Change(visible=False)}


def save(studio: Studio, values: Values) -> Updates:
    """Save the transcript of a clip."""
    words = values["data.transcript"]
    return _edited(
        studio, values, lambda project, clip: edit.save_text(project, clip, str(words or "")), text.CLIP_SAVED
    )


def exclude(studio: Studio, values: Values) -> Updates:
    """Leave a clip out of training; it can be used again."""
    return _edited(studio, values, edit.exclude, text.CLIP_EXCLUDED)


def restore(studio: Studio, values: Values) -> Updates:
    """Use a clip again that was left out by hand."""
    return _edited(studio, values, edit.restore, text.CLIP_RESTORED)


def go_back(studio: Studio, values: Values) -> Updates:
    """Show the clip before the one that is shown."""
    return _neighbour(studio, values, -1)


def go_on(studio: Studio, values: Values) -> Updates:
    """Show the clip after the one that is shown."""
    return _neighbour(studio, values, 1)


def _edited(studio: Studio, values: Values, change: Callable[[Project, str], None], said: str) -> Updates:
    project = studio.project(values["project.project"])
    clip = _chosen(values)
    if any(job.alive for job in jobs.list(project, kind="prepare")):
        raise UserError(what=text.PREPARING_NOW, where=project.name, fix=text.PREPARING_NOW_FIX)
    change(project, clip)
    found = next(item for item in edit.current_clips(project) if item.clip == clip)
    return _shown(project, found) | {TOAST: said}


def _neighbour(studio: Studio, values: Values, step: int) -> Updates:
    project = studio.project(values["project.project"])
    clip = _chosen(values)
    clips = [item for item in edit.current_clips(project) if item.clip]
    at = next((number for number, item in enumerate(clips) if item.clip == clip), None)
    return _shown(project, clips[(at + step) % len(clips)]) if at is not None else {}


def _chosen(values: Values) -> str:
    clip = values["data.clip"]
    if not isinstance(clip, str) or not clip:
        raise UserError(what=text.NO_CLIP, where=text.DATA_TAB, fix=text.NO_CLIP_FIX)
    return clip


def _shown(project: Project, found: ClipReport) -> Updates:
    has_sound = _has_sound(project, found)
    is_used = found.status == "used"
    return {
        "data.clip_box": Change(visible=True),
        "data.clip_title": view.clip(found, has_sound=has_sound),
        "data.clip_sound": Change(value=str(project.dataset / found.clip) if has_sound else None, visible=has_sound),
        "data.transcript": Change(value=found.text, interactive=is_used),
        "data.save": Change(interactive=is_used),
        "data.exclude": Change(interactive=is_used),
        "data.restore": Change(interactive=edit.can_be_restored(found)),
        "data.clip": found.clip,
    }


def _has_sound(project: Project, found: ClipReport) -> bool:
    """A report that was edited by hand must not lead out of the dataset."""
    path: Path = project.dataset / found.clip
    return bool(found.clip) and path.resolve().is_relative_to(project.dataset.resolve()) and path.is_file()
