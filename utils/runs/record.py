"""job.json: what a job is and which process does it; written whole or not at all."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from filelock import FileLock

from utils.errors import disk_errors
from utils.files import write_atomic

JOB_FILE = "job.json"
EVENTS_FILE = "events.jsonl"

State = Literal["starting", "running", "stopping", "finished", "stopped", "failed", "lost"]


@dataclass(frozen=True, kw_only=True)
class JobRecord:
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
            TypeError: a field is missing.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        given = {key: value for key, value in values.items() if key in known}
        return cls(**{**given, "command": tuple(given.get("command", ()))})


def read_record(folder: Path) -> JobRecord | None:
    """The record in a job's folder; None when there is none, or none that can be read."""
    try:
        return JobRecord.from_json(json.loads((folder / JOB_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError):
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
