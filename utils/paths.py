"""Where everything of a project lies on disk, and which names are safe to use there."""

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from utils.errors import UserError

_NAME = re.compile(r"[\w-]{1,64}")
# Windows refuses these as file names whatever their case or extension.
_RESERVED = {"con", "prn", "aux", "nul", *(f"{stem}{digit}" for stem in ("com", "lpt") for digit in range(1, 10))}

BASES_VARIABLE = "XTTS_STUDIO_BASES"


def check_name(name: str, *, kind: str = "project") -> str:
    """Return `name` when it is safe as a folder name on every system.

    Args:
        name: 1 to 64 letters of any script, digits, `_` or `-`.
        kind: what is being named, for the message.

    Raises:
        UserError: the name holds anything else, or is reserved on Windows.
    """
    if not _NAME.fullmatch(name) or name.lower() in _RESERVED:
        raise UserError(
            what=f"{name!r} cannot be used as a {kind} name",
            where=f"{kind} name",
            fix="use 1 to 64 letters, digits, '_' or '-', and no path",
        )
    return name


@dataclass(frozen=True, kw_only=True)
class Project:
    """The folder of one voice: its dataset, its runs and its exported model."""

    name: str
    """Folder name below `output`."""
    output: Path
    """The folder that holds all projects."""

    @property
    def folder(self) -> Path:
        return self.output / self.name

    @property
    def dataset(self) -> Path:
        return self.folder / "dataset"

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def ready(self) -> Path:
        return self.folder / "ready"

    @property
    def train_csv(self) -> Path:
        return self.dataset / "metadata_train.csv"

    @property
    def eval_csv(self) -> Path:
        return self.dataset / "metadata_eval.csv"

    @property
    def language_file(self) -> Path:
        return self.dataset / "lang.txt"

    @property
    def report(self) -> Path:
        return self.dataset / "report.json"

    def language(self) -> str:
        """Language code of the prepared dataset.

        Raises:
            UserError: the project has no dataset yet.
        """
        if not self.language_file.is_file():
            raise UserError(
                what=f"project {self.name!r} has no dataset yet",
                where=str(self.dataset),
                fix=f"run: python -m utils.cli.prepare --project {self.name} --input FOLDER --language CODE",
            )
        return self.language_file.read_text(encoding="utf-8").strip()


def open_project(name: str, output: Path) -> Project:
    """The project `name` below `output`; nothing is created.

    Raises:
        UserError: the name is not usable.
    """
    return Project(name=check_name(name), output=output)


def new_run_id() -> str:
    """Name of a new run folder: local time to the second and the process id, so names sort by age."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def bases_folder() -> Path:
    """Where downloaded and generated base models are kept: $XTTS_STUDIO_BASES or the user's cache folder."""
    chosen = os.environ.get(BASES_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "xtts-finetuning-studio" / "bases"


def assets_folder() -> Path:
    """The files that ship with the project."""
    return Path(__file__).resolve().parent.parent / "assets"
