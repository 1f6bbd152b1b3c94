"""Set the environment variables and the allocator for processes that compute with torch."""

import ctypes
import sys

TORCH_ENVIRONMENT = {
    # Threads that wait by spinning make steps ten times slower where other programs run too.
    "OMP_WAIT_POLICY": "PASSIVE",
    # Large tensors in large pages: faults for fresh small ones took a tenth of a training step on a CPU.
    "THP_MEM_ALLOC_ENABLE": "1",
    # Batches of changing lengths fragment CUDA memory in blocks of fixed size. Elsewhere torch only warns about it.
    **({"PYTORCH_ALLOC_CONF": "expandable_segments:True"} if sys.platform.startswith("linux") else {}),
}
"""Variables and their values, to be set before torch is loaded; the user's own win."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
"""Numbers of glibc's options (malloc.h)."""
LARGEST_KEPT = 32 * 2**20
"""Freed blocks of up to this size are kept for the next ones, in bytes: the most that glibc allows."""


def keep_freed_memory() -> bool:
    """Have the allocator keep what is freed instead of giving it back to the system, for this process.

    A training step on a CPU allocates the same buffers again and again; asking the system for fresh pages each time
    took an eighth of it. The process then stays as large as it once was.

    Returns:
        Whether the allocator takes it: glibc does, others are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    # One arena: the backward pass runs in a thread of its own, whose arena would be cut off at 64 MB.
    wanted = {_MMAP_THRESHOLD: LARGEST_KEPT, _TRIM_THRESHOLD: -1, _TOP_PAD: LARGEST_KEPT, _ARENA_MAX: 1}
    return all(option(number, value) for number, value in wanted.items())
