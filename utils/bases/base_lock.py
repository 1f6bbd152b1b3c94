"""Read `base.lock.json`, which holds what the hub declared for each file of a base, and verify the files against it.

It is written last, after every file was verified: a folder with this file is complete.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from utils.errors import UserError
from utils.files import file_hash, write_atomic

LOCK_NAME = "base.lock.json"

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
    """Where a base came from and what its files must be."""

    repository: str
    """Repository on the hub, as owner/name."""
    revision: str
    """Branch or tag that was asked for."""
    commit: str
    """Commit that the revision stood for."""
    endpoint: str
    """Address of the hub that was asked."""
    files: tuple[FileEntry, ...]

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
