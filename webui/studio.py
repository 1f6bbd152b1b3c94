"""What every handler may ask of the running app: where the projects lie, and whom to tell before training starts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from utils.errors import UserError
from utils.paths import Project
from utils.projects import find_project
from utils.uploads import DEFAULT_QUOTA_BYTES
from webui import text


@dataclass(kw_only=True)
class Studio:
    """One app; it holds no state of projects or runs, which are read from disk each time."""

    output: Path
    """The folder that holds all projects."""
    quota_bytes: int = DEFAULT_QUOTA_BYTES
    """All uploads of one project together may take so much, see `utils.uploads`."""
    before_training: list[Callable[[], str]] = field(default_factory=list)
    """Called before a training starts, to free what it needs; each says what it did, or nothing."""

    def project(self, name: object) -> Project:
        """The chosen project.

        Raises:
            UserError: none was chosen, its name is not usable, or it does not exist.
        """
        if not isinstance(name, str) or not name:
            raise UserError(what=text.NO_PROJECT, where=text.PROJECT, fix=text.NO_PROJECT_FIX)
        return find_project(name, self.output)
