"""The environment of processes: torch's variables, its allocator, and the same utils in a child as here."""

import ctypes
import os
import sys
from pathlib import Path

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
ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds utils."""


def child_environment(**changes: str) -> dict[str, str]:
    """Variables of a child that imports what this process imports, and says things when they happen; with `changes`."""
    # A script or a notebook may have put folders on sys.path that no variable names.
    paths = dict.fromkeys([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")]), *filter(None, sys.path)])
    fixed = {
        "PYTHONPATH": os.pathsep.join(paths),
        # `-m` would put the folder it is started in first, where another package may be called utils.
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    return {**TORCH_ENVIRONMENT, **os.environ, **fixed, **changes}


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
