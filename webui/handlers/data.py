"""Tab 1: store uploads, prepare the dataset, show the status of every clip."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from utils import jobs
from utils.dataset.edits.edit import current_clips, current_report
from utils.dataset.settings import PrepareConfig
from utils.dataset.sources.intake import (
    add_uploads,
    remove_uploads,
    to_be_replaced,
    upload_sources,
    uploaded_files,
)
from utils.dataset.storage.report import ClipReport
from utils.errors import UserError
from utils.project.paths import Project
from utils.project.projects import project_language
from utils.text.languages import plain_code
from webui import forms, text
from webui.change import TOAST, Change, Updates, Values
from webui.handlers import clip_list, clips
from webui.handlers.project import checked_base, chosen_base, stop_running
from webui.markup import join
from webui.studio import Studio
from webui.temporary import discard
from webui.views import report as view
from webui.views.parts import empty, framed, gigabytes, message

FORM = "data.set_"
"""Ids of components that hold a setting begin so."""
UPLOADS = ("data.uploads", "data.files_box", "data.files_list", "data.chosen_files")
"""What shows them."""


def upload(studio: Studio, values: Values) -> Updates:
    """Add uploaded files to a project."""
    files = values["data.files"]
    if not isinstance(files, list) or not files:
        return {}
    if not values["project.project"]:
        raise UserError(what=text.NO_PROJECT, where=text.PROJECT, fix=text.UPLOAD_WAITS)
    project = studio.project(values)
    # Those that were refused before are gone, but the field may still name them.
    given = [path for path in (Path(str(file)) for file in files) if path.is_file()]
    if not given:
        return {"data.files": None}
    replaced = to_be_replaced(project, given)
    try:
        placed = add_uploads(project, given, quota_bytes=studio.quota_bytes)
    except UserError:
        # What counts for no quota must not stay.
        discard(given)
        raise
    note = text.uploaded(len(placed), replaced)
    return {"data.files": None, TOAST: note} | uploads_shown(project)


def take_waiting(studio: Studio, values: Values) -> Updates:
    """Add files to a project that were uploaded before the project was created."""
    return upload(studio, values) if values["project.project"] else {}


def clear(studio: Studio, values: Values) -> Updates:
    """Delete a project's uploads. Its dataset stays."""
    project = studio.project(values)
    clips.require_idle(project)
    remove_uploads(project)
    return uploads_shown(project)


def remove(studio: Studio, values: Values) -> Updates:
    """Delete some of a project's uploads, by name. Its dataset stays."""
    project = studio.project(values)
    chosen = values["data.chosen_files"]
    there = {path.name for path in uploaded_files(project)}
    names = {name for name in chosen if isinstance(name, str)} & there if isinstance(chosen, list) else set()
    if not names:
        raise UserError(what=text.NO_FILE, where=text.UPLOADED_FILES, fix=text.NO_FILE_FIX)
    clips.require_idle(project)
    freed = remove_uploads(project, sorted(names))
    return uploads_shown(project) | {TOAST: text.removed(len(names), gigabytes(freed))}


def uploads_shown(project: Project | None, found: Sequence[ClipReport] = ()) -> Updates:
    """What was uploaded, and what became of it in a dataset."""
    files = uploaded_files(project) if project else {}
    names = [path.name for path in files][: view.MAX_LISTED]
    return {
        "data.uploads": view.uploads(files) if project else "",
        "data.files_box": Change(visible=bool(files)),
        "data.files_list": view.files(files, found),
        "data.chosen_files": Change(choices=names, value=[]),
    }


def offer_check(studio: Studio, values: Values) -> Updates:
    """Offer to check transcripts once there is a recognizer for it."""
    chosen = bool(values[f"{FORM}transcriber"])
    return {f"{FORM}check_transcripts": Change(visible=chosen, **({} if chosen else {"value": False}))}


def start(studio: Studio, values: Values) -> Updates:
    """Start a job that creates a project's dataset from its uploads or from a folder on the server."""
    project = studio.project(values)
    source, *also = _sources(studio, project, values["data.folder"])
    config = forms.settings(
        PrepareConfig,
        forms.by_field(values, FORM),
        where=text.DATA_TAB,
        project=project.name,
        output=project.output,
        input=source,
        also=tuple(also),
        language=values["project.language"] or project_language(project),
        base=checked_base(project, values["project.base"] or chosen_base(project)),
    )
    clips.require_idle(project)
    jobs.start("prepare", config)
    return {TOAST: text.PREPARING_STARTED}


def cancel(studio: Studio, values: Values) -> Updates:
    """Stop the job that creates the dataset. An earlier dataset stays as it was."""
    stop_running(studio, values, "prepare", where=text.DATA_TAB, fix=text.NOTHING_PREPARES_FIX)
    return {TOAST: text.CANCELLED}


def show(studio: Studio, values: Values) -> Updates:
    """Return a project's uploads and its dataset report."""
    project = studio.project_or_none(values)
    if project is None:
        return uploads_shown(None) | _nothing(empty(text.NO_PROJECT_YET))
    if not project.report.is_file():
        return uploads_shown(project) | _nothing(framed(text.DATASET, empty(text.NO_REPORT_YET)))
    try:
        found = replace(current_report(project), clips=current_clips(project))
    except UserError as error:
        return uploads_shown(project) | _nothing(message("error", error))
    page = project.dataset / "report.html"
    is_foreign = plain_code(project.language()) != "en" or "unknown characters" in found.totals["reasons"]
    return uploads_shown(project, found.clips) | {
        "language.panel": Change(visible=is_foreign),
        "data.report": view.report(
            found,
            project.language(),
            page if page.is_file() else None,
            base=values.get("project.base") or chosen_base(project),
        ),
        "data.lengths": view.lengths(found),
        **clip_list.shown(project, found.clips, values),
        **clips.refreshed(project, found.clips, values.get("data.clip"), values.get("data.shown")),
    }


def _nothing(words: str) -> Updates:
    return {
        "data.report": words,
        "data.lengths": join(),
        "data.list": Change(visible=False),
        **clips.CLOSED,
    }


def _sources(studio: Studio, project: Project, folder: object) -> list[Path]:
    """What to make the dataset from.

    Raises:
        UserError: nothing was uploaded and no folder was named, or one that may not be read from here.
    """
    if isinstance(folder, str) and folder.strip():
        return [allowed_folder(studio, folder.strip())]
    found = upload_sources(project)
    if not found:
        raise UserError(what=text.NO_UPLOADS, where=text.DATA_TAB, fix=text.NO_UPLOADS_FIX)
    return found


def allowed_folder(studio: Studio, name: str) -> Path:
    """A folder or file of the server below one of the allowed ones, links followed.

    Raises:
        UserError: it is not there, or lies elsewhere.
    """
    roots = [root.resolve() for root in (studio.output, *studio.input_roots)]
    try:
        path = Path(name).expanduser().resolve()
        inside = any(path.is_relative_to(root) for root in roots)
        exists = inside and path.exists()
    except (OSError, RuntimeError, ValueError):
        inside = exists = False
    # The same words whether or not it exists: the page must not reveal what else lies on the server.
    if not inside or not exists:
        raise UserError(
            what=text.NO_FOLDER.format(name=name),
            where=text.SERVER_FOLDER,
            fix=text.FOLDERS_BELOW.format(roots=", ".join(map(str, roots))),
        )
    return path
