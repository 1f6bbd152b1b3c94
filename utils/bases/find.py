"""Find a base model by its name or folder, or as a run's; verify its files.

`base.lock.json` holds what the hub declared for each file. It is written last, after every file was verified: a folder
with this file is complete. about.json of a packed base (the starter, and each grown one) holds
{"format": 2, "files": {name: sha256}}. In format 1 no weights were in 8 bits.
"""

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from utils.bases.base import Base, where_it_lies
from utils.bases.catalog import DOWNLOADED, EMBEDDED, base_folder
from utils.errors import UserError
from utils.files import file_hash, write_atomic
from utils.options import STARTER
from utils.project.advice import command

LOCK_NAME = "base.lock.json"
FORMAT = 2
"""Newest layout of a packed base that this version reads."""
ABOUT_FILE = "about.json"
GROWN = "grown"
"""`kind` of a base that was made from another one; its DVAE is the other's, unless it has one of its own."""
_GROWN_NEEDED = {"model.safetensors", "config.json", "vocab.json"}
_NEEDED = _GROWN_NEEDED | {"dvae.safetensors", "mel_stats.pth"}
"""What a packed base consists of at least."""
REMEDY = "restore it from the repository (git checkout -- assets), or make it again: make starter"
_GROWN_REMEDY = (
    "restore it from a copy, or remove the folder and make the base again (docs/languages.md); "
    "one below dataset/ is made again by the next training"
)

Algorithm = Literal["sha256", "git_sha1"]


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One file as the hub describes it at a commit."""

    name: str
    """File name, without a folder."""
    size: int
    """Bytes."""
    algorithm: Algorithm
    """sha256 of the content for large (LFS) files; git's own blob hash for small ones, which have no sha256."""
    digest: str
    """Lower-case hexadecimal."""

    def matches(self, path: Path, *, hashes: bool) -> bool:
        """Whether the file at `path` has this size and, when `hashes`, this content."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        return not hashes or file_digest(path, self.algorithm) == self.digest


@dataclass(frozen=True, kw_only=True)
class BaseLock:
    """Where a base comes from and what its files must be."""

    repository: str
    """Repository on the hub, as owner/name."""
    revision: str
    """Branch or tag that was asked for."""
    endpoint: str
    """Address of the hub that was asked, without a slash at the end."""
    commit: str = ""
    """Commit that the revision stood for; empty while the hub was not asked."""
    files: tuple[FileEntry, ...] = ()

    @property
    def page(self) -> str:
        """Address of the repository, for people."""
        return f"{self.endpoint}/{self.repository}"

    def save(self, folder: Path) -> None:
        """Mark `folder` as whole."""
        files = {entry.name: {"size": entry.size, entry.algorithm: entry.digest} for entry in self.files}
        source = {"repository": self.repository, "revision": self.revision, "commit": self.commit}
        write_json(folder / LOCK_NAME, {**source, "endpoint": self.endpoint, "files": files, "complete": True})

    def damaged(self, folder: Path, *, hashes: bool) -> list[str]:
        """Names of files that are missing from `folder` or are not what the hub described."""
        return [entry.name for entry in self.files if not entry.matches(folder / entry.name, hashes=hashes)]


def read_lock(folder: Path) -> BaseLock | None:
    """The lock of a downloaded base; None when `folder` holds no finished download.

    Raises:
        UserError: the file is there but is not a lock.
    """
    path = folder / LOCK_NAME
    if not path.is_file():
        return None
    values = read_json(path)
    try:
        files = tuple(_entry(name, described) for name, described in values["files"].items())
        source = {key: str(values[key]) for key in ("repository", "revision", "commit", "endpoint")}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(path, f"a value is missing or wrong: {error}") from error
    return BaseLock(**source, files=files) if values.get("complete") is True else None


def verify_base(folder: Path, *, hashes: bool = False) -> BaseLock:
    """Check a downloaded base against its lock; reads nothing from the network.

    Args:
        folder: the base's folder.
        hashes: also read every byte (seconds for 2 GB); sizes alone take no time.

    Returns:
        What the base is and where it came from.

    Raises:
        UserError: the folder holds no finished download, or a file is missing, cut or changed.
    """
    lock = read_lock(folder)
    if lock is None:
        raise UserError(
            what=f"no finished download: {LOCK_NAME} is missing",
            where=str(folder),
            fix="run the download again; it continues where it stopped",
        )
    damaged = lock.damaged(folder, hashes=hashes)
    if damaged:
        raise UserError(
            what=f"these files are missing or differ from {lock.repository}: {', '.join(damaged)}",
            where=str(folder),
            fix="delete them and run the download again; only these files are downloaded",
        )
    return lock


def write_about(folder: Path, about: dict[str, Any]) -> None:
    """Write about.json with the hashes of all other files of the folder; it must be written last."""
    files = {path.name: sha256(path) for path in sorted(folder.iterdir()) if path.name != ABOUT_FILE}
    text = json.dumps({**about, "format": FORMAT, "files": files}, indent=2, ensure_ascii=False)
    (folder / ABOUT_FILE).write_text(text + "\n", encoding="utf-8")


def check_files(folder: Path, about: dict[str, Any], *, must_list: bool = False) -> None:
    """Compare the folder's files with the list in its about.json.

    Args:
        folder: of the base.
        about: content of its about.json, empty when there is none.
        must_list: a base that is known to have a list; another one without it is not checked.

    Raises:
        UserError: a file is missing or changed, the list is no list, or the layout is newer than this version.
    """
    where, is_grown = str(folder / ABOUT_FILE), about.get("kind") == GROWN
    needed, remedy = (_GROWN_NEEDED, _GROWN_REMEDY) if is_grown else (_NEEDED, REMEDY)
    if "files" not in about:
        if must_list:
            raise UserError(what="the base's list of its files is missing", where=where, fix=REMEDY)
        return
    if about.get("format") not in range(1, FORMAT + 1):
        raise UserError(
            what=f"this base has layout {about.get('format')!r}; this version reads 1 to {FORMAT}",
            where=where,
            fix="update the studio, or use another base",
        )
    files = about["files"]
    # A name that leads out of the folder would read any file of the machine.
    if not isinstance(files, dict) or not files.keys() >= needed or not all(Path(name).name == name for name in files):
        raise UserError(what="about.json has no usable list of files", where=where, fix=remedy)
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            raise UserError(what=f"{name} is missing from the base", where=str(path), fix=remedy)
        if sha256(path) != expected:
            made = "made" if is_grown else "packed"
            raise UserError(what=f"{name} is not the file that this base was {made} with", where=str(path), fix=remedy)


def sha256(path: Path) -> str:
    """Hash of a file's content, in hex; read again only when the file changed."""
    found = path.stat()
    return _sha256(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@lru_cache(maxsize=64)
def _sha256(path: Path, size: int, mtime_ns: int, ctime_ns: int) -> str:
    """A grown XTTS v2 base has 1.9 GB, and who speaks asks for it with every request."""
    return file_hash(path)


def known_name(base: Base) -> str:
    """The name by which anybody finds a base; empty for one that lies elsewhere."""
    is_there = base.name in EMBEDDED + DOWNLOADED and base_folder(base.name).absolute() == base.folder.absolute()
    return base.name if is_there else ""


def weights_hash(base: Base) -> str:
    """SHA-256 of a base's weight file; of a downloaded one, what its verified download had."""
    lock = read_lock(base.folder)
    for entry in lock.files if lock else ():
        # Of another size, it was replaced since.
        if (entry.name, entry.algorithm) == (base.weights.name, "sha256") and entry.matches(base.weights, hashes=False):
            return entry.digest
    return sha256(base.weights)


def file_digest(path: Path, algorithm: Algorithm) -> str:
    """Lower-case hexadecimal digest of a file, read in pieces.

    Source: git hashes a blob as sha1 over `blob <size>\\0` and the content (git-scm.com, "Git Objects").
    """
    if algorithm == "sha256":
        return file_hash(path)
    header = f"blob {path.stat().st_size}\0".encode()
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.sha1(header, usedforsecurity=False)).hexdigest()


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write `values` so that a reader, or a crash, finds the old file or the new one but never half of it."""
    write_atomic(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n", durable=True)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        UserError: the file holds anything else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    if not isinstance(values, dict):
        raise _unreadable(path, "not a JSON object")
    return values


def _entry(name: str, described: dict[str, Any]) -> FileEntry:
    algorithm: Algorithm = "sha256" if "sha256" in described else "git_sha1"
    if Path(name).name != name:
        raise ValueError(f"{name!r} is not a plain file name")
    return FileEntry(name=name, size=int(described["size"]), algorithm=algorithm, digest=str(described[algorithm]))


def _unreadable(path: Path, reason: str) -> UserError:
    return UserError(what=f"the file cannot be read: {reason}", where=str(path), fix="delete it and download again")


def _made_tiny() -> Path:
    """Folder of the tiny base in the user's base folder, made when absent."""
    folder = base_folder("tiny").absolute()
    if not (folder / "about.json").is_file():
        # By another process: this one may need no model, and building one loads them all.
        command = [sys.executable, "-m", "utils.cli.base", "make-tiny", "--out", str(folder)]
        made = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=False)
        if not (folder / "about.json").is_file():
            why = made.stderr.decode(errors="replace").strip()[-500:]
            raise UserError(what=f"the base tiny cannot be made: {why}", where=str(folder))
    return folder


def find_base(name: str) -> Base:
    """The base of that name or folder; `tiny` is made when it is first asked for.

    Args:
        name: v2.0.2, starter, a folder, ...

    Raises:
        UserError: not downloaded yet, no such base, a folder without a model, or a packed base with a changed file.
    """
    if name == "tiny":
        return Base(_made_tiny())
    folder = base_folder(name)
    if not folder.is_dir():
        known = ", ".join(EMBEDDED + DOWNLOADED)
        fix = f"use one of {known}, a model folder, an earlier run's ready/ folder, or run/ID/best"
        if name in DOWNLOADED:
            fix = f"download it first: {command('base', 'download', name)}"
        raise UserError(what=f"there is no base {name!r}", where=str(folder), fix=fix)
    base = Base(folder)
    check_files(folder, base.about, must_list=name == STARTER)
    _ = base.weights, base.config
    return base


def run_base(run: Path, base: Base | None = None) -> Base:
    """The base a run started from, also where it was moved together with the project.

    Args:
        run: its folder.
        base: where the run's settings name it, so that it need not be where it was.

    Raises:
        UserError: its folder is gone, or holds another version now.
    """
    try:
        origin = json.loads((run / "base.json").read_text(encoding="utf-8"))
        folder = Path(origin["folder"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(what=f"the run does not say which base it started from: {error}", where=str(run)) from error
    project = run.absolute().parent.parent
    # Beside the output folder lies a base that was named by a relative path, and was moved with it.
    base = base or Base(where_it_lies(folder, project, project / "dataset", project.parent.parent))
    if not base.folder.is_dir():
        raise UserError(
            what=f"the run's base {origin['name']} is gone",
            where=str(base.folder),
            fix="download or make it again there",
        )
    return base.require_version(origin, what=f"the run {run.name}", where=run)
