"""Append events to a run's log; events that a full disk rejects are kept and written later."""

import errno
import json
import logging
import math
import os
import time
from pathlib import Path
from typing import Any

from utils.errors import UserError

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

log = logging.getLogger(__name__)


class EventWriter:
    """Appends events to `path`; each line is handed to the system at once, so a kill loses none.

    A log has one writer at a time. While the disk is full, events wait in memory and are written in their order as
    soon as there is room; a warning event then says how late they are.

    Args:
        path: the run's events.jsonl; created when absent, continued when present.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._held = bytearray()
        self._num_late = 0
        self._full_since: float | None = None
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
            UserError: the disk has been full for so long that events can no longer be kept in memory.
            OSError: the log cannot be written for another reason.
        """
        assert kind in KINDS, kind
        self._append(_line(kind, fields))

    def close(self) -> None:
        """Write what is still held, and close the file.

        Raises:
            UserError: the disk is still full; it says how many events the log lacks.
        """
        try:
            if self._held:
                self._append(b"")
            if self._held:
                lost = self._held.count(b"\n")
                raise self._disk_full(f"the last {lost} events of this run could not be written")
        finally:
            self._file.close()

    def _append(self, line: bytes) -> None:
        self._held += line
        try:
            while self._held:
                del self._held[: self._file.write(self._held)]
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            self._hold(line)
        else:
            if self._full_since is not None:
                delay = f"the disk was full for {time.time() - self._full_since:.0f} s"
                late, self._full_since, self._num_late = self._num_late, None, 0
                self._append(_line("warning", {"message": f"{delay}: {late} events were written late"}))

    def _hold(self, line: bytes) -> None:
        if len(self._held) > MAX_HELD_BYTES:
            del self._held[len(self._held) - len(line) :]
            raise self._disk_full("events can no longer be written")
        self._num_late += bool(line)
        if self._full_since is None:
            self._full_since = time.time()
            log.warning("the disk is full: events are kept in memory until there is room for %s", self.path)

    def _disk_full(self, what: str) -> UserError:
        return UserError(what=f"the disk is full: {what}", where=str(self.path), fix="free some space, then run again")


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
