"""Files: their hash, lines of JSON, and writing so that readers see the old file or the whole new one, never a part."""

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

Parsed = TypeVar("Parsed")


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parsed_lines(path: Path, parse: Callable[[Any], Parsed]) -> Iterator[Parsed]:
    """What is made of each line of JSON of a file, which may be missing; torn and foreign lines are skipped.

    Raises:
        OSError: the file cannot be read.
    """
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                parsed = parse(json.loads(line))
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                continue
            yield parsed


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Name of a temporary file beside `path`, which takes its place when the block ends without an error.

    Args:
        path: file to write; its folder exists.
        durable: hand the content to the disk before the renaming, so that a power cut leaves the old file or the new.

    Raises:
        OSError: the disk is full or not writable; `path` is as it was.
    """
    # Drawn again each time: of two writers that share a name, one renames the other's half-written file.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if durable:
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomic(path: Path, content: bytes | memoryview | str, *, durable: bool = False) -> None:
    """Write a file through `replacing`; text becomes UTF-8."""
    with replacing(path, durable=durable) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder`, which takes its place when the block ends without an error.

    Args:
        folder: to make; it must not exist, or be empty. What another process has made meanwhile is as good, and stays.

    Raises:
        OSError: the disk is full or not writable.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield aside
        aside.chmod(0o755)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        if not folder.exists():
            aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def share_file(source: Path, target: Path) -> None:
    """The same file under another name where the disk can do that, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        # FAT and many network drives know no second name.
        shutil.copyfile(source, target)
