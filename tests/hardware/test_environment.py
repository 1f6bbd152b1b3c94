"""What is freed stays with the process when that was asked for."""

import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, sys
from utils.hardware.environment import keep_freed_memory
from utils.hardware.resources import process_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
blocks = [malloc(16 * 2**20) for _ in range(10)]
for block in blocks:
    ctypes.memset(ctypes.c_void_p(block), 1, 16 * 2**20)
for block in blocks:
    free(block)
print(process_memory())
"""


def resident(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT, mode], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_freed_blocks_are_kept_for_the_next_ones():
    # 160 MB were freed; the system may take back pages of a process by itself, so less is asked for.
    assert resident("keep") - resident("leave") > 80 * 2**20
