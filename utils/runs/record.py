"""What a job is and how it is doing: job.json, the process table and its last events; nothing is cached in between.

job.json says which process does the job. It is written whole or not at all.
"""

import dataclasses
import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import psutil
from filelock import FileLock

from utils.errors import UserError, disk_errors
from utils.files import write_atomic
from utils.project.paths import Project
from utils.runs.log import FINAL, Event, log_size, number_of, read_events, tail
from utils.runs.process import ProcessId, host_name
from utils.settings import Config

JOB_FILE = "job.json"
EVENTS_FILE = "events.jsonl"

State = Literal["starting", "running", "stopping", "finished", "stopped", "failed", "lost"]

LIVE: tuple[State, ...] = ("starting", "running", "stopping")
"""States of a job that has not ended."""
PROCESS_GRACE_S = 30.0
"""A job without a process that is younger is being started right now."""
ALIVE_FILE = ".alive"
"""Touched by a job's process every few seconds; see `utils.jobs.child`."""
SILENT_S = 120.0
"""A job whose process cannot be seen from here is taken to be gone when it gave no sign of life for this long."""
UNKNOWN_S = 600.0
"""The same for one that gives no signs, as those of earlier versions: counted from when it wrote something last."""
NUM_LAST_EVENTS = 20
"""How many of the newest events to search for the one that ended the job."""
MAX_NUMBER = 10**11
"""No pid, number of bytes or moment in seconds of a record is as large."""


@dataclass(frozen=True, kw_only=True)
class JobRecord(Config):
    """The contents of job.json."""

    kind: str
    """Command that is run: train, prepare, export, ..."""
    state: State
    """What its last writer knew; `utils.jobs.status` says what is true now."""
    host: str
    """Name of the computer it runs on."""
    command: tuple[str, ...]
    """The child's arguments, its program first."""
    cwd: str
    """Working folder of the child, to which relative paths in its settings refer."""
    config: str
    """File beside job.json with the settings."""
    device: str | None = None
    """What it computes on while no other job may: cpu or cuda:N; None when it needs no device for itself."""
    spawned: bool = True
    """Whether its process exists for this job alone."""
    started: float
    """When it was started, in seconds since 1970."""
    events_offset: int = 0
    """Size of events.jsonl at the start, in bytes: what comes after it is this job's."""
    pid: int | None = None
    """Its process; None until there is one."""
    create_time: float | None = None
    """When that process was created, in seconds since 1970: another process may get the same pid later."""
    boot_time: float | None = None
    """When the computer was started, as read when the process was created: shows whether its clock was set since."""
    boot_id: str | None = None
    """Name of that start of the computer; Linux only."""
    stop_requested: float | None = None
    """When it was first asked to stop, in seconds since 1970."""
    stop_deadline: float | None = None
    """When it is ended if it has not stopped by itself."""
    exit_code: int | None = None
    """Exit status, negative for a signal; only known when the process that started it saw the end."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """A record as some version of this program wrote it.

        Raises:
            TypeError: a field is missing, or is of another type.
            ValueError: a field has a value that no program writes.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        given = {key: value for key, value in values.items() if key in known}
        if isinstance(command := given.get("command"), list):
            given["command"] = tuple(command)
        record = cls(**given)
        if wrong := record.wrong_types(vars(record)):
            raise TypeError("; ".join(wrong))
        numbers = [value for value in vars(record).values() if type(value) in (int, float)]
        # False of NaN, too.
        if not all(-MAX_NUMBER < value < MAX_NUMBER for value in numbers) or record.events_offset < 0:
            raise ValueError("a number is out of range")
        if record.pid is not None and record.pid <= 0:
            raise ValueError(f"the pid is {record.pid}")
        return record

    @property
    def process(self) -> ProcessId | None:
        """The process that it names."""
        if self.pid is None or self.create_time is None:
            return None
        boot_time = self.boot_time or 0.0
        return ProcessId(pid=self.pid, create_time=self.create_time, boot_time=boot_time, boot_id=self.boot_id)

    @property
    def is_process_alive(self) -> bool:
        """Whether that process runs on this computer."""
        return self.host == host_name() and self.process is not None and self.process.process() is not None


def new_record(kind: str, folder: Path, **facts: Any) -> JobRecord:
    """The record of a job that begins in a folder now."""
    facts |= {"host": host_name(), "cwd": str(Path.cwd())}
    return JobRecord(kind=kind, started=time.time(), events_offset=log_size(folder / EVENTS_FILE), **facts)


def read_record(folder: Path) -> JobRecord | None:
    """The record in a job's folder; None when there is none, or none that can be read."""
    try:
        return JobRecord.from_json(json.loads((folder / JOB_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def write_record(folder: Path, record: JobRecord) -> None:
    """Replace job.json.

    Raises:
        UserError: the disk is full, or the folder may not be written.
    """
    text = json.dumps(dataclasses.asdict(record), indent=2, ensure_ascii=False)
    with disk_errors():
        write_atomic(folder / JOB_FILE, text, durable=True)


def change_record(folder: Path, change: Callable[[JobRecord], JobRecord]) -> JobRecord | None:
    """Change job.json while no other process does.

    Args:
        folder: the job's folder.
        change: gives the new record from the present one.

    Returns:
        The record before the change; None when there is none, and nothing was written.
    """
    with disk_errors(), FileLock(folder / ".job.lock"):
        record = read_record(folder)
        if record is not None:
            write_record(folder, change(record))
        return record


def update_record(folder: Path, **changes: Any) -> None:
    """Change some fields of job.json; nothing is done where there is none."""
    change_record(folder, lambda record: dataclasses.replace(record, **changes))


def identify(folder: Path, pid: int) -> None:
    """Write down which process does a job; of one that has ended already, only its number."""
    try:
        update_record(folder, **dataclasses.asdict(ProcessId.of(pid)))
    except psutil.NoSuchProcess:
        update_record(folder, pid=pid)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is known of a job at one moment."""

    folder: Path
    kind: str
    state: State
    message: str = ""
    """Why it failed or was lost, or what else a person should know; often empty."""
    host: str
    """Name of the computer it runs on; empty when unknown."""
    device: str | None = None
    """What it computes on while no other job may: cpu or cuda:N."""
    pid: int | None = None
    process_alive: bool
    """Whether its process was seen: for a moment after the job has ended it may still hold its device."""
    started: float | None
    """In seconds since 1970."""
    ended: float | None = None
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
    record = read_record(folder) or _guessed_record(folder)
    path = folder / EVENTS_FILE
    # A log that is shorter than it was has been replaced.
    offset = record.events_offset if record.events_offset <= log_size(path) else 0
    events = tail(path, NUM_LAST_EVENTS, start=offset)
    final = _final_event(events)
    process_alive = record.is_process_alive
    has_begun = bool(events) or record.state == "running"
    state: State = final["kind"] if final else _state_without_end(folder, record, process_alive, has_begun=has_begun)
    ended = (final and number_of(final, "time")) or last_write(folder)
    return Job(
        folder=folder,
        kind=record.kind,
        state=state,
        message=_message(state, final, record),
        host=record.host,
        device=record.device,
        pid=record.pid,
        # A process that does more than this job continues after it, and is no longer part of it.
        process_alive=process_alive and (record.spawned or final is None),
        started=record.started or None,
        ended=None if state in LIVE else ended,
        events_offset=offset,
    )


def _guessed_record(folder: Path) -> JobRecord:
    """What is known of a run without a record that can be read, such as one that an older version made.

    Raises:
        UserError: the folder holds no job.
    """
    if not any((folder / name).is_file() for name in (JOB_FILE, "config.yaml", EVENTS_FILE)):
        raise UserError(what="there is no job here", where=str(folder), fix="name a run's folder")
    # From the front, where it lies: from the end, the whole log would be read each time.
    first: Event = next(read_events(folder / EVENTS_FILE, kind="started"), {})
    started = number_of(first, "time") or 0.0
    return JobRecord(kind="train", state="running", host="", command=(), cwd="", config="config.yaml", started=started)


def require_stopped(run: Path) -> None:
    """Do nothing unless a process works in a run's folder.

    Raises:
        UserError: one does.
    """
    if status(run).alive:
        raise UserError(what=f"run {run.name!r} is still running", where=str(run), fix="stop it first")


def jobs_folder(project: Project) -> Path:
    """Where the folders of jobs lie that are no training runs."""
    return project.folder / "jobs"


def _final_event(events: list[Event]) -> Event | None:
    """The event that ended the job, unless other events follow it."""
    for event in reversed(events):
        if event["kind"] in FINAL:
            return event
        if event["kind"] in ("started", "step", "progress"):
            return None
    return None


def _state_without_end(folder: Path, record: JobRecord, process_alive: bool, *, has_begun: bool) -> State:
    now, beats = time.time(), modified(folder / ALIVE_FILE)
    if record.host == host_name():
        alive = process_alive or (record.pid is None and now - record.started < PROCESS_GRACE_S)
    elif beats is None:
        # It cannot be seen from here; the computers' clocks must agree to a minute.
        alive = now - last_write(folder) < UNKNOWN_S
    else:
        # One that was started again a moment ago has a new record, and no beat yet.
        alive = now - max(beats, modified(folder / JOB_FILE) or 0.0) < SILENT_S
    if not alive:
        # A job that was asked to stop before it could notice, or was ended by force, did what was wanted.
        return "stopped" if record.stop_requested else "lost"
    if record.stop_requested:
        return "stopping"
    return "running" if has_begun else "starting"


def _message(state: State, final: Event | None, record: JobRecord) -> str:
    if final is not None:
        return str(final.get("error") or final.get("message") or "")
    if not record.host:
        return "which process does this is not known"
    if state == "lost" and record.exit_code is not None:
        code = record.exit_code
        reason = ", perhaps because memory ran out" if code == -getattr(signal, "SIGKILL", 9) else ""
        how = f"exit status {code}" if code >= 0 else f"killed by signal {-code}{reason}"
        return f"its process ended without saying why ({how}); see the log"
    if state == "lost" and record.host != host_name():
        return f"it gives no sign of life any more; it ran on {record.host}, which cannot be seen from here"
    if state == "lost":
        return "its process is gone and did not say why; see the log"
    if record.host != host_name():
        return f"on {record.host}, which cannot be seen from here"
    return ""


def last_write(folder: Path) -> float:
    """When the job wrote something last, in seconds since 1970; 0 when it wrote nothing."""
    names = (EVENTS_FILE, JOB_FILE, "train.log", "job.log")
    return max(modified(folder / name) or 0.0 for name in names)


def modified(path: Path) -> float | None:
    """When a file was changed, in seconds since 1970; None where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def status_or_none(folder: Path) -> Job | None:
    """How the job in this folder is doing; None when it holds none, or none that can be read."""
    try:
        return status(folder)
    except (UserError, OSError):
        return None
