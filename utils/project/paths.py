"""The paths of a project on disk, and the names that are safe to use there."""

import itertools
import os
import time
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from utils.errors import UserError
from utils.project.advice import CODE, FOLDER, command

# File systems take 255 bytes; the rest is for the endings and numbers that names get.
_MAX_CHARACTERS, _MAX_BYTES = 64, 200
_run_numbers = itertools.count()
# Windows refuses these as file names whatever their case or extension.
_RESERVED = {"con", "prn", "aux", "nul", *(f"{stem}{digit}" for stem in ("com", "lpt") for digit in "0123456789¹²³")}

NO_PROJECT = ".jobs"
"""Folder below the output folder for jobs of no project; no project can have this name."""
BASES_VARIABLE = "XTTS_STUDIO_BASES"


def check_name(name: str, *, kind: str = "project") -> str:
    """Return `name` when it is safe as a folder name on every system, with its accents composed (NFC).

    Args:
        name: 1 to 64 letters of any script with their marks, digits, `_` or `-`; at most 200 bytes in UTF-8.
        kind: what is being named, for the message.

    Raises:
        UserError: the name holds anything else, is too long, or is reserved on Windows.
    """
    composed = unicodedata.normalize("NFC", name)
    if not _is_safe(composed):
        raise UserError(
            what=f"{name!r} cannot be used as a {kind} name",
            where=f"{kind} name",
            fix=f"use 1 to {_MAX_CHARACTERS} letters, digits, '_' or '-' ({_MAX_BYTES} bytes in UTF-8), and no path",
        )
    return composed


def unreserved(name: str) -> str:
    """A file name that Windows takes: a device of it, whatever follows the first dot, gets a `_`."""
    return f"_{name}" if name.split(".")[0].strip().lower() in _RESERVED else name


def _is_safe(name: str) -> bool:
    # Marks are vowels and tones in many scripts; a mark without a letter before it is no text.
    if not name or unicodedata.category(name[0]).startswith("M") or name.lower() in _RESERVED:
        return False
    if not all(char in "_-" or char.isalnum() or unicodedata.category(char).startswith("M") for char in name):
        return False
    return len(name) <= _MAX_CHARACTERS and len(name.encode()) <= _MAX_BYTES


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
    def sources(self) -> Path:
        """What was unpacked from archives, and the pauses and words that were found in long recordings."""
        return self.folder / "sources"

    @property
    def report(self) -> Path:
        return self.dataset / "report.json"

    @property
    def page(self) -> Path:
        return self.dataset / "report.html"

    def require_dataset(self, *tables: Path | None) -> None:
        """Do nothing where there is something to train on; asked before what takes long, such as a download.

        Args:
            tables: those given instead of the dataset's own, training first; None for the dataset's own.

        Raises:
            UserError: there is no dataset, or a table that was given does not exist.
        """
        if not all(tables):
            self.language()
        for table in filter(None, tables):
            if not table.expanduser().is_file():
                raise UserError(what="the table of clips does not exist", where=str(table), fix="correct its path")

    def language(self) -> str:
        """Language code of the prepared dataset.

        Raises:
            UserError: the project has no dataset yet, or its language file cannot be read.
        """
        if not self.language_file.is_file():
            raise UserError(
                what=f"project {self.name!r} has no dataset yet",
                where=str(self.dataset),
                fix=f"run: {command('prepare', project=self, input=FOLDER, language=CODE)}",
            )
        try:
            return self.language_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                what=f"the language of the dataset cannot be read: {error}",
                where=str(self.language_file),
                fix="write the language code into it as UTF-8 text, such as en",
            ) from error


BEFORE, AFTER = "spoken_before.wav", "spoken_after.wav"
"""In a project's folder: a sentence by the base and by the trained voice, once the sample voice was tried."""
HELD_OUT = "demo_heldout.txt"
"""Sentences that the sample voice was not trained on, among the assets; the first is the one that is spoken."""


def open_project(name: str, output: Path) -> Project:
    """The project `name` below `output`; nothing is created.

    Raises:
        UserError: the name is not usable.
    """
    return Project(name=check_name(name), output=output)


def new_run_id() -> str:
    """Name of a new run folder, never the same: local time, process id and a count, so names sort by age."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{next(_run_numbers):03}"


def bases_folder() -> Path:
    """Where downloaded and generated base models are kept: $XTTS_STUDIO_BASES or the user's cache folder."""
    chosen = os.environ.get(BASES_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    return cache_folder() / "bases"


def cache_folder() -> Path:
    """The project's folder in the user's cache, for files that can be made or downloaded again."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "xtts-finetuning-studio"


def assets_folder() -> Path:
    """The files that ship with the project."""
    return Path(__file__).resolve().parents[2] / "assets"
