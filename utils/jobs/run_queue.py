"""Training runs that wait for their turn: a file in the project, from which they start one after another.

The file outlives its writer. A process that watches the queues, such as the page's, starts what is due.
"""

import dataclasses
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from utils.config import TrainConfig
from utils.errors import UserError, disk_errors
from utils.files import write_atomic
from utils.jobs.device import Claim, holder_of, wanted_device
from utils.project.paths import Project, check_name, new_run_id
from utils.project.projects import list_projects
from utils.runs.list import list_jobs
from utils.runs.record import Job

QUEUE_FILE = "queue.json"
MAX_QUEUED = 100
EVERY_S = 2.0
"""How often a watcher looks whether the device is free."""

log = logging.getLogger(__name__)

Start = Callable[[TrainConfig], object]
"""Starts a training."""


@dataclass(frozen=True, kw_only=True)
class QueuedRun:
    """A run that waits."""

    name: str
    """What the run will be called: its folder below runs/."""
    config: TrainConfig
    fault: str = ""
    """Why it could not be started, for people; it is skipped from then on. Empty while it waits."""


def read_queue(project: Project) -> list[QueuedRun]:
    """What waits in a project, in its order; nothing where there is no file or another program spoiled it."""
    try:
        found = json.loads((project.folder / QUEUE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    entries = found.get("runs") if isinstance(found, dict) else None
    return [run for entry in (entries if isinstance(entries, list) else []) if (run := _parsed(entry, project))]


def enqueue(project: Project, config: TrainConfig) -> QueuedRun:
    """Add a run at the end.

    Raises:
        UserError: a setting is not usable, too many wait already, or the disk is full.
    """
    name = new_run_id()
    run = QueuedRun(name=name, config=dataclasses.replace(config, run_id=name).validate(where="train settings"))
    with _changing(project) as runs:
        if len(runs) >= MAX_QUEUED:
            raise UserError(
                what=f"{MAX_QUEUED} runs are queued already", where=project.name, fix="remove some, or wait"
            )
        runs.append(run)
    return run


def dequeue(project: Project, name: str) -> None:
    """Remove a run, unless it has started or was removed elsewhere."""
    with _changing(project) as runs:
        runs[:] = [run for run in runs if run.name != name]


def move(project: Project, name: str, by: int) -> None:
    """Move a run nearer to the front (-1) or to the end (1), if it still waits."""
    with _changing(project) as runs:
        for at in [number for number, run in enumerate(runs) if run.name == name]:
            runs.insert(max(0, at + by), runs.pop(at))


def start_next(project: Project, start: Start) -> str | None:
    """Start the first run that can start, if its device is free.

    A run that cannot be started, such as one whose dataset is gone, keeps the reason and is skipped.

    Args:
        project: whose queue.
        start: starts a training, as `jobs.start` does; raises UserError where it cannot.

    Returns:
        The name of the run that was started; None when nothing was.
    """
    if not any(not run.fault for run in read_queue(project)):
        return None
    with _changing(project) as runs:
        for number, run in enumerate(list(runs)):
            if run.fault:
                continue
            if (project.runs / run.name).exists():
                # It was started, and the process that did so ended before the file was written.
                runs.pop(number)
                return run.name
            try:
                if not (table := run.config.train_csv or project.train_csv).is_file():
                    fix = "prepare it again, then queue the run again"
                    raise UserError(what="the dataset is gone", where=str(table), fix=fix)
                if holder(run.config) is not None or any(job.alive for job in list_jobs(project, kind="train")):
                    return None
                start(run.config)
            except UserError as error:
                if holder(run.config) is not None:
                    # Another job took the device just now.
                    return None
                log.warning("the queued run %s was skipped: %s", run.name, error)
                runs[number] = dataclasses.replace(run, fault=str(error))
                continue
            runs.pop(number)
            return run.name
    return None


def holder(config: TrainConfig) -> Job | None:
    """The living job that has the device of a training."""
    return holder_of(Claim(wanted_device(config.device), config.output))


def start_due(output: Path, start: Start) -> None:
    """Start what is due in all projects of an output folder, the run that was queued first before the others."""
    waiting = []
    for project in list_projects(output):
        first = next((run.name for run in read_queue(project) if not run.fault), None)
        waiting += [(first, project)] if first is not None else []
    # Names begin with the time.
    for _, project in sorted(waiting, key=lambda pair: pair[0]):
        start_next(project, start)


def watch_queues(output: Path, start: Start) -> threading.Event:
    """Start what is due from here on, in a thread that ends with the process, or once the event is set.

    Args:
        output: the folder that holds all projects.
        start: starts a training.
    """
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(EVERY_S):
            try:
                start_due(output, start)
            except UserError as error:
                log.warning("the queue of runs cannot be read: %s", error)
            except Exception:
                # One project's trouble must not keep the others waiting.
                log.exception("the queue of runs")
                time.sleep(EVERY_S)

    threading.Thread(target=watch, name="run queue", daemon=True).start()
    return ended


@contextmanager
def _changing(project: Project) -> Iterator[list[QueuedRun]]:
    """The queue, which is written when the block ends without an error.

    Raises:
        UserError: the disk is full, or the project may not be written.
    """
    with disk_errors(), FileLock(project.folder / ".queue.lock"):
        before = read_queue(project)
        runs = list(before)
        yield runs
        if runs != before:
            entries = [{"name": run.name, "fault": run.fault, "settings": run.config.plain()} for run in runs]
            content = json.dumps({"runs": entries}, ensure_ascii=False, indent=1)
            write_atomic(project.folder / QUEUE_FILE, content, durable=True)


def _parsed(entry: Any, project: Project) -> QueuedRun | None:
    """An entry of the file; None where it is none. Settings that are not usable any more become its fault."""
    name, settings = (entry.get("name"), entry.get("settings")) if isinstance(entry, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(settings, dict):
        return None
    fault = str(entry.get("fault") or "")
    # The project may have been renamed or moved since.
    here = TrainConfig(project=project.name, output=project.output, run_id=name)
    place = {"project": here.project, "output": here.output, "run_id": name}
    try:
        check_name(name, kind="run")
        config = TrainConfig.from_saved(settings | place, where=QUEUE_FILE).validate(where=QUEUE_FILE)
    except UserError as error:
        config, fault = here, fault or str(error)
    return QueuedRun(name=name, config=config, fault=fault)
