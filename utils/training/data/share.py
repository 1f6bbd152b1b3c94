"""Work on a run's clips that its processes share: each does its part, then all have what all found."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from accelerate import Accelerator
from accelerate.utils import gather_object

from utils.errors import UserError

Result = TypeVar("Result")


def shared(
    accelerator: Accelerator | None, items: Sequence[Path], work: Callable[[Sequence[Path]], list[Result]]
) -> list[Result]:
    """The results of all processes, not in the order of the items.

    Args:
        accelerator: the processes; None where there is one.
        items: the same in each process.
        work: what a process does with its part; its results must be picklable.

    Raises:
        UserError: a process met a fault; raised in all of them: the others would wait for it without end.
    """
    if accelerator is None or accelerator.num_processes == 1:
        return work(items)
    results: list[Result] = []
    refusal: UserError | None = None
    try:
        results = work(items[accelerator.process_index :: accelerator.num_processes])
    except UserError as error:
        refusal = error
    refusals = gather_object([(refusal.what, refusal.where, refusal.fix)] if refusal else [])
    if refusal is not None:
        raise refusal
    if refusals:
        what, where, fix = refusals[0]
        raise UserError(what=what, where=where, fix=fix)
    everywhere: list[Result] = gather_object(results)
    return everywhere
