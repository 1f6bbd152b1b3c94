"""Whether a training fits is decided on what is free, and processes are named without what they were started with."""

import subprocess
import sys
from typing import Any

import pytest

from tests.hardware.machines import GIB, make_gpu, make_machine
from utils.config import TrainConfig
from utils.hardware.estimates import estimate
from utils.hardware.gpu import process_name
from utils.hardware.recommendations import memory_fit
from utils.hardware.resources import Memory


def config(**more: Any) -> TrainConfig:
    return TrainConfig(project="anna", **more)


@pytest.mark.parametrize(
    ("settings", "gib", "used", "fits"),
    [
        ({"batch_size": 16}, 80, 0, True),
        ({"batch_size": 16}, 8, 0, False),
        ({"batch_size": 1, "lora_rank": 16, "mixed_precision": "bf16", "gradient_checkpointing": "full"}, 8, 0, True),
        ({"batch_size": 4}, 24, 0, True),
        ({"batch_size": 4}, 24, 20, False),
    ],
)
def test_a_gpu_holds_what_is_left_of_it(settings, gib, used, fits):
    found = memory_fit(config(**settings), make_machine(make_gpu(gib, (8, 9), used_bytes=round(used * GIB))))
    assert (found.device, found.fits, found.total_bytes) == ("cuda", fits, gib * GIB)


def test_on_the_cpu_the_memory_of_the_machine_counts_and_the_limit_of_its_container():
    small = Memory(total_bytes=8 * GIB, available_bytes=6 * GIB, limited_by="memory.max")
    found = memory_fit(config(batch_size=4), make_machine(memory=small))
    assert (found.device, found.fits, found.total_bytes, found.used_bytes) == ("cpu", False, 8 * GIB, 2 * GIB)
    assert memory_fit(config(batch_size=1), make_machine()).fits
    # A GPU that is there does not count for a training on the CPU.
    assert memory_fit(config(device="cpu"), make_machine(make_gpu(80, (9, 0)))).device == "cpu"


def test_float32_values_of_frozen_weights_must_fit_beside():
    gpu = make_gpu(24, (8, 9))
    little = Memory(total_bytes=4 * GIB, available_bytes=2 * GIB)
    settings = config(batch_size=1, lora_rank=8, mixed_precision="bf16")
    assert memory_fit(settings, make_machine(gpu)).fits
    found = memory_fit(settings, make_machine(gpu, memory=little))
    assert not found.fits and found.needed.total <= found.budget_bytes


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_explicit_attention_keeps_its_weights_by_whichever_name_it_was_requested(precision):
    by_kernel = estimate(config(attention="explicit", mixed_precision=precision), device="cuda")
    assert by_kernel == estimate(config(sdpa=False, mixed_precision=precision), device="cuda")


def test_processes_are_named_without_their_arguments(tmp_path):
    script = tmp_path / "speaks.py"
    script.write_text("import sys; print(flush=True); sys.stdin.read()")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, str(script), "--key", "secret"], **pipes)
    try:
        process.stdout.readline()
        name = process_name(process.pid)
        assert name.startswith("python") and name.endswith(" speaks.py") and "secret" not in name

    finally:
        process.communicate()
    assert process_name(process.pid) == ""
