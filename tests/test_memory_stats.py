"""What is shown of memory and of this machine's optimizations."""

import subprocess
import sys

import torch

from tests.hardware.machines import make_gpu
from utils.performance_utils import log_performance_info
from utils.performance_utils import memory as memory_module
from utils.performance_utils.memory import memory_stats


def test_performance_info_names_versions_device_usable_optimizations_and_settings(monkeypatch):
    info = log_performance_info("cpu")
    assert info["versions"].startswith(f"torch {torch.__version__}, transformers") and info["device"].startswith(
        "cpu, CUDA"
    )
    assert info["flash-attn"] == info["8-bit AdamW"] == "no: it needs a CUDA GPU"
    assert {"half precision", "SDPA", "compile", "threads"} <= set(info)


def test_memory_is_that_of_the_child_that_trains(monkeypatch):
    """As train_gpt starts it: a process named by the module that it runs."""
    code = "import sys; block = bytearray(400_000_000); print(len(block), flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, "utils.training.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline()
        gpu = make_gpu(8, (8, 6), index=1, processes={child.pid: 3_000_000_000}, used_bytes=4_000_000_000)
        monkeypatch.setattr(memory_module, "find_gpus", lambda: ([gpu], ""))
        seen = memory_stats()
        child.stdin.close()
    assert seen["pid"] == child.pid and 400e6 < seen["rss_bytes"] < 800e6
    assert seen["peak_rss_bytes"] >= seen["rss_bytes"] * 0.9
    assert (seen["device"], seen["reserved_bytes"], seen["total_bytes"]) == ("cuda:1", 3_000_000_000, gpu.total_bytes)
    assert "pid" not in memory_stats()
