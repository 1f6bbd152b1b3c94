"""Follow a growing log: each call returns the events added since the last one."""

import time
from collections.abc import Generator
from pathlib import Path

from utils.runs.read import Event, forward_lines, may_hold, parse_event

FINGERPRINT = 64
"""Bytes of the log's beginning that distinguish it from another one: its first event holds the time it was written."""


SETTLED_S = 2.0
"""A log that nobody has written for so long is as it was when its size and time are: clocks of files are coarse."""


class EventFollower:
    """Reads what is new in a log; a line that is torn now is read once it is complete.

    A log that was truncated or replaced is read from its beginning again, and `num_restarts` counts it.

    Args:
        path: an events.jsonl; it may not exist yet.
        kind: only events of this kind.
        offset: begin at this byte, the first of a line, such as a former follower's `offset`.
    """

    def __init__(self, path: Path, *, kind: str | None = None, offset: int = 0) -> None:
        self.path = path
        self.kind = kind
        self.offset = offset
        """Byte after the last line that was read."""
        self.num_restarts = 0
        """How often the log turned out to be another one than before."""
        self._beginning = b""
        self._read_through: tuple[int, int, int] | None = None

    def new(self, limit: int | None = None) -> list[Event]:
        """Events that were completed since the last call, in order.

        Args:
            limit: at most this many; the rest comes with the next call.
        """
        found: list[Event] = []
        lines = self.new_lines()
        while limit is None or len(found) < limit:
            line = next(lines, None)
            if line is None:
                break
            event = parse_event(line) if may_hold(line, self.kind) else None
            if event is not None and self.kind in (None, event["kind"]):
                found.append(event)
        lines.close()
        return found

    def new_lines(self) -> Generator[bytes, None, None]:
        """Lines that were completed since the last call, of any kind and as they are; one that was given is not given
        again, also when the rest is not taken."""
        try:
            facts = self.path.stat()
            now = (facts.st_size, facts.st_mtime_ns, facts.st_ino)
            if now == self._read_through and time.time() - facts.st_mtime > SETTLED_S:
                return
            log_file = self.path.open("rb")
        except FileNotFoundError:
            self._restart()
            return
        self._read_through = None
        with log_file:
            beginning = log_file.read(FINGERPRINT)
            # Inode numbers are used again, contents are not.
            if log_file.seek(0, 2) < self.offset or not beginning.startswith(self._beginning):
                self._restart()
            self._beginning = beginning[: self.offset]
            log_file.seek(self.offset)
            for line in forward_lines(log_file):
                if not line.endswith(b"\n"):
                    break
                # forward_lines passes over overlong lines, so only the file knows where it is.
                self.offset = log_file.tell()
                self._beginning = beginning[: self.offset]
                yield line
        self._read_through = now

    def _restart(self) -> None:
        self.num_restarts += self.offset > 0
        self.offset = 0
        self._beginning = b""
