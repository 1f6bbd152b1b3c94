"""Rename, duplicate and delete a project: never while one of its jobs runs."""

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from utils import jobs
from utils.errors import UserError, disk_errors
from utils.files import write_atomic
from utils.hardware.resources import KEPT_FREE_BYTES, disk_free, size_of
from utils.project.paths import Project, open_project
from utils.project.projects import SETTINGS_FILE, list_projects
from utils.project.uploads import UPLOADS_FOLDER
from utils.text.pronunciations import PRONUNCIATIONS_FILE

ASIDE = ".deleted-"
"""Before the name of a folder that is on its way out: no project has such a name."""


@disk_errors()
def rename_project(project: Project, name: str) -> Project:
    """Give a project another name; all of it stays, and its runs can be resumed.

    Args:
        project: that exists.
        name: see `utils.project.paths.check_name`.

    Raises:
        UserError: the name is not usable or taken, a job of the project runs, or the system does not allow it.
    """
    renamed = _free_name(project, name, may_be=project.name)
    _require_idle(project)
    project.folder.rename(renamed.folder)
    _follow(project, renamed)
    return renamed


@disk_errors()
def duplicate_project(project: Project, name: str) -> Project:
    """Copy a project's choices, uploads and dataset under another name; runs and exported models stay where they are.

    Raises:
        UserError: the name is not usable or taken, a job of the project runs, or the disk has no room.
    """
    copy = _free_name(project, name)
    parts = [part for part in (project.folder / UPLOADS_FOLDER, project.dataset, project.sources) if part.is_dir()]
    needed, free = sum(map(size_of, parts)), disk_free(project.output)
    if needed + KEPT_FREE_BYTES > free:
        room = f"the disk has {free / 1e9:.1f} GB free, and 1 GB stays free"
        raise UserError(
            what=f"the copy takes {needed / 1e9:.1f} GB; {room}",
            where=str(project.output),
            fix="free some space",
        )
    aside = project.output / f"{ASIDE}{copy.name}"
    _require_idle(project)
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        for part in parts:
            shutil.copytree(part, aside / part.name, symlinks=True)
        for file in (SETTINGS_FILE, PRONUNCIATIONS_FILE):
            if (project.folder / file).is_file():
                shutil.copyfile(project.folder / file, aside / file)
        # In one move: a copy that was cut off is no project.
        aside.rename(copy.folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    _follow(project, copy)
    return copy


@disk_errors()
def delete_project(project: Project) -> int:
    """Delete a project with all that it holds: uploads, dataset, runs, models and recordings.

    Returns:
        Bytes that were freed.

    Raises:
        UserError: a job of the project runs, or the system does not allow it.
    """
    size, aside = size_of(project.folder), project.output / f"{ASIDE}{project.name}"
    _require_idle(project)
    shutil.rmtree(aside, ignore_errors=True)
    # In one move: a deletion that is cut off leaves no half project.
    project.folder.rename(aside)
    shutil.rmtree(aside)
    return size


def _free_name(project: Project, name: str, *, may_be: str | None = None) -> Project:
    """The project that would have this name.

    Raises:
        UserError: the name is not usable, or another project or folder has it.
    """
    wanted = open_project(name, project.output)
    taken = {other.name.casefold() for other in list_projects(project.output) if other.name != may_be}
    # Where letter case does not count, the project's own folder is found under the new name, too.
    is_own = may_be is not None and wanted.name.casefold() == may_be.casefold() and wanted.name != may_be
    if wanted.name.casefold() in taken or (wanted.folder.exists() and not is_own):
        raise UserError(
            what=f"project {wanted.name!r} already exists", where=str(project.output), fix="use another name"
        )
    return wanted


def _require_idle(project: Project) -> None:
    """Do nothing where no job of the project runs.

    Raises:
        UserError: one does, or the project is gone.
    """
    if not project.folder.is_dir():
        raise UserError(what=f"there is no project {project.name!r}", where=str(project.output))
    busy = next((job for job in jobs.list(project) if job.alive or job.process_alive), None)
    if busy is not None:
        raise UserError(
            what=f"{busy.kind} is running in project {project.name!r}",
            where=str(busy.folder),
            fix="wait until it is finished, or stop it",
        )


def _follow(before: Project, now: Project) -> None:
    """Let files that name places below the project's former folder name them below the present one."""
    files = [now.folder / SETTINGS_FILE, now.report, *now.runs.glob("*/config.yaml")]
    for path in (path for path in files if path.is_file()):
        try:
            # JSON is YAML, too, but for how fast it is read.
            content = (json.loads if path.suffix == ".json" else yaml.safe_load)(path.read_text(encoding="utf-8"))
        except (ValueError, yaml.YAMLError, RecursionError):
            continue  # a damaged file is reported by who reads it
        moved = _moved(content, before, now)
        if path.name == "config.yaml" and isinstance(moved, dict) and moved.get("project") == before.name:
            moved["project"] = now.name
        if moved != content:
            is_json = path.suffix == ".json"
            write_atomic(
                path,
                json.dumps(moved, ensure_ascii=False, indent=1)
                if is_json
                else yaml.safe_dump(moved, sort_keys=False, allow_unicode=True),
            )


def _moved(value: Any, before: Project, now: Project) -> Any:
    """JSON values in which each path below one folder lies below the other."""
    if isinstance(value, dict):
        return {key: _moved(one, before, now) for key, one in value.items()}
    if isinstance(value, list):
        return [_moved(one, before, now) for one in value]
    if not isinstance(value, str):
        return value
    for old, new in ((before.folder.absolute(), now.folder.absolute()), (before.folder, now.folder)):
        try:
            return str(new / Path(value).relative_to(old))
        except ValueError:
            continue
    return value
