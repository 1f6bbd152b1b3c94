"""Detect a changed file without reading it."""

import os
from pathlib import Path

_RACY_NS = 2_000_000_000
"""A file changed within this time of being read may change again without a change of its time stamps."""


def stamp(path: Path | bytes) -> list[int]:
    """Size, times of change and number of a file: with the same stamp it holds what it held.

    Its status time is among them, because programs that write tags put back the time of modification.

    Raises:
        OSError: it cannot be asked.
    """
    # Not by pathlib: ten million files are asked at the start of a large run.
    stat = os.stat(path)  # noqa: PTH116
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def is_settled(seen: list[int], now_ns: int) -> bool:
    """Whether a stamp proves anything: as git does it, one as young as this does not yet.

    Args:
        seen: of `stamp`.
        now_ns: the file system's time, before the file was read.
    """
    return now_ns - max(seen[1], seen[2]) > _RACY_NS


def now_ns(path: Path) -> int:
    """The time of the file system that `path` is on, which may differ from the machine's; the file is made if absent.

    Raises:
        OSError: the file cannot be written.
    """
    path.touch()
    return path.stat().st_mtime_ns
