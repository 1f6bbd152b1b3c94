"""Logs of runs, kept between polls so that each poll reads only new events."""

import threading
from collections import OrderedDict
from pathlib import Path

from utils.jobs import Job
from utils.runs.log import Event, EventLog

MAX_LOGS = 64
"""Logs that are kept; one that was let go is read again."""


class Logs:
    """The logs that pages look at, shared by all browsers."""

    def __init__(self) -> None:
        self._logs: OrderedDict[Path, EventLog] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, job: Job) -> EventLog:
        """A job's log."""
        with self._lock:
            log = self._logs.setdefault(job.events, EventLog(job.events))
            self._logs.move_to_end(job.events)
            while len(self._logs) > MAX_LOGS:
                self._logs.popitem(last=False)
            return log

    def since_start(self, job: Job, kind: str) -> Event:
        """The last event of a kind that the present or last process of a job wrote; empty while there is none.

        What an earlier process of a resumed run wrote is not true of the present one.
        """
        return self.of(job).last(kind, start=job.events_offset, after="started")
