"""The learning-rate schedules: their names in settings, what the page calls them, and how each falls.

A new one is an entry in both tables here: configuration, command line and page take their choices from them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Schedule = Literal["linear", "cosine", "polynomial", "constant"]
POLYNOMIAL_POWER = 2.0
SHAPES: dict[Schedule, tuple[str, Callable[[float], float]]] = {
    "linear": ("linear", lambda done: 1 - done),
    "cosine": ("cosine", lambda done: 0.5 * (1 + math.cos(math.pi * done))),
    "polynomial": ("polynomial", lambda done: (1 - done) ** POLYNOMIAL_POWER),
    "constant": ("constant", lambda done: 1.0),
}
"""For each: its label, and the share of the peak learning rate by the share of steps done after the warm-up."""


@dataclass(frozen=True)
class LrSchedule:
    """Share of the peak learning rate at each optimizer step: up linearly, then down to the end."""

    schedule: Schedule
    warmup_steps: int = field(kw_only=True)
    total_steps: int = field(kw_only=True)

    def __call__(self, step: int) -> float:
        """The share at a step, counted from 0."""
        if step < self.warmup_steps:
            # The first step already learns something.
            return (step + 1) / (self.warmup_steps + 1)
        done = (step - self.warmup_steps) / max(self.total_steps - self.warmup_steps, 1)
        return SHAPES[self.schedule][1](min(done, 1.0))
