"""Create and list the projects of an output folder, and store their choices; without loading torch."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Self

from utils.errors import UserError, disk_errors
from utils.files import write_atomic
from utils.project.paths import Project, open_project

SETTINGS_FILE = "project.json"


@dataclass(frozen=True, kw_only=True)
class ProjectSettings:
    """What a person chose for a project before there is a dataset."""

    language: str = ""
    """Language code of the voice; empty until one is chosen. The dataset's own language wins once there is one."""
    base: str = ""
    """Base model to prepare and train with; empty until one is chosen."""

    @classmethod
    def load(cls, project: Project) -> Self:
        """The choices of a project; nothing chosen when its file is missing or spoiled."""
        try:
            values = json.loads((project.folder / SETTINGS_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return cls()
        known = {field.name for field in fields(cls)}
        if not isinstance(values, dict):
            return cls()
        return cls(**{key: value for key, value in values.items() if key in known and isinstance(value, str)})

    @disk_errors()
    def save(self, project: Project) -> None:
        """Write project.json in one move, so that no reader sees half of it.

        Raises:
            UserError: the disk is full, or the folder may not be written.
        """
        project.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(project.folder / SETTINGS_FILE, json.dumps(asdict(self), ensure_ascii=False, indent=1))


def create_project(name: str, output: Path, settings: ProjectSettings) -> Project:
    """Make a project's folder.

    Args:
        name: see `utils.project.paths.check_name`.
        output: the folder that holds all projects; made when missing.
        settings: what is chosen already.

    Raises:
        UserError: the name is not usable or taken, or the folder cannot be made.
    """
    project = open_project(name, output)
    # Windows and macOS take Maria and maria for the same folder.
    taken = {other.name.casefold() for other in list_projects(output)}
    if project.name.casefold() in taken or project.folder.exists():
        raise UserError(
            what=f"project {project.name!r} already exists", where=str(output), fix="select it, or use another name"
        )
    settings.save(project)
    return project


def find_project(name: str, output: Path) -> Project:
    """A project that exists.

    Raises:
        UserError: the name is not usable, or no such project is there.
    """
    project = open_project(name, output)
    # A link could lead out of the output folder.
    if not is_project(project) or project.folder.is_symlink():
        raise UserError(
            what=f"there is no project {project.name!r}",
            where=str(output),
            fix="select an existing project, or create it",
        )
    return project


def list_projects(output: Path) -> list[Project]:
    """The projects below `output`, by name; a missing folder holds none.

    Raises:
        UserError: `output` is not a folder, or may not be read.
    """
    try:
        names = sorted(entry.name for entry in output.iterdir() if entry.is_dir()) if output.exists() else []
    except OSError as error:
        raise UserError(
            what=f"the output folder cannot be read: {error.strerror}",
            where=str(output),
            fix="start the app with --output and a folder that you may read",
        ) from error
    found = []
    for name in names:
        try:
            project = open_project(name, output)
        except UserError:  # a folder of another kind, whose name no project can have
            continue
        if is_project(project):
            found.append(project)
    return found


def is_project(project: Project) -> bool:
    """Whether the folder holds a project's settings, dataset, runs or model."""
    parts = (project.dataset, project.runs, project.ready)
    return (project.folder / SETTINGS_FILE).is_file() or any(part.is_dir() for part in parts)


def project_language(project: Project) -> str:
    """Language code of the dataset, or the one chosen for it; empty when there is neither."""
    if project.language_file.is_file():
        try:
            return project.language()
        except UserError:
            return ""
    return ProjectSettings.load(project).language
