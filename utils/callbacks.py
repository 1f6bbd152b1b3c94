"""Report a run's progress: the work before training, its steps, and everything its log holds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ProgressFn = Callable[[str, int, int | None], None]
"""Called with (phase, done, total)."""
StepProgress = Callable[[int, int, float], None]
"""Called with (steps done, steps in all, loss) after each optimizer step."""
EventListener = Callable[[str, dict[str, Any]], None]
"""Called with the kind and the fields of each event, as `utils.runs.log` describes them."""


@dataclass(frozen=True, kw_only=True)
class Progresses:
    """Each may be None."""

    data: ProgressFn | None = None
    steps: StepProgress | None = None
    events: EventListener | None = None
    """Of the first process only, where several train."""
