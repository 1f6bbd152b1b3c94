"""A run's event log, events.jsonl: one JSON object a line, written by one process and read by any while it grows.

Torn and foreign lines are skipped. `EventWriter` appends and informs others; `read_events` and `tail` read a log once,
whole or its end; follow.py reads on in one that grows.
"""

import errno
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from utils.errors import UserError

Event = dict[str, Any]

KINDS = frozenset(
    {
        "started",
        "progress",
        "optimizations",
        "step",
        "eval",
        "sample",
        "speech_scores",
        "ranks",
        "checkpoint",
        "memory",
        "warning",
        "stopped",
        "failed",
        "finished",
    }
)
FINAL = frozenset({"stopped", "failed", "finished"})
"""One of these ends what a job wrote."""
MAX_HELD_BYTES = 16 * 2**20
"""So much is kept in memory while the disk is full: about 50 000 steps."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

END_BYTES = 1 << 20
"""How much of a file's end is read where its last lines are asked for."""
MAX_LINE = 1 << 20
"""A longer line, in bytes, is no event of ours; it is skipped without being held in memory."""

log = logging.getLogger(__name__)


class Logger(Protocol):
    """What a module of `utils.runs.loggers` has to offer."""

    def __init__(self, run: Path, config: dict[str, Any]) -> None:
        """Begin, or continue, the record of a run.

        Args:
            run: the run's folder.
            config: its settings as plain values.
        """

    def event(self, kind: str, fields: dict[str, Any]) -> None:
        """Show an event of the run's log."""

    def close(self) -> None:
        """Hand over what is held."""


class EventWriter:
    """Appends events to `path`, and informs others of them; each line is handed to the system at once, so a kill loses
    none.

    A log has one writer at a time. While the disk is full, events wait in memory and are written in their order as
    soon as there is room; a warning event then says how late they are.

    Args:
        path: the run's events.jsonl; created when absent, continued when present. None in all processes of a
            distributed run but the first, which write nothing.
        subscriber: called with each event after it is written.
        loggers: likewise; one that fails is given up, because no run should end for it.

    Raises:
        UserError: a named pipe stands in its place.
        OSError: the file cannot be opened.
    """

    def __init__(
        self,
        path: Path | None,
        subscriber: Callable[[str, dict[str, Any]], None] | None = None,
        loggers: Sequence[Logger] = (),
    ) -> None:
        self.path, self._subscriber, self._loggers = path, subscriber, list(loggers)
        self._held = bytearray()
        self._num_late = 0
        self._full_since: float | None = None
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_fifo():
            # Opening it would wait until another process reads it.
            raise UserError(what="the event log is a named pipe, not a file", where=str(path), fix="remove it")
        torn = _ends_torn(path)
        # Unbuffered: what the disk did not take is ours to keep, not hidden in a buffer that fails again at close.
        self._file = path.open("ab", buffering=0)
        if torn:
            # Close the torn line of a killed writer, so that it cannot swallow the next event.
            self._append(b"\n")

    def write(self, kind: str, **fields: Any) -> None:
        """Append one event.

        Args:
            kind: one of `KINDS`.
            fields: JSON values; a non-finite number is written as null, because JSON has no NaN.

        Raises:
            UserError: the disk has been full until events can no longer be kept in memory.
            OSError: the log cannot be written for another reason.
        """
        if self.path is None:
            return
        assert kind in KINDS, kind
        self._append(_line(kind, fields))
        if self._subscriber is not None:
            self._subscriber(kind, fields)
        for logger in list(self._loggers):
            self._heed(logger, partial(logger.event, kind, fields))

    def warn(self, message: str, *, source: str, **facts: Any) -> None:
        """Report something that did not stop the run.

        Args:
            message: for people.
            source: what it concerns: numbers, memory, disk, samples, switches, language or resume.
            facts: what a program may want to know.
        """
        if self.path is not None:
            log.warning(message)
            self.write("warning", message=message, source=source, **facts)

    def close(self) -> None:
        """Write what is still held, and close the file.

        Raises:
            UserError: the disk is still full; it says how many events the log lacks.
        """
        if self.path is None:
            return
        for logger in list(self._loggers):
            self._heed(logger, logger.close)
        try:
            if self._held:
                self._append(b"")
            if self._held:
                lost = self._held.count(b"\n")
                raise self._disk_full(f"the last {lost} events of this run could not be written")
        finally:
            self._file.close()

    def _heed(self, logger: Logger, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self._loggers.remove(logger)
            log.exception("a logger failed")
            self.warn(f"{type(logger).__module__} shows no more of this run: {error}", source="loggers")

    def _append(self, line: bytes) -> None:
        self._held += line
        try:
            while self._held:
                del self._held[: self._file.write(self._held)]
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            if len(self._held) > MAX_HELD_BYTES:
                del self._held[len(self._held) - len(line) :]
                raise self._disk_full("events can no longer be written") from error
            self._num_late += bool(line)
            if self._full_since is None:
                self._full_since = time.time()
                log.warning("the disk is full: events are kept in memory until there is room for %s", self.path)
        else:
            if self._full_since is not None:
                delay = f"the disk was full for {time.time() - self._full_since:.0f} s"
                late, self._full_since, self._num_late = self._num_late, None, 0
                self._append(_line("warning", {"message": f"{delay}: {late} events were written late"}))

    def _disk_full(self, what: str) -> UserError:
        return UserError(what=f"the disk is full: {what}", where=str(self.path), fix="free some space, then run again")


def read_events(path: Path, *, kind: str | None = None) -> Iterator[Event]:
    """Events of a log, in order.

    Args:
        path: an events.jsonl; a missing file has no events.
        kind: only events of this kind.
    """
    with opened(path) as file:
        for line in lines_of(file):
            # Far quicker than parsing each line, and never wrongly False.
            event = parse_event(line) if kind is None or f'"{kind}"'.encode() in line else None
            if event is not None and kind in (None, event["kind"]):
                yield event


def tail(path: Path, count: int, *, start: int = 0) -> list[Event]:
    """The last events of a log, in their order, of those that lie in its last `END_BYTES`.

    Args:
        path: an events.jsonl; a missing file has no events.
        count: how many events at most.
        start: do not look further back than this byte, the first of a line.
    """
    events = filter(None, map(parse_event, reversed(_end_of(path, start))))
    return list(islice(events, count))[::-1]


def log_size(path: Path) -> int:
    """Bytes of a log; a missing file has none."""
    with opened(path) as file:
        return file.seek(0, os.SEEK_END)


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of any text file, in their order and without line ends; see `tail`."""
    return [line.decode("utf-8", errors="replace").rstrip("\r\n") for line in _end_of(path)[-count:]]


def parse_event(line: bytes) -> Event | None:
    """The event of one complete line, or None when the line is torn or foreign."""
    if not line.endswith(b"\n"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("kind"), str) else None


def number_of(event: Event, name: str) -> int | float | None:
    """A number of an event; None where it has none, whatever else may stand there."""
    value: Any = event.get(name)
    # JSON readers also give true, NaN, infinities, and integers that no float can hold.
    return value if type(value) in (int, float) and abs(value) <= sys.float_info.max else None


def opened(path: Path) -> BinaryIO:
    """A log that is missing has no lines, nor has what is no file: reading a named pipe would never end.

    Its folder may be removed at any moment.
    """
    try:
        return path.open("rb") if path.is_file() else BytesIO()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return BytesIO()


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Lines from here on with their line ends, the last perhaps torn; overlong ones are skipped."""
    while line := file.readline(MAX_LINE):
        if len(line) < MAX_LINE or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)


def _end_of(path: Path, start: int = 0) -> list[bytes]:
    """Whole lines after byte `start` that lie in the last `END_BYTES` of a file, with their line ends."""
    with opened(path) as file:
        begin = max(start, file.seek(0, os.SEEK_END) - END_BYTES)
        # One byte more shows whether a line begins there.
        file.seek(max(start, begin - 1))
        if begin > start:
            file.readline(END_BYTES)
        return file.readlines()


def _line(kind: str, fields: dict[str, Any]) -> bytes:
    event = {"time": time.time(), "kind": kind, **_finite(fields)}
    return (json.dumps(event, ensure_ascii=False) + "\n").encode("utf-8", errors="replace")


def _ends_torn(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as log_file:
        log_file.seek(-1, os.SEEK_END)
        return log_file.read(1) != b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
