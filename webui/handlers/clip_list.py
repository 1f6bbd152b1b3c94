"""Tab 1, the list of clips: find, sort, turn pages, change all that were found, undo."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

from utils import jobs
from utils.dataset.edits import edit
from utils.dataset.edits.browse import USED, Order, find_clips, kinds
from utils.dataset.edits.edit import FixConfig
from utils.dataset.storage.report import ClipReport
from utils.errors import UserError
from utils.project.paths import Project
from webui import text
from webui.change import TOAST, Change, Updates, Values
from webui.handlers import clips
from webui.studio import Studio
from webui.views import report as view

QUERY = ("data.find", "data.kind", "data.order", "data.page")
"""Fields that say which clips are wanted."""
LIST = (
    "data.clips",
    "data.found",
    "data.kind",
    "data.page",
    "data.page_back",
    "data.page_on",
    "data.exclude_found",
    "data.restore_found",
    "data.accept_found",
    "data.undo",
    "data.list",
)
"""What shows them."""
PAGE_SIZE = 100
MAX_ACCEPTED = 1_000
"""Clips that one job is given by name."""


def turn(step: int | None, studio: Studio, values: Values) -> Updates:
    """Show the first page of the clips that match, or another one."""
    project = studio.project_or_none(values)
    if project is None or not project.report.is_file():
        return {}
    page = 0 if step is None else _page(values) + step
    return shown(project, edit.current_clips(project), {**values, "data.page": page})


find, turn_back, turn_on = (partial(turn, step) for step in (None, -1, 1))


def shown(project: Project, all_clips: Sequence[ClipReport], values: Values) -> Updates:
    """The list as a query finds it among a dataset's clips."""
    query, counts = _query(values), kinds(all_clips)
    query["kind"] = kind = query["kind"] if query["kind"] in counts else ""
    found, num_undoable = find_clips(all_clips, **query), edit.num_undoable(project)
    last = max(0, len(found) - 1) // PAGE_SIZE
    page = min(max(_page(values), 0), last)
    on_page = found[page * PAGE_SIZE :][:PAGE_SIZE]
    return {
        "data.list": Change(visible=True),
        "data.clips": Change(value=view.rows(on_page), headers=list(text.CLIP_COLUMNS)),
        "data.found": view.found(page * PAGE_SIZE + 1, len(on_page), len(found), len(all_clips)),
        "data.kind": Change(choices=text.clip_kinds(counts), value=kind),
        "data.page": page,
        "data.page_back": Change(visible=last > 0, interactive=page > 0),
        "data.page_on": Change(visible=last > 0, interactive=page < last),
        "data.exclude_found": Change(visible=bool(query["words"] or kind)),
        "data.restore_found": Change(visible=any(map(edit.can_be_restored, found))),
        "data.accept_found": Change(visible=any(map(clips.can_be_accepted, found))),
        "data.undo": Change(visible=num_undoable > 0, value=text.undo_edits(num_undoable)),
    }


def exclude_found(studio: Studio, values: Values) -> Updates:
    """Exclude every clip in use that matches, on all pages."""
    return _edited(studio, values, edit.exclude, lambda clip: clip.status == USED, text.EXCLUDE_FOUND)


def restore_found(studio: Studio, values: Values) -> Updates:
    """Restore every excluded clip that matches, on all pages."""
    return _edited(studio, values, edit.restore, edit.can_be_restored, text.RESTORE_FOUND)


def accept_found(studio: Studio, values: Values) -> Updates:
    """Keep every matching clip that was dropped or marked for review because of a measure, in a job of its own."""
    project = studio.project(values)
    names = [clip.id for clip in _matching(project, values) if clip.id and clips.can_be_accepted(clip)]
    if not names:
        raise UserError(what=text.NOTHING_TO_CHANGE, where=text.ACCEPT_FOUND, fix=text.NOTHING_TO_CHANGE_FIX)
    clips.require_idle(project)
    now, later = names[:MAX_ACCEPTED], len(names) - MAX_ACCEPTED
    config = FixConfig(project=project.name, output=project.output, fix="accept", clip=now[0], also=tuple(now[1:]))
    jobs.start("fix", config)
    return {TOAST: text.accepting(len(now), max(later, 0))}


def undo(studio: Studio, values: Values) -> Updates:
    """Take back the last transcript edit, exclusion or restoration of this dataset; the last 20 are kept."""
    project = studio.project(values)
    clips.require_idle(project)
    kind, changed = edit.undo(project)
    return _after(project, values) | {TOAST: text.undone(kind, len(changed))}


def _edited(
    studio: Studio,
    values: Values,
    change: Callable[..., None],
    fits: Callable[[ClipReport], bool],
    button: str,
) -> Updates:
    project = studio.project(values)
    names = [clip.clip for clip in _matching(project, values) if clip.clip and fits(clip)]
    if not names:
        raise UserError(what=text.NOTHING_TO_CHANGE, where=button, fix=text.NOTHING_TO_CHANGE_FIX)
    clips.require_idle(project)
    change(project, *names)
    return _after(project, values) | {TOAST: text.changed(len(names))}


def _after(project: Project, values: Values) -> Updates:
    """List and chosen clip after an edit."""
    now = edit.current_clips(project)
    chosen = clips.refreshed(project, now, values.get("data.clip"), values.get("data.shown"))
    return shown(project, now, values) | chosen


def _matching(project: Project, values: Values) -> list[ClipReport]:
    return find_clips(edit.current_clips(project), **_query(values))


def _query(values: Values) -> dict[str, Any]:
    """What the fields ask `find_clips` for; what scripts may send instead of that finds everything."""
    words, kind, order = (values.get(name) for name in QUERY[:3])
    return {
        "words": words if isinstance(words, str) else "",
        "kind": kind if isinstance(kind, str) else "",
        "order": order if order in get_args(Order) else "prepared",
    }


def _page(values: Values) -> int:
    """The page that is shown, counted from 0."""
    page = values.get("data.page")
    return int(page) if isinstance(page, int | float) and abs(page) < 1e9 else 0
