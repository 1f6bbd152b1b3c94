"""Readers of runs' logs that are kept between polls, so that each poll reads only what is new."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from utils.events import Event, Newest, Series

MAX_LOGS = 64
"""Logs whose readers are kept; one that was let go is read anew."""


class Logs:
    """The logs that pages look at, shared by all browsers."""

    def __init__(self) -> None:
        self._logs: OrderedDict[Path, _Log] = OrderedDict()
        self._lock = threading.Lock()

    def tail(self, path: Path, count: int, *, kind: str) -> list[Event]:
        """The last events of a kind; as `utils.events.tail`, for up to `utils.events.newest.KEPT` of them."""
        log = self._log(path)
        with log.lock:
            return log.newest.tail(count, kind=kind)

    def last(self, path: Path, kind: str) -> Event | None:
        """The last event of a kind; None while there is none."""
        return next(iter(self.tail(path, 1, kind=kind)), None)

    def first(self, path: Path, kind: str) -> Event | None:
        """The first event of a kind; None while there is none."""
        log = self._log(path)
        with log.lock:
            return log.newest.first(kind)

    def curve(self, path: Path, kind: str, fields: Sequence[str], max_points: int = 300) -> dict[str, list[Any]]:
        """A curve of a log; see `utils.events.series`."""
        log, key = self._log(path), (kind, tuple(fields), max_points)
        with log.lock:
            if key not in log.curves:
                log.curves[key] = Series(path, kind, fields, max_points)
            return log.curves[key].columns()

    def _log(self, path: Path) -> "_Log":
        with self._lock:
            log = self._logs.setdefault(path, _Log(path))
            self._logs.move_to_end(path)
            while len(self._logs) > MAX_LOGS:
                self._logs.popitem(last=False)
            return log


class _Log:
    """One log's readers; who reads it for the first time keeps only those waiting who want the same log."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.Lock()
        self.newest = Newest(path)
        self.curves: dict[tuple, Series] = {}
