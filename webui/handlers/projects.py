"""List the projects of the output folder, read from their files each time."""

import json
from pathlib import Path
from typing import Any

from utils.errors import UserError
from utils.paths import Project, open_project
from webui import text

Row = list[str | int]


def list_projects(output: Path) -> dict[str, Any]:
    """Show every project with its clips, its runs and whether it was exported.

    Args:
        output: the folder that holds all projects; a missing one holds none.

    Returns:
        New values by component id.

    Raises:
        UserError: `output` is not a folder, or may not be read.
    """
    rows = [_row(project) for project in _projects(output)]
    return {"projects.status": text.projects_found(len(rows)), "projects.table": rows}


def _projects(output: Path) -> list[Project]:
    """The subfolders of `output` that hold a dataset, runs or a model, by name."""
    try:
        names = sorted(entry.name for entry in output.iterdir() if entry.is_dir()) if output.exists() else []
    except OSError as error:
        raise UserError(
            what=f"the output folder cannot be read: {error.strerror}",
            where=str(output),
            fix="start the app with --output and a folder that you may read",
        ) from error
    return [project for name in names if (project := _project(name, output)) is not None]


def _project(name: str, output: Path) -> Project | None:
    try:
        project = open_project(name, output)
    except UserError:  # a folder of another kind, whose name no project can have
        return None
    parts = (project.dataset, project.runs, project.ready)
    return project if any(part.is_dir() for part in parts) else None


def _row(project: Project) -> Row:
    runs = sum(run.is_dir() for run in project.runs.iterdir()) if project.runs.is_dir() else 0
    exported = text.YES if (project.ready / "model.pth").is_file() else text.NO
    return [project.name, _language(project), *_clips(project), runs, exported]


def _language(project: Project) -> str:
    if not project.language_file.is_file():
        return text.NOTHING_YET
    return project.language_file.read_text(encoding="utf-8", errors="replace").strip()


def _clips(project: Project) -> Row:
    """Clips used and clips dropped, as the dataset's report counts them."""
    if not project.report.is_file():
        return [text.NOTHING_YET, text.NOTHING_YET]
    try:
        states = [clip["status"] for clip in json.loads(project.report.read_text(encoding="utf-8"))["clips"]]
    except (OSError, ValueError, KeyError, TypeError):
        return [text.UNREADABLE, text.UNREADABLE]
    used = states.count("used")
    return [used, len(states) - used]
