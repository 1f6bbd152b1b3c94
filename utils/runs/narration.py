"""Print a run as lines for users: its phase, progress, and what each switch was observed to do."""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from utils.callbacks import Progresses
from utils.runs.progress import MIN_RISES, RECENT
from utils.switches import proof_lines

EVERY_S = 5.0
"""Lines of the same kind come no closer."""


class Narration:
    """Lines of a run, from what it reports.

    Args:
        write: called with each line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._phase = ""
        self._next = 0.0
        self._pace: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self._total, self._epochs = 0, 0
        self._best, self._last_loss, self._rises = "", math.inf, 0

    def joined(self, progress: Progresses | None) -> Progresses:
        """What a run reports to: these lines, and a caller's own functions in place of the lines they stand for."""
        given = progress or Progresses()

        def event(kind: str, fields: dict[str, Any]) -> None:
            if given.events is not None:
                given.events(kind, fields)
            if kind != "step" or given.steps is None:
                self.event(kind, fields)

        return Progresses(data=given.data or self.phase, steps=given.steps, events=event)

    def phase(self, what: str, done: int, total: int | None) -> None:
        """Work before training, now and then and at its end."""
        name, unit = what.removesuffix(" (bytes)"), ""
        if name != what:
            done, total, unit = done // 10**6, total and total // 10**6, " MB"
        line = f"{name}: {done}{unit}" if total is None else f"{name}: {done} of {total}{unit}"
        now = time.monotonic()
        if (done != total and now < self._next) or line == self._phase:
            return
        self._phase, self._next = line, now + EVERY_S
        self._write(line)

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """An event of the run's log; those that say nothing to a person who waits are skipped."""
        if kind == "step":
            self._step(fields)
        elif kind == "optimizations":
            for line in proof_lines(fields["switches"]):
                self._write(line)
        elif kind == "started":
            self._total, self._epochs, self._next = fields["total_steps"], fields["config"]["num_epochs"], 0.0
            unused = len(fields["dropped"])
            self._write(
                f"training base {fields['base']} on {fields['device']}: {fields['clips']} clips, "
                f"{fields['eval_clips']} for evaluation, {unused} not used; {self._epochs} epochs, "
                f"up to step {self._total}"
            )
        elif kind == "eval":
            # The loss, and what it means for when to stop.
            step, loss, words = fields["step"], fields["loss"], self._best
            self._rises = self._rises + 1 if loss > self._last_loss else 0
            self._last_loss, self._next = loss, 0.0
            if fields["is_best"]:
                words, self._best = ", the best so far", f", best at step {step}"
            if self._rises >= MIN_RISES:
                words += f"; rising for {self._rises} evaluations: stop, or export the best"
            self._write(f"evaluation after step {step}: loss {loss:.3f}{words}")
        elif kind == "speech_scores":
            self._write(speech_line(fields))
        elif kind in ("finished", "stopped"):
            self._write(f"{kind} after step {fields['step']}")

    def _step(self, fields: Mapping[str, Any]) -> None:
        now, step = time.monotonic(), fields["step"]
        self._pace.append((now, step))
        if now < self._next and step != self._total:
            return
        self._next = now + EVERY_S
        took = fields["step_s"] + fields["data_s"]
        parts = [f"loss {fields['loss']:.3f}", f"{took:.2f} s a step"]
        if took > 0:
            parts.append(f"{fields['audio_s'] / took:.1f} s of audio a second")
        (begun, first), left = self._pace[0], self._total - step
        if step > first and left > 0:
            parts.append(f"{duration((now - begun) / (step - first) * left)} left")
        self._write(f"epoch {fields['epoch'] + 1} of {self._epochs}, step {step} of {self._total}: {', '.join(parts)}")


def speech_line(fields: Mapping[str, Any]) -> str:
    """What a `speech_scores` event says of the best checkpoint."""
    if fields["reason"]:
        return f"how the checkpoints speak was not measured: {fields['reason']}"
    scores = ", ".join(f"step {one['step']} {one['score']:.2f}" for one in fields["scores"])
    return f"best checkpoint: step {fields['best']}, it speaks best ({scores} of 3; {fields['texts']} texts)"


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
