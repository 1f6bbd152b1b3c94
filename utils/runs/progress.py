"""Progress of a job, its remaining time, and what its user should know, from its events alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from utils.runs.follow import EventLog
from utils.runs.log import Event, number_of
from utils.runs.record import Job

RECENT = 30
"""Steps whose pace says how long the rest will take."""

Points = list[tuple[float, float]]
"""(step, loss), in rising order of steps."""

MIN_EVALS_WITHOUT_GAIN = 3
"""Evaluations in a row above the lowest that count: one or two are noise."""
MIN_RISES = 2
"""Evaluations in a row, each above the one before it, that are a trend."""
MIN_RISE = 0.01
"""Share by which the evaluation loss must lie above its lowest for such a trend."""
LOADING_SHARE = 0.10
"""From this share of the time on, waiting for data is worth a change of settings."""
MIN_TIMED, NUM_TIMED = 10, 50
"""Steps whose time counts: fewer say nothing, older ones are not what happens now."""
MAX_WARNINGS = 64
"""Newest warnings that are counted."""


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


def progress_of(job: Job, log: EventLog | None = None) -> Progress | None:
    """How far a job is; None when it has not said anything yet.

    Of a run that was resumed, only what its present process said counts while that lives: neither is its pace that of
    the process before, nor the pause between them.

    Args:
        job: the job.
        log: its log, for callers that ask again: it reads only what is new.
    """
    log, start = log or EventLog(job.events), job.events_offset if job.alive else 0
    steps = log.tail(RECENT, kind="step", start=start) if job.kind == "train" else []
    phases = log.tail(RECENT, kind="progress", start=start)
    if not steps and not phases:
        return None
    if steps and (not phases or _time(phases[-1]) <= _time(steps[-1])):
        started, last, count = log.last("started", start=start), steps[-1], "step"
        what, total, config = "training", number_of(started, "total_steps"), started.get("config")
        epoch = number_of(last, "epoch")
        epochs = number_of(config, "num_epochs") if isinstance(config, dict) else None
    else:
        last, count, epoch, epochs = phases[-1], "done", None, None
        what, total = str(last.get("what", "")), number_of(last, "total")
        steps = [event for event in phases if event.get("what") == last.get("what")]
    return Progress(
        what=what,
        done=int(number_of(last, count) or 0),
        total=int(total) if total else None,
        epoch=None if epoch is None else int(epoch),
        epochs=None if epochs is None else int(epochs),
        seconds_left=_left(steps, count, total) if job.alive else None,
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


SENTENCES = {
    "memorized": (
        "Evaluation loss rises while training loss falls: the clips are learned by heart since step {step}. "
        "Stop here and export the best checkpoint?"
    ),
    "memorized_ended": (
        "Evaluation loss rose while training loss fell: the clips were learned by heart from step {step} on. "
        "Fewer epochs or more clips help."
    ),
    "no_gain": "No gain since step {step}: stop here and export the best checkpoint?",
    "no_gain_ended": "No gain since step {step}. Fewer epochs are enough.",
    "loading": "Loading takes {percent} % of a step. More workers may help: --num-workers.",
    "memory": "Out of memory: micro-batches have at most {clips} clips now. A lower --batch-size avoids the retries.",
    "memory_eval": "Out of memory during evaluation. It takes {clips} clips at a time now: lower --eval-batch-size.",
    "memory_checkpointing": "Out of memory with one clip in a micro-batch: --gradient-checkpointing is on now.",
    "numbers": (
        "Skipped steps: {times}, the last was step {step}. Their loss or gradient was not finite; they changed no "
        "weights. If this continues, lower --learning-rate."
    ),
}
"""Every sentence by its name; the page translates them."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One sentence about a run."""

    name: str
    """Key of `SENTENCES`."""
    kind: Literal["hint", "warning"]
    facts: Mapping[str, object]
    """What the sentence's fields stand for."""

    @property
    def template(self) -> str:
        """The sentence with names of facts in place of values."""
        return SENTENCES[self.name]

    @property
    def sentence(self) -> str:
        """In English."""
        return self.template.format(**self.facts)


def observe(job: Job, log: EventLog | None = None) -> list[Observation]:
    """What a training run's events show, the most urgent first; empty where nothing stands out.

    Args:
        job: the run.
        log: its log, for callers that ask again: it reads only what is new.
    """
    found, log = list[Observation](), log or EventLog(job.events)
    # Time and memory are those of the present process: an earlier one may have had another machine and other settings.
    warnings = log.tail(MAX_WARNINGS, kind="warning", start=job.events_offset)
    memory = [event for event in warnings if event.get("source") == "memory"]
    # The newest of each.
    clips = {
        name: int(number)
        for event in memory
        for name in ("micro_batch", "eval_batch")
        if (number := number_of(event, name))
    }
    if any(event.get("gradient_checkpointing") is True for event in memory):
        found.append(Observation(name="memory_checkpointing", kind="warning", facts={}))
    elif "micro_batch" in clips:
        found.append(Observation(name="memory", kind="warning", facts={"clips": clips["micro_batch"]}))
    if "eval_batch" in clips:
        found.append(Observation(name="memory_eval", kind="warning", facts={"clips": clips["eval_batch"]}))
    if skipped := [event for event in warnings if event.get("source") == "numbers" and "clips" in event]:
        times = f"{MAX_WARNINGS} or more" if len(skipped) == MAX_WARNINGS else str(len(skipped))
        facts = {"times": times, "step": int(number_of(skipped[-1], "step") or 0)}
        found.append(Observation(name="numbers", kind="warning", facts=facts))
    curves = (log.curve(kind, ["loss"]) for kind in ("step", "eval"))
    trained, evaluated = (
        [(step, loss) for step, loss in zip(curve["step"], curve["loss"], strict=True) if loss is not None]
        for curve in curves
    )
    found += _evaluation(trained, evaluated, is_alive=job.alive)
    timed = log.tail(NUM_TIMED, kind="step", start=job.events_offset)
    # The first step of a process waits for its loaders to begin, which happens once.
    timed = timed if len(timed) == NUM_TIMED else timed[1:]
    data, rest = (sum(number_of(event, name) or 0.0 for event in timed) for name in ("data_s", "step_s"))
    if len(timed) >= MIN_TIMED and data + rest > 0 and data / (data + rest) >= LOADING_SHARE:
        found.append(Observation(name="loading", kind="hint", facts={"percent": round(100 * data / (data + rest))}))
    return found


def _evaluation(trained: Points, evaluated: Points, *, is_alive: bool) -> Iterator[Observation]:
    if not evaluated:
        return
    best = min(range(len(evaluated)), key=lambda number: evaluated[number][1])
    step, lowest = evaluated[best]
    after, ended = evaluated[best + 1 :], "" if is_alive else "_ended"
    losses = [loss for _, loss in evaluated[-MIN_RISES - 1 :]]
    is_rising = len(after) >= MIN_RISES and all(a < b for a, b in pairwise(losses))
    if is_rising and losses[-1] > lowest * (1 + MIN_RISE) and _falls(trained, evaluated, best):
        yield Observation(name=f"memorized{ended}", kind="warning", facts={"step": int(step)})
    elif len(after) >= MIN_EVALS_WITHOUT_GAIN:
        yield Observation(name=f"no_gain{ended}", kind="hint", facts={"step": int(step)})


def _falls(trained: Points, evaluated: Points, best: int) -> bool:
    """Whether the mean training loss before the last evaluation is below that before the best one."""
    means = []
    for last in (best, len(evaluated) - 1):
        begin = evaluated[last - 1][0] if last else 0
        losses = [loss for step, loss in trained if begin < step <= evaluated[last][0]]
        means.append(sum(losses) / len(losses) if losses else None)
    earlier, later = means
    return earlier is not None and later is not None and later < earlier
