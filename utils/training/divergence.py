"""Non-finite losses and gradients: such steps are skipped, and a run in which they persist ends."""

from utils.errors import UserError
from utils.project.advice import RESUME
from utils.training.recovery import Warn
from utils.training.trainer import StepResult

MAX_IN_A_ROW = 10
"""So many steps without a usable gradient are no accident."""
NUM_NAMED = 8
"""Clips named in a message at most."""


class Divergence:
    """Counts the skipped steps.

    Args:
        warn: called with each.
        precision: of the matrix products, for the advice.
        resume_command: continues the run, for the advice.
    """

    def __init__(self, warn: Warn, *, precision: str, resume_command: str = RESUME) -> None:
        self._warn = warn
        self._resume_command = resume_command
        self._precision = precision
        self.num_skipped = 0
        """Skipped steps of the whole run, with those that fp16's scaler handles by itself."""
        self._in_a_row: list[list[str]] = []
        """Clips of the steps skipped since the last good one."""

    def note(self, result: StepResult, names: list[str], *, step: int) -> None:
        """Take note of a step.

        Args:
            result: what it did.
            names: file names of its clips.
            step: its number.

        Raises:
            UserError: no step in a row of many had a usable gradient; raised in all processes, as losses are sums.
        """
        if not result.skipped:
            self._in_a_row.clear()
            return
        self.num_skipped += 1
        if result.is_overflow:
            # The scaler halves its scale and the next step is likely to be fine: nothing is wrong with the numbers.
            return
        self._in_a_row.append(names)
        self._warn(
            f"step {step} was skipped, the weights are untouched: {result.skipped}; its clips: {listed(names)}",
            source="numbers",
            step=step,
            clips=names,
            in_a_row=len(self._in_a_row),
        )
        if len(self._in_a_row) < MAX_IN_A_ROW:
            return
        in_all = set.intersection(*map(set, self._in_a_row))
        suspects = f"clips in all of them: {listed(sorted(in_all))}" if in_all else "no clip was in all of them"
        precision = "" if self._precision == "fp32" else f", or train in fp32 instead of {self._precision}"
        raise UserError(
            what=f"{result.skipped} in {len(self._in_a_row)} steps in a row, up to step {step}; the weights are those "
            f"before them ({suspects}; clips of the last one: {listed(names)})",
            where=f"step {step}",
            fix=f"lower learning_rate, keep grad_clip_norm at 1.0{precision}, and listen to the clips named; "
            f"then resume from the last checkpoint ({self._resume_command} --allow-changes), or train anew",
        )


def listed(names: list[str], most: int = NUM_NAMED) -> str:
    """Names for people, and how many more there are than are shown."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
