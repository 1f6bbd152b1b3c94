"""Read a log from either end in constant memory; torn and foreign lines are skipped."""

import json
import math
import os
from collections import deque
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

Event = dict[str, Any]

BLOCK = 1 << 16
"""Bytes read at a time from the end."""
MAX_LINE = 1 << 20
"""A longer line, in bytes, is no event of ours; it is skipped without being held in memory."""


def read_events(path: Path, *, kind: str | None = None) -> Iterator[Event]:
    """Events of a log in order.

    Args:
        path: an events.jsonl; a missing file has no events.
        kind: only events of this kind.
    """
    with _opened(path) as log_file:
        for line in forward_lines(log_file):
            event = parse_event(line) if may_hold(line, kind) else None
            if event is not None and kind in (None, event["kind"]):
                yield event


def tail(path: Path, count: int, *, kind: str | None = None, start: int = 0) -> list[Event]:
    """The last events of a log, in their order; the log is read from its end.

    Args:
        path: an events.jsonl; a missing file has no events.
        count: how many events at most.
        kind: only events of this kind; without one among the last lines, the whole log is read.
        start: do not look further back than this byte, the first of a line.
    """
    found = islice(events_backwards(path, kind=kind, start=start), count)
    return list(found)[::-1]


def log_size(path: Path) -> int:
    """Bytes of a log; a missing file has none."""
    with _opened(path) as log_file:
        return _size(log_file)


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of any text file, in their order and without line ends; a missing file has none."""
    with _opened(path) as text:
        lines = islice(lines_backwards(text, end=_size(text)), count)
        return [line.decode("utf-8", errors="replace").rstrip("\r\n") for line in lines][::-1]


def parse_event(line: bytes) -> Event | None:
    """The event of one complete line, or None when the line is torn or foreign."""
    if not line.endswith(b"\n"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("kind"), str) else None


def is_number(value: Any) -> bool:
    """Whether a value can be drawn or reckoned with; JSON readers also give NaN, infinities and true."""
    return type(value) in (int, float) and math.isfinite(value)


def number_of(event: Event, name: str) -> int | float | None:
    """A number of an event; None where it has none, whatever else may stand there."""
    value: int | float | None = event.get(name)
    return value if is_number(value) else None


def may_hold(line: bytes, kind: str | None) -> bool:
    """Whether a line can be an event of this kind: far quicker than reading it, and never wrongly False."""
    return kind is None or f'"{kind}"'.encode() in line


def events_backwards(path: Path, *, kind: str | None = None, start: int = 0, end: int | None = None) -> Iterator[Event]:
    """Events of a log, the newest first.

    Args:
        path: an events.jsonl; a missing file has no events.
        kind: only events of this kind.
        start: first byte to look at.
        end: byte after the last one to look at; the file's end when not given.
    """
    with _opened(path) as log_file:
        for line in lines_backwards(log_file, start=start, end=_size(log_file) if end is None else end):
            event = parse_event(line) if may_hold(line, kind) else None
            if event is not None and kind in (None, event["kind"]):
                yield event


def forward_lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines from here on with their line ends, the last perhaps torn; overlong ones are skipped."""
    while line := file.readline(MAX_LINE):
        if len(line) < MAX_LINE or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)


def lines_backwards(file: BinaryIO, *, start: int = 0, end: int) -> Iterator[bytes]:
    """Lines up to `end`, the last one first, with their line ends; overlong ones are skipped.

    Args:
        file: opened for reading bytes.
        start: first byte to look at.
        end: byte after the last one to look at; a line that is cut there comes without a line end.
    """
    unfinished = _Pieces()
    while end > start:
        begin = max(start, end - BLOCK)
        file.seek(begin)
        first, *others = file.read(end - begin).split(b"\n")
        end = begin
        if others:
            unfinished.prepend(others.pop())
            yield from unfinished.take()
            yield from (line + b"\n" for line in reversed(others))
            first += b"\n"
        unfinished.prepend(first)
    yield from unfinished.take()


class _Pieces:
    """A line that is gathered from its end; it is let go when it gets too long."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._length = 0

    def prepend(self, piece: bytes) -> None:
        self._length += len(piece)
        self._pieces.appendleft(piece)
        if self._length > MAX_LINE:
            self._pieces.clear()

    def take(self) -> Iterator[bytes]:
        """The line, if there is one; then begin another."""
        line = b"".join(self._pieces) if self._length <= MAX_LINE else b""
        self._pieces.clear()
        self._length = 0
        if line:
            yield line


def _opened(path: Path) -> BinaryIO:
    """A log that is missing has no lines; its folder may be removed at any moment."""
    try:
        return path.open("rb")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return BytesIO()


def _size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)
