"""Files that people upload: stored in their project under safe names, within the project's quota.

output/<project>/uploads/<batch>/ holds the files of one upload. A name keeps its letters, digits, `_`, `-` and its
ending, so that a table which names its recordings still finds them; everything else becomes `_`. What the user called a
file is kept in names.json beside it, and only ever displayed.
"""

import json
import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from utils.errors import UserError, disk_errors
from utils.jobs.record import write_whole
from utils.paths import Project, check_name, new_run_id
from utils.runs import size_of

UPLOADS_FOLDER = "uploads"
NAMES_FILE = "names.json"
GIB = 2**30
DEFAULT_QUOTA_BYTES = 50 * GIB
"""All uploads of one project together."""
KEPT_FREE_BYTES = GIB
"""So much of the disk is left for training, whatever the quota allows."""
MAX_STEM, MAX_SUFFIX = 48, 8


@dataclass(frozen=True, kw_only=True)
class Upload:
    """One stored file."""

    file: Path
    name: str
    """What the user calls it; for display only, and to be escaped there."""


@disk_errors()
def store_uploads(
    project: Project, sources: Sequence[tuple[Path, str]], *, quota_bytes: int = DEFAULT_QUOTA_BYTES
) -> list[Upload]:
    """Copy files into the project, all or none.

    Args:
        project: whose files.
        sources: each file with the name that the user gave it.
        quota_bytes: all uploads of the project together may take so much.

    Returns:
        The stored files in the same order, in a new folder of their own.

    Raises:
        UserError: a file is gone or no plain file, or the quota or the disk has no room.
    """
    for path, name in sources:
        # A link could bring in any file of this computer.
        if path.is_symlink() or not path.is_file():
            raise UserError(what="an uploaded file is gone", where=name, fix="upload it again")
    _check_room(project, sum(path.stat().st_size for path, _ in sources), quota_bytes)
    folder = project.folder / UPLOADS_FOLDER / new_run_id()
    folder.mkdir(parents=True)
    stored: list[Upload] = []
    try:
        for path, name in sources:
            target = _free_name(folder, safe_file_name(name))
            shutil.copyfile(path, target)
            stored.append(Upload(file=target, name=name))
        names = {upload.file.name: upload.name for upload in stored}
        write_whole(folder / NAMES_FILE, json.dumps(names, ensure_ascii=False, indent=1))
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return stored


def safe_file_name(name: str) -> str:
    """A name that is a plain file's on every system, as close to `name` as that allows.

    Args:
        name: anything, such as a name from a browser or from a table; folders before it are taken off.
    """
    base = unicodedata.normalize("NFC", name).replace("\\", "/").rsplit("/", 1)[-1].strip(". ")
    stem, dot, suffix = base.rpartition(".")
    if not dot:
        stem, suffix = base, ""
    suffix = "".join(char for char in suffix.lower() if char.isascii() and char.isalnum())[:MAX_SUFFIX]
    kept = "".join(char if char in "_-" or char.isalnum() or _is_mark(char) else "_" for char in stem)[:MAX_STEM]
    while len(kept.encode()) > 2 * MAX_STEM:
        kept = kept[:-1]
    # A leading dash could be taken for an option of a program.
    kept = kept.lstrip("-") or "file"
    try:
        kept = check_name(kept, kind="file")
    except UserError:
        kept = f"file_{kept.encode('ascii', 'ignore').decode()}"
    return f"{kept}.{suffix}" if suffix else kept


def uploaded_bytes(project: Project) -> int:
    """Size of all uploads of a project."""
    return size_of(project.folder / UPLOADS_FOLDER)


def _check_room(project: Project, wanted: int, quota_bytes: int) -> None:
    taken = uploaded_bytes(project)
    if taken + wanted > quota_bytes:
        raise UserError(
            what=f"the upload of {wanted / 1e6:.1f} MB does not fit: the project has {taken / 1e6:.1f} MB of uploads "
            f"and may have {quota_bytes / 1e6:.1f} MB",
            where=str(project.folder / UPLOADS_FOLDER),
            fix="remove uploads that were prepared already, or start the app with a larger --project-quota",
        )
    project.folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(project.folder).free
    if wanted + KEPT_FREE_BYTES > free:
        raise UserError(
            what=f"the disk has {free / 1e9:.1f} GB free; the upload takes {wanted / 1e9:.1f} GB and 1 GB stays free",
            where=str(project.folder),
            fix="free some space",
        )


def _is_mark(char: str) -> bool:
    return unicodedata.category(char).startswith("M")


def _free_name(folder: Path, name: str) -> Path:
    """The name, or with a number when two files of one upload would get the same, whatever their case."""
    taken = {path.name.casefold() for path in folder.iterdir()} | {NAMES_FILE}
    path = Path(name)
    number = 1
    while name.casefold() in taken:
        number += 1
        name = f"{path.stem}-{number}{path.suffix}"
    return folder / name
