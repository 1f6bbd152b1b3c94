"""Work on a run's clips that its processes share: each does its part, then all have what all found."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object

from utils.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")


def shared(
    accelerator: Accelerator | None, items: Sequence[Item], work: Callable[[Sequence[Item]], list[Result]]
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


def by_main(accelerator: Accelerator, work: Callable[[], Result]) -> Result:
    """What the main process finds, in all processes.

    Args:
        accelerator: the processes.
        work: what it does; its result must be picklable.

    Raises:
        UserError: it met a fault; raised in all of them.
    """
    if accelerator.num_processes == 1:
        return work()
    found: list[Result] = []
    refusal: UserError | None = None
    if accelerator.is_main_process:
        try:
            found = [work()]
        except UserError as error:
            refusal = error
    told = (refusal.what, refusal.where, refusal.fix) if refusal else None
    found, told = broadcast_object_list([found, told])
    if refusal is not None:
        raise refusal
    if told is not None:
        what, where, fix = told
        raise UserError(what=what, where=where, fix=fix)
    return found[0]
