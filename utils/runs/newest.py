"""The newest event of each kind in a growing log; each call reads only what was appended."""

import re
from collections import deque
from itertools import islice, takewhile
from pathlib import Path

from utils.runs.follow import EventFollower
from utils.runs.read import Event, parse_event

KEPT = 64
"""Events of each kind that are kept, and so the most that can be asked for."""
MAX_KINDS = 64
"""More kinds than any log of ours has: a foreign one cannot fill the memory."""
_OURS = re.compile(rb'\{"time": [-+.\de]+, "kind": "(\w+)"')
"""How a line of our writer begins; its kind is then known without reading the rest, ten times quicker."""


class Newest:
    """What a page asks of a log every two seconds, in a time that does not grow with the log.

    The first call reads the whole log once. A log that was truncated or replaced is read anew.

    Args:
        path: an events.jsonl; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._follower = EventFollower(path)
        self._num_restarts = 0
        self._first: dict[str, Event] = {}
        self._last: dict[str, deque[tuple[int, bytes]]] = {}
        """Lines of each kind, each with the byte it ends before."""

    def tail(self, count: int, *, kind: str, start: int = 0, after: str | None = None) -> list[Event]:
        """The last events of a kind, in their order; as `utils.runs.log.tail`, up to `KEPT` of them.

        Args:
            count: how many events at most.
            kind: only events of this kind.
            start: only events after this byte of the log, the first of a line.
            after: only events after the last one of this kind; none while there is no such event after `start`.
        """
        assert count <= KEPT, f"{count} events of a kind are asked for, and {KEPT} kept"
        self._read()
        if after is not None:
            end = self._last[after][-1][0] if after in self._last else 0
            if end <= start:
                return []
            start = end
        lines = takewhile(lambda line: line[0] > start, reversed(self._last.get(kind, ())))
        events = (parse_event(line) for _, line in lines)
        found = (event for event in events if event is not None and event["kind"] == kind)
        return list(islice(found, count))[::-1]

    def first(self, kind: str) -> Event | None:
        """The first event of a kind; None while there is none."""
        self._read()
        return self._first.get(kind)

    def _read(self) -> None:
        for line in self._follower.new_lines():
            self._forget_another_log()
            self._keep(line)
        self._forget_another_log()

    def _forget_another_log(self) -> None:
        if self._follower.num_restarts != self._num_restarts:
            self._num_restarts = self._follower.num_restarts
            self._first, self._last = {}, {}

    def _keep(self, line: bytes) -> None:
        ours = _OURS.match(line)
        kind = ours[1].decode() if ours else (parse_event(line) or {}).get("kind")
        if kind is None:
            return
        if kind not in self._first:
            event = parse_event(line)
            if event is None or len(self._first) >= MAX_KINDS:
                return
            self._first[kind] = event
            self._last[kind] = deque(maxlen=KEPT)
        self._last[kind].append((self._follower.offset, line))
