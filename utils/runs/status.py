"""The state of a job from job.json, the process table and its last events; nothing is cached in between."""

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utils.errors import UserError
from utils.project.paths import Project
from utils.runs.log import FINAL, log_size, number_of, read_events, tail
from utils.runs.process import ProcessId, host_name
from utils.runs.record import EVENTS_FILE, JOB_FILE, JobRecord, State, read_record

LIVE: tuple[State, ...] = ("starting", "running", "stopping")
"""States of a job that has not ended."""
PROCESS_GRACE_S = 30.0
"""A job without a process that is younger is being started right now."""
ALIVE_FILE = ".alive"
"""Touched by a job's process every few seconds; see `utils.jobs.heartbeat`."""
SILENT_S = 120.0
"""A job whose process cannot be seen from here is taken to be gone when it gave no sign of life for so long."""
UNKNOWN_S = 600.0
"""The same for one that gives no signs, as those of earlier versions: counted from when it wrote something last."""
NUM_LAST_EVENTS = 20
"""Among so many last events lies the one that ended the job, if one did."""

Event = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is known of a job at one moment."""

    folder: Path
    kind: str
    state: State
    message: str
    """Why it failed or was lost, or what else a person should know; often empty."""
    host: str
    """Name of the computer it runs on; empty when unknown."""
    command: tuple[str, ...]
    device: str | None
    """What it computes on while no other job may: cpu or cuda:N."""
    pid: int | None
    process_alive: bool
    """Whether its process was seen: for a moment after the job has ended it may still hold its device."""
    started: float | None
    """In seconds since 1970."""
    ended: float | None
    """In seconds since 1970; None while it lives."""
    events_offset: int = 0
    """Where in the log its present process began, in bytes: before that, an earlier one of a resumed run wrote."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def alive(self) -> bool:
        return self.state in LIVE

    @property
    def events(self) -> Path:
        return self.folder / EVENTS_FILE

    @property
    def log(self) -> Path:
        return log_file(self.folder, self.kind)


def log_file(folder: Path, kind: str) -> Path:
    """Where the output of a job's process goes."""
    return folder / ("train.log" if kind == "train" else "job.log")


def status(folder: Path) -> Job:
    """How the job in this folder is doing.

    Raises:
        UserError: the folder holds no job.
    """
    record = read_record(folder)
    if record is None:
        return _without_record(folder)
    process_alive = is_process_alive(record)
    path = folder / EVENTS_FILE
    # A log that is shorter than it was has been replaced.
    offset = record.events_offset if record.events_offset <= log_size(path) else 0
    events = tail(path, NUM_LAST_EVENTS, start=offset)
    final = final_event(events)
    state = (
        final["kind"]
        if final
        else _state_without_end(folder, record, process_alive, has_begun=bool(events) or record.state == "running")
    )
    return Job(
        folder=folder,
        kind=record.kind,
        state=state,
        message=_message(state, final, record),
        host=record.host,
        command=record.command,
        device=record.device,
        pid=record.pid,
        # A process that does more than this job goes on after it, and is none of its business then.
        process_alive=process_alive and (record.spawned or final is None),
        started=record.started,
        ended=_ended(folder, state, final),
        events_offset=offset,
    )


def is_process_alive(record: JobRecord) -> bool:
    """Whether the process of a record runs on this computer."""
    identity = ProcessId.in_record(record)
    return record.host == host_name() and identity is not None and identity.process() is not None


def jobs_folder(project: Project) -> Path:
    """Where the folders of jobs lie that are no training runs."""
    return project.folder / "jobs"


def final_event(events: list[Event]) -> Event | None:
    """The event that ended the job, unless it went on after it."""
    for event in reversed(events):
        if event["kind"] in FINAL:
            return event
        if event["kind"] in ("started", "step", "progress"):
            return None
    return None


def _state_without_end(folder: Path, record: JobRecord, process_alive: bool, *, has_begun: bool) -> State:
    if record.host != host_name():
        alive = _gives_signs(folder)
    else:
        just_begun = record.pid is None and time.time() - record.started < PROCESS_GRACE_S
        alive = process_alive or just_begun
    if not alive:
        # Whoever was asked to stop before it could notice, or was ended by force, did what was wanted.
        return "stopped" if record.stop_requested else "lost"
    if record.stop_requested:
        return "stopping"
    return "running" if has_begun else "starting"


def _gives_signs(folder: Path) -> bool:
    """Whether a job that cannot be seen from here seems to live; the computers' clocks must agree to a minute."""
    beats = _modified(folder / ALIVE_FILE)
    if beats is None:
        return time.time() - last_write(folder) < UNKNOWN_S
    # One that was started again a moment ago has a new record, and no beat yet.
    return time.time() - max(beats, _modified(folder / JOB_FILE) or 0.0) < SILENT_S


def _message(state: State, final: Event | None, record: JobRecord) -> str:
    if final is not None:
        return str(final.get("error") or final.get("message") or "")
    if state == "lost" and record.exit_code is not None:
        return f"its process ended without saying why ({_exit(record.exit_code)}); see the log"
    if state == "lost" and record.host != host_name():
        return f"it gives no sign of life any more; it ran on {record.host}, which cannot be seen from here"
    if state == "lost":
        return "its process is gone and did not say why; see the log"
    if record.host != host_name():
        return f"on {record.host}, which cannot be seen from here"
    return ""


def _exit(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    reason = ", perhaps because memory ran out" if code == -getattr(signal, "SIGKILL", 9) else ""
    return f"killed by signal {-code}{reason}"


def _ended(folder: Path, state: State, final: Event | None) -> float | None:
    if state in LIVE:
        return None
    time_of_end = final.get("time") if final else None
    return float(time_of_end) if isinstance(time_of_end, int | float) else last_write(folder)


def last_write(folder: Path) -> float:
    """When the job wrote something last, in seconds since 1970; 0 when it wrote nothing."""
    names = (EVENTS_FILE, JOB_FILE, "train.log", "job.log")
    return max(_modified(folder / name) or 0.0 for name in names)


def _modified(path: Path) -> float | None:
    """When a file was changed, in seconds since 1970; None where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _without_record(folder: Path) -> Job:
    """A run whose process is not known, such as one that an older version made."""
    if not any((folder / name).is_file() for name in (JOB_FILE, "config.yaml", EVENTS_FILE)):
        raise UserError(what="there is no job here", where=str(folder), fix="name a run's folder")
    final = final_event(tail(folder / EVENTS_FILE, NUM_LAST_EVENTS))
    seems_alive = time.time() - last_write(folder) < UNKNOWN_S
    state: State = final["kind"] if final else "running" if seems_alive else "lost"
    # From the front, where it lies: from the end, the whole log would be read each time.
    first: Event = next(read_events(folder / EVENTS_FILE, kind="started"), {})
    return Job(
        folder=folder,
        kind="train",
        state=state,
        message=str(final.get("error", "")) if final else "which process does this is not known",
        host="",
        command=(),
        device=None,
        pid=None,
        process_alive=False,
        started=number_of(first, "time"),
        ended=_ended(folder, state, final),
    )


def status_or_none(folder: Path) -> Job | None:
    """How the job in this folder is doing; None when it holds none."""
    try:
        return status(folder)
    except UserError:
        return None
