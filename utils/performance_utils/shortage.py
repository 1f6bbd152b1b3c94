"""Recognize that memory ran out, and say on what and who holds it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from utils.errors import UserError
from utils.hardware import find_gpus, memory
from utils.hardware.holders import process_names
from utils.hardware.visible import trained_on

SIGNS = ("can't allocate memory", "out of memory", "_ALLOC_FAILED", "ALLOCATION_FAILED")
"""Parts of messages: torch's on a CPU, CUDA's, and those of cuBLAS, cuDNN and cuFFT, which need work space."""
GIB = 1 << 30


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: torch has a class for it on CUDA only, and not for all libraries."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


@contextmanager
def memory_errors(doing: str, device: str) -> Iterator[None]:
    """Raise a UserError that names what is free, and who has the rest, where the block runs out of memory.

    Args:
        doing: what the block does, such as "loading the model".
        device: cpu, or a CUDA device.

    Raises:
        UserError: memory ran out.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        fix = "end other programs that use it, or choose settings that need less: --gradient-checkpointing full"
        what = f"out of memory while {doing}: {_free(device)}"
        raise UserError(what=what, where=device, fix=f"{fix}, --lora-rank 32") from error


def _free(device: str) -> str:
    gpu = trained_on(find_gpus().gpus) if device.startswith("cuda") else None
    if gpu is None:
        now = memory()
        return f"{now.available_bytes / GIB:.1f} of {now.total_bytes / GIB:.1f} GB of this computer's memory are free"
    holders = [
        f"{name} (process {pid}) has {(gpu.processes[pid] or 0) / GIB:.1f} GB"
        for pid, name in process_names(gpu.processes).items()
    ]
    free = f"{gpu.free_bytes / GIB:.1f} of {gpu.total_bytes / GIB:.1f} GB of {gpu.name} are free"
    return "; ".join([free, *holders])
