"""Stop a job: by request first, by force when asked again or after a timeout."""

import dataclasses
import logging
import math
import threading
import time
from pathlib import Path
from typing import Any

from utils.errors import UserError
from utils.runs.process import ask_to_stop, end_tree, host_name
from utils.runs.record import Job, change_record, read_record, status

STOP_TIMEOUT_S = 300.0
"""A job that was asked to stop may finish its step and save for this long."""
POLL_S = 0.1

log = logging.getLogger(__name__)


def stop(folder: Path, *, timeout_s: float = STOP_TIMEOUT_S, same_for_s: float = 0.0) -> Job:
    """Ask a job to finish its step, save and end; asked a second time, it is ended at once with all its processes.

    A request returns at once. The process that asked also ends the job by force after `timeout_s`; when that process
    is gone, so is the deadline, until another one waits for the job.

    Args:
        folder: the job's folder.
        timeout_s: how long it may take to stop by itself.
        same_for_s: a second request that follows sooner is the same one: two people, or one, pressed Stop twice.

    Raises:
        UserError: there is no such job, it runs on another computer, or its process is not known; or the request
            cannot be noted in its folder, and was made all the same.
    """
    job = status(folder)
    if not job.alive and not job.process_alive:
        return job
    record = read_record(folder)
    identity = record.process if record else None
    if record is not None and record.host != host_name():
        raise UserError(
            what=f"the job runs on {record.host}", where=str(folder), fix=f"stop it there: kill {record.pid}"
        )
    if identity is None:
        raise UserError(
            what="which process does this job is not known",
            where=str(folder),
            fix="if it was started just now, try again in a moment; else stop it where it was started",
        )
    try:
        now = time.time()
        asked: dict[str, Any] = {"state": "stopping", "stop_requested": now, "stop_deadline": now + timeout_s}
        before = change_record(folder, lambda one: one if one.stop_requested else dataclasses.replace(one, **asked))
    except UserError:
        # Nothing can be noted, as on a full disk; then stopping matters all the more.
        ask_to_stop(identity)
        raise
    if before is not None and before.stop_requested is None:
        ask_to_stop(identity)
        _watch_deadline(folder)
    elif before is None or abs(time.time() - (before.stop_requested or 0.0)) >= same_for_s:
        _end(folder)
    return status(folder)


def wait(folder: Path, timeout_s: float = math.inf) -> Job:
    """Return when a job and its process have ended, or after `timeout_s`; the job's state shows which.

    A stop that was asked for before keeps its deadline, even if the process that asked is gone.

    Raises:
        UserError: the folder holds no job.
    """
    job, record, until = status(folder), read_record(folder), time.monotonic() + timeout_s
    if job.alive and record is not None and record.stop_deadline is not None:
        _watch_deadline(folder)
    while (job.alive or job.process_alive) and time.monotonic() < until:
        time.sleep(POLL_S)
        job = status(folder)
    return job


def _watch_deadline(folder: Path) -> None:
    """From a thread of this process, end a job by force once the time it was given to stop is over."""

    def watch() -> None:
        while (record := read_record(folder)) and record.stop_deadline is not None and record.is_process_alive:
            left = record.stop_deadline - time.time()
            if left <= 0:
                log.warning("%s did not stop in time and is ended", folder.name)
                _end(folder)
                return
            time.sleep(min(left, POLL_S))

    threading.Thread(target=watch, name=f"stop {folder.name}", daemon=True).start()


def _end(folder: Path) -> None:
    record = read_record(folder)
    identity = record.process if record else None
    if record is not None and identity is not None:
        end_tree(identity, whole_session=record.spawned)
