"""Progress of a job and its remaining time, from its events alone."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from utils.events import Event, number_of, tail
from utils.jobs import Job

RECENT = 30
"""Steps whose pace says how long the rest will take."""


class Tail(Protocol):
    """Gives the last events of a kind, from a byte on, as `utils.events.tail` does."""

    def __call__(self, path: Path, count: int, *, kind: str, start: int = 0) -> list[Event]: ...


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a job is in what it does now."""

    what: str
    """What it does, such as "training" or "preparing clips"."""
    done: int
    total: int | None
    """None when it cannot be known."""
    epoch: int | None = None
    """Epochs done, for training."""
    epochs: int | None = None
    """Epochs in all, for training."""
    seconds_left: float | None = None
    """Of this phase; None when too little was done to estimate it, or the job has ended."""

    @property
    def share(self) -> float | None:
        """Between 0 and 1; None when the total is not known."""
        return min(1.0, self.done / self.total) if self.total else None


def progress_of(job: Job, tail: Tail = tail) -> Progress | None:
    """How far a job is; None when it has not said anything yet.

    Of a run that was resumed, only what its present process said counts while that lives: neither is its pace that of
    the process before, nor the pause between them.

    Args:
        job: the job.
        tail: who reads its log; whoever asks again and again has one that reads only what is new.
    """
    if job.alive:
        tail = partial(tail, start=job.events_offset)
    steps = tail(job.events, RECENT, kind="step") if job.kind == "train" else []
    phases = tail(job.events, 1, kind="progress")
    if steps and (not phases or _time(phases[-1]) <= _time(steps[-1])):
        return _of_training(job, steps, tail)
    if not phases:
        return None
    return _of_phase(job, tail)


def _of_training(job: Job, steps: list[Event], tail: Tail) -> Progress:
    started: Event = next(iter(tail(job.events, 1, kind="started")), {})
    total, epoch, config = number_of(started, "total_steps"), number_of(steps[-1], "epoch"), started.get("config")
    epochs = number_of(config, "num_epochs") if isinstance(config, dict) else None
    return Progress(
        what="training",
        done=int(number_of(steps[-1], "step") or 0),
        total=int(total) if total else None,
        epoch=None if epoch is None else int(epoch),
        epochs=None if epochs is None else int(epochs),
        seconds_left=_left(steps, "step", total) if job.alive else None,
    )


def _of_phase(job: Job, tail: Tail) -> Progress:
    phases = tail(job.events, RECENT, kind="progress")
    last = phases[-1]
    same = [event for event in phases if event.get("what") == last.get("what")]
    total = number_of(last, "total")
    return Progress(
        what=str(last.get("what", "")),
        done=int(number_of(last, "done") or 0),
        total=int(total) if total else None,
        seconds_left=_left(same, "done", total) if job.alive else None,
    )


def _left(events: list[Event], count: str, total: float | None) -> float | None:
    """Seconds for the rest at the recent pace; evaluations and checkpoints between steps are part of the pace."""
    counts = [found for event in events if (found := number_of(event, count)) is not None]
    if total is None or len(counts) < 2:
        return None
    done, took = counts[-1] - counts[0], _time(events[-1]) - _time(events[0])
    return (total - counts[-1]) * took / done if done > 0 and took > 0 else None


def _time(event: Event) -> float:
    """When it was written; 0 in a log of another make that does not say."""
    return number_of(event, "time") or 0.0
