"""The jobs and runs of a project, and removing what the user chose; without loading torch."""

import dataclasses
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utils.config import TrainConfig
from utils.errors import UserError
from utils.hardware.resources import size_of
from utils.project.paths import Project
from utils.runs.follow import EventLog
from utils.runs.layout import (
    ASIDE,
    CHECKPOINTS,
    LEFT,
    REMOVING,
    CheckpointFolder,
    checkpoints_of,
    discard,
    find_run,
    freed_by,
)
from utils.runs.log import Event, log_size, number_of
from utils.runs.record import EVENTS_FILE, JOB_FILE, Job, jobs_folder, last_write, modified, status, status_or_none

log = logging.getLogger(__name__)

ReadJob = Callable[[Path], Job | None]
"""Gives the job in a folder, as `status_or_none` does."""


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """What a run's folder says."""

    job: Job
    step: int
    """Optimizer steps done."""
    total_steps: int | None
    """None before training began."""
    loss: float | None
    """Of the last step; None when there is none, or it was not finite."""
    best_loss: float | None
    """Lowest evaluation loss; None before the first evaluation."""
    speech: dict[int, float]
    """How well checkpoints speak, 0 to 3, by step; empty where that was not measured."""
    proof: Event
    """The newest `optimizations` event of the process that trained last; empty before its first step."""
    checkpoints: list[CheckpointFolder]
    num_bytes: int
    """Of the whole folder."""
    last_write: float
    """When the run wrote something last, in seconds since 1970."""

    @property
    def folder(self) -> Path:
        return self.job.folder


@dataclass(frozen=True, kw_only=True)
class Removal:
    """A folder that can go."""

    path: Path
    what: str
    """What it is, for people."""
    run: Path
    """The run it belongs to."""
    num_bytes: int


def list_jobs(project: Project, *, kind: str | None = None, read: ReadJob = status_or_none) -> list[Job]:
    """The jobs of a project, the newest first: its runs, and what else was done in child processes.

    Args:
        project: whose jobs.
        kind: only jobs of this kind.
        read: reads a folder.
    """
    parents = project.runs, jobs_folder(project)
    folders = [entry for parent in parents if parent.is_dir() for entry in parent.iterdir()]
    found = (read(folder) for folder in folders if folder.is_dir() and not folder.name.startswith("."))
    wanted = (job for job in found if job is not None and kind in (None, job.kind))
    return sorted(wanted, key=lambda job: (job.started or 0.0, job.name), reverse=True)


def running(output: Path, *, read: ReadJob = status_or_none) -> list[Job]:
    """The jobs that have not ended, of all projects below `output`; `read` as of `list_jobs`."""
    folders = sorted(output.iterdir()) if output.is_dir() else []
    projects = [Project(name=folder.name, output=output) for folder in folders if folder.is_dir()]
    return [job for project in projects for job in list_jobs(project, read=read) if job.alive]


def list_runs(project: Project) -> list[RunInfo]:
    """The runs of a project, the newest first; one that cannot be read is logged and does not hide the others."""
    found = []
    for job in list_jobs(project):
        if job.folder.parent == project.runs:
            try:
                found.append(read_run(job.folder))
            except (UserError, OSError) as error:
                log.warning("run %s cannot be read: %s", job.folder.name, error)
    return found


def read_run(folder: Path) -> RunInfo:
    """What a run's folder says.

    Raises:
        UserError: the folder holds no run.
    """
    job = status(folder)
    events, start = EventLog(job.events), job.events_offset
    losses = [loss for loss in events.curve("eval", ["loss"])["loss"] if loss is not None]
    step, total = events.last("step"), number_of(events.last("started"), "total_steps")
    return RunInfo(
        job=job,
        step=int(number_of(step, "step") or 0),
        total_steps=None if total is None else int(total),
        loss=number_of(step, "loss"),
        best_loss=min(losses, default=None),
        speech=speech_scores(events.last("speech_scores", start=start)),
        # What an earlier process of a resumed run observed is not true of the present one.
        proof=events.last("optimizations", start=start, after="started"),
        checkpoints=checkpoints_of(folder),
        num_bytes=size_of(folder),
        last_write=last_write(folder),
    )


def speech_scores(event: Event) -> dict[int, float]:
    """The scores of a `speech_scores` event by step; none where something else stands in their place."""
    scores = event.get("scores")
    found = [one for one in scores if isinstance(one, dict)] if isinstance(scores, list) else []
    known = [(number_of(one, "step"), number_of(one, "score")) for one in found]
    return {int(step): float(score) for step, score in known if step is not None and score is not None}


def changed_settings(run: Path) -> dict[str, Any]:
    """The settings of a run that are not their defaults.

    Raises:
        UserError: the run's config.yaml cannot be read.
    """
    config = TrainConfig.load(run / "config.yaml")
    fields = dataclasses.fields(TrainConfig)
    changed = {f.name: value for f in fields if (value := getattr(config, f.name)) != f.default} | dict(config.retired)
    # These say where the run lies, not what it is.
    return {name: value for name, value in changed.items() if name not in ("project", "output", "run_id")}


def plan_removal(project: Project, names: Sequence[str], *, keep_best: bool) -> list[Removal]:
    """What would go; nothing is removed.

    Args:
        project: whose runs.
        names: the runs meant; with `keep_best`, all when none is named.
        keep_best: only what the best weights can do without: other checkpoints, and what a kill left behind.

    Raises:
        UserError: a named run does not exist, or is still running.
    """
    folders = [find_run(project, name) for name in dict.fromkeys(names)]
    for folder in folders:
        require_ended(folder)
    if keep_best and not folders:
        folders = [info.folder for info in list_runs(project) if not info.job.alive]
    found = list[tuple[Path, str, Path]]()
    if folders or (keep_best and not names):
        cut = [(path, path) for path in project.runs.glob(f"{REMOVING}*")]
        # A run that is alive may just be removing a checkpoint.
        for path in project.runs.glob(f"*/{CHECKPOINTS}/{REMOVING}*"):
            run = path.parents[1]
            job = status_or_none(run)
            if not run.name.startswith(REMOVING) and (job is None or not (job.alive or job.process_alive)):
                cut.append((path, run))
        found += [(path, "left by a removal that was cut", run) for path, run in cut]
    for run in folders:
        if not keep_best:
            found.append((run, "the whole run", run))
            continue
        checkpoints = checkpoints_of(run)
        # Without an evaluation the last checkpoint holds the only weights there are.
        newest = {one.is_best: one for one in checkpoints if one.is_complete}
        kept, whole = newest.get(True, newest.get(False)), [one.path for one in checkpoints]
        others = [one for one in checkpoints if one is not kept]
        found += [(one.path, "weights" if one.is_best else "checkpoint to resume from", run) for one in others]
        for prefix, what in ((ASIDE, "unfinished checkpoint"), (LEFT, "checkpoint that a resume went past")):
            paths = (path for path in (run / CHECKPOINTS).glob(f"{prefix}*") if path.is_dir() and path not in whole)
            found += [(path, what, run) for path in paths]
    return [
        Removal(path=path, what=what, run=run, num_bytes=size_of(path) if path == run else freed_by(path))
        for path, what, run in found
    ]


def remove(removal: Removal) -> None:
    """Remove one folder of a plan.

    Raises:
        UserError: its run was started again meanwhile.
        OSError: the system does not allow it.
    """
    # A run that is half gone has ended, and may have nothing left that says so.
    if removal.run.exists() and not removal.run.name.startswith(REMOVING):
        require_ended(removal.run)
    discard(removal.path)


def require_ended(run: Path) -> None:
    """Do nothing when no process works in a run's folder.

    Raises:
        UserError: one does, or may.
    """
    job = status(run)
    if job.alive or job.process_alive:
        raise UserError(
            what=f"run {run.name!r} is {job.state}", where=str(run), fix="stop it, or wait until it has ended"
        )


def job_reader() -> ReadJob:
    """What reads a folder as `status_or_none` does, for pages that poll: an ended job is read again when it changes."""
    ended = dict[Path, tuple[tuple[Any, ...], Job]]()

    def read(folder: Path) -> Job | None:
        log_file = folder / EVENTS_FILE
        now = (modified(folder / JOB_FILE), modified(log_file), log_size(log_file))
        then, job = ended.get(folder, (None, None))
        if then != now:
            job = status_or_none(folder)
            # A lost job may be one of another computer that has only been silent for a while.
            if job is not None and not job.alive and not job.process_alive and job.state != "lost":
                ended[folder] = now, job
        return job

    return read
