"""Work on ranges of a clip list's rows, in several processes where there are many."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from utils.dataset.storage.parallel import ProcessDied, run_tasks
from utils.errors import UserError
from utils.hardware.processor import usable_cpus

Result = TypeVar("Result")

MOST_PROCESSES = 16


def in_ranges(
    work: Callable[[Sequence[range]], list[Result]], num_rows: int, *, rows_a_task: int, in_processes: bool
) -> Iterator[tuple[range, Result]]:
    """Ranges of rows, in their order, each with its result.

    Args:
        work: gives the result of each of some ranges; picklable.
        num_rows: rows in all.
        rows_a_task: of a range; the last one may have fewer.
        in_processes: whether the work is worth starting processes.

    Raises:
        UserError: a process is gone.
    """
    tasks = [range(at, min(at + rows_a_task, num_rows)) for at in range(0, num_rows, rows_a_task)]
    workers = min(usable_cpus(), MOST_PROCESSES) if in_processes else 1
    try:
        yield from _in_order(tasks, run_tasks(work, tasks, workers=workers, chunk_size=1))
    except ProcessDied as error:
        raise UserError(what=error.what, fix="free memory, then start again") from error


def _in_order(tasks: list[range], done: Iterable[tuple[list[range], list[Result]]]) -> Iterator[tuple[range, Result]]:
    """Results in the order of the tasks, whichever is done first."""
    waiting: dict[range, Result] = {}
    wanted = iter(tasks)
    following = next(wanted, None)
    for (rows,), (result,) in done:
        waiting[rows] = result
        while following in waiting:
            yield following, waiting.pop(following)
            following = next(wanted, None)
