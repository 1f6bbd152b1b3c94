"""Readers of runs' logs, kept between polls so that each poll reads only new events."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from utils.jobs import Job
from utils.runs.log import Event, Newest, Series

MAX_LOGS = 64
"""Logs whose readers are kept; one that was let go is read anew."""


class Logs:
    """The logs that pages look at, shared by all browsers."""

    def __init__(self) -> None:
        self._logs: OrderedDict[Path, _Log] = OrderedDict()
        self._lock = threading.Lock()

    def tail(self, path: Path, count: int, *, kind: str, start: int = 0) -> list[Event]:
        """The last events of a kind; as `utils.runs.log.tail`, for up to `utils.runs.newest.KEPT` of them."""
        log = self._log(path)
        with log.lock:
            return log.newest.tail(count, kind=kind, start=start)

    def last_start(self, job: Job) -> Event | None:
        """What the process that works on a job now, or did so last, said when it began; None before it did."""
        return next(iter(self.tail(job.events, 1, kind="started", start=job.events_offset)), None)

    def since_start(self, job: Job, kind: str) -> Event | None:
        """The last event of a kind that the process of `last_start` wrote; None while there is none.

        What an earlier process of a resumed run said is not true of the present one.
        """
        log = self._log(job.events)
        with log.lock:
            found = log.newest.tail(1, kind=kind, start=job.events_offset, after="started")
            return next(iter(found), None)

    def first(self, path: Path, kind: str) -> Event | None:
        """The first event of a kind; None while there is none."""
        log = self._log(path)
        with log.lock:
            return log.newest.first(kind)

    def curve(self, path: Path, kind: str, fields: Sequence[str], max_points: int = 300) -> dict[str, list[Any]]:
        """A curve of a log; see `utils.runs.series`."""
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
