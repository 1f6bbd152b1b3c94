"""Tab 1, the list of clips: find, sort, turn pages, change all that were found, undo."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import get_args

from utils import jobs
from utils.dataset.edits import edit
from utils.dataset.edits.browse import USED, ClipQuery, FoundClips, Order, find_clips, kinds
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
MAX_ACCEPTED = 1_000
"""Clips that one job is given by name."""


def find(studio: Studio, values: Values) -> Updates:
    """Show the first page of the clips that match."""
    return _turned(studio, values, page=0)


def turn(step: int, studio: Studio, values: Values) -> Updates:
    """Show another page of them."""
    return _turned(studio, values, page=_query(values).page + step)


turn_back, turn_on = partial(turn, -1), partial(turn, 1)


def shown(project: Project, all_clips: Sequence[ClipReport], values: Values) -> Updates:
    """The list as a query finds it among a dataset's clips."""
    query, counts = _query(values), kinds(all_clips)
    kind = query.kind if query.kind in counts else ""
    found = find_clips(all_clips, ClipQuery(words=query.words, kind=kind, order=query.order, page=query.page))
    num_undoable = edit.num_undoable(project)
    return {
        "data.list": Change(visible=True),
        "data.clips": Change(value=view.rows(found.clips), headers=list(text.CLIP_COLUMNS)),
        "data.found": view.found(found, len(all_clips)),
        "data.kind": Change(choices=text.clip_kinds(counts), value=kind),
        "data.page": found.page,
        "data.page_back": Change(visible=found.num_pages > 1, interactive=found.page > 0),
        "data.page_on": Change(visible=found.num_pages > 1, interactive=found.page + 1 < found.num_pages),
        "data.exclude_found": Change(visible=bool(query.words or kind)),
        "data.restore_found": Change(visible=any(map(edit.can_be_restored, found.matching))),
        "data.accept_found": Change(visible=any(map(clips.can_be_accepted, found.matching))),
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
    project = studio.project(values["project.project"])
    names = [clip.id for clip in _matching(project, values).matching if clip.id and clips.can_be_accepted(clip)]
    if not names:
        raise UserError(what=text.NOTHING_TO_CHANGE, where=text.ACCEPT_FOUND, fix=text.NOTHING_TO_CHANGE_FIX)
    clips.require_idle(project)
    now, later = names[:MAX_ACCEPTED], len(names) - MAX_ACCEPTED
    config = FixConfig(project=project.name, output=project.output, fix="accept", clip=now[0], also=tuple(now[1:]))
    jobs.start("fix", config)
    return {TOAST: text.accepting(len(now), max(later, 0))}


def undo(studio: Studio, values: Values) -> Updates:
    """Take back the last transcript edit, exclusion or restoration of this dataset; the last 20 are kept."""
    project = studio.project(values["project.project"])
    clips.require_idle(project)
    done = edit.undo(project)
    return _after(project, values) | {TOAST: text.undone(done.kind, len(done.clips))}


def _turned(studio: Studio, values: Values, *, page: int) -> Updates:
    project = studio.project_or_none(values["project.project"])
    if project is None or not project.report.is_file():
        return {}
    return shown(project, edit.current_clips(project), {**values, "data.page": page})


def _edited(
    studio: Studio,
    values: Values,
    change: Callable[..., None],
    fits: Callable[[ClipReport], bool],
    button: str,
) -> Updates:
    project = studio.project(values["project.project"])
    names = [clip.clip for clip in _matching(project, values).matching if clip.clip and fits(clip)]
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


def _matching(project: Project, values: Values) -> FoundClips:
    return find_clips(edit.current_clips(project), _query(values))


def _query(values: Values) -> ClipQuery:
    """The query that the fields hold; what scripts may send instead of one finds everything."""
    words, kind, order, page = (values.get(name) for name in QUERY)
    return ClipQuery(
        words=words if isinstance(words, str) else "",
        kind=kind if isinstance(kind, str) else "",
        order=next((known for known in get_args(Order) if known == order), "prepared"),
        page=int(page) if isinstance(page, int | float) and abs(page) < 1e9 else 0,
    )
