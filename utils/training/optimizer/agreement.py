"""What the processes of a run find out together, so that all of them do the same next.

A process that raises an error leaves the others waiting in their next collective operation. What one process alone can
find out, such as a full disk or too little memory, is therefore exchanged before all begin what takes all of them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist
from accelerate.utils import gather_object

from utils.errors import UserError
from utils.performance_utils import is_out_of_memory

Result = TypeVar("Result")

LESS_MEMORY = "resume from the newest checkpoint with a smaller --batch-size or --gradient-checkpointing full"


class AgreedError(UserError):
    """A fault that all processes raise at the same point: none of them waits for another one afterwards."""


def raise_in_all(fault: Exception | None) -> None:
    """Raise a process' fault in all processes, which call this together; do nothing where none of them has one.

    Args:
        fault: what went wrong in this process, of a class that can be pickled; None for nothing.
    """
    faults: list[Exception | None] = gather_object([fault])
    if found := next((one for one in faults if one is not None), None):
        raise found


def require_memory(sizes: Sequence[int], device: torch.device, doing: str) -> None:
    """Do nothing where every process can allocate so many blocks at once; all processes call this together.

    Args:
        sizes: bytes of each block.
        device: where they are allocated, and freed again.
        doing: what takes them, for the message.

    Raises:
        AgreedError: a process cannot; raised in all of them.
    """
    require_everywhere(in_memory(lambda: _reserve(sizes, device)) is not None, device, doing)


def require_everywhere(has_memory: bool, device: torch.device, doing: str) -> None:
    """Do nothing where no process ran out of memory; all processes call this together.

    Args:
        has_memory: whether this one did not.
        device: of the processes' sums.
        doing: what took the memory, for the message.

    Raises:
        AgreedError: a process ran out of memory; raised in all of them.
    """
    short = torch.zeros(dist.get_world_size(), device=device)
    short[dist.get_rank()] = not has_memory
    dist.all_reduce(short)
    if ranks := short.nonzero().flatten().tolist():
        raise out_of_memory(AgreedError, ranks, doing)


@contextmanager
def process_named(doing: str) -> Iterator[None]:
    """Turn running out of memory in this process, of which the others do not know, into words for people.

    Args:
        doing: what took the memory.

    Raises:
        UserError: this process is out of memory. The others learn of it when it ends; see `utils.training.peers`.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_memory(UserError, [dist.get_rank()], doing) from error


def in_memory(allocate: Callable[[], Result]) -> Result | None:
    """What `allocate` gives; None where memory runs out."""
    try:
        return allocate()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None


def _reserve(sizes: Sequence[int], device: torch.device) -> list[torch.Tensor]:
    return [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes]


def out_of_memory(kind: type[UserError], ranks: Sequence[int], doing: str) -> UserError:
    """What people read when memory ran out where processes share the weights.

    Args:
        kind: AgreedError where all processes raise it.
        ranks: numbers of the processes in which it ran out.
        doing: what took it.
    """
    who = "process" if len(ranks) == 1 else "processes"
    return kind(
        what=f"out of memory in {who} {', '.join(map(str, ranks))} of {dist.get_world_size()} while {doing}",
        where="--shard",
        fix=LESS_MEMORY,
    )
