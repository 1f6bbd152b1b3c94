"""Follow a job from any process: its new events, the end of its log, and its end."""

import time
from pathlib import Path

from utils.jobs.stop import POLL_S, STOP_TIMEOUT_S, stop, watch_deadline
from utils.runs.log import Event, EventLog, last_lines
from utils.runs.record import Job, read_record, status


class Attachment:
    """One follower of a job; any number of them, in any process, do not disturb each other or the job.

    Args:
        folder: the job's folder.
        offset: give only events after this byte of the log; see `EventLog`.
    """

    def __init__(self, folder: Path, *, offset: int = 0) -> None:
        self.folder = folder
        self._follower = EventLog(status(folder).events, offset=offset)

    def status(self) -> Job:
        """How the job is doing now."""
        return status(self.folder)

    def new_events(self, limit: int | None = None) -> list[Event]:
        """Events since the last call; at first, all that the run ever wrote."""
        return self._follower.new(limit)

    @property
    def offset(self) -> int:
        """How far the log was read, for a later follower."""
        return self._follower.offset

    def log_tail(self, count: int = 40) -> list[str]:
        """The last lines of what the job's process said."""
        return last_lines(self.status().log, count)

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> Job:
        """See `utils.jobs.stop`."""
        return stop(self.folder, timeout_s=timeout_s)

    def wait(self, timeout_s: float | None = None) -> Job:
        """Return when the job and its process have ended, or after `timeout_s`; the job's state shows which."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (job := self.status()).alive or job.process_alive:
            if deadline is not None and time.monotonic() >= deadline:
                break
            time.sleep(POLL_S)
        return job


def attach(folder: Path, *, offset: int = 0) -> Attachment:
    """Follow a job that this or another process started, now or long ago.

    A stop that was asked for before keeps its deadline, even if the process that asked is gone.

    Args:
        folder: the job's folder.
        offset: give only events after this byte of the log.

    Raises:
        UserError: the folder holds no job.
    """
    attachment = Attachment(folder, offset=offset)
    record = read_record(folder)
    if record is not None and record.stop_deadline is not None and attachment.status().alive:
        watch_deadline(folder)
    return attachment
