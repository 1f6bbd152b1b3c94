"""Which device torch computes on here, what its allocator can do there, and trials of what only a GPU has.

A trial runs once, on a small input, before something relies on it.
"""

import logging
import os
from collections.abc import Callable

import torch
from torch import nn

from utils.errors import is_out_of_memory
from utils.hardware.environment import TORCH_ENVIRONMENT
from utils.hardware.machine import cuda_refused, mps_refused, this_machine
from utils.hardware.processor import cpu
from utils.options import ComputeDevice, UsedDevice

SIDE = 64
"""Positions and width of what is tried: as the head of an XTTS GPT."""

log = logging.getLogger(__name__)


def cpu_has_bf16() -> bool:
    """Whether this processor multiplies bf16 matrices in hardware, and faster than float32 ones; see `Cpu.has_bf16`.

    torch reports what some systems do not. Emulated, it takes ten times as long as float32, and with Intel's AVX-512
    alone twice as long.
    """
    has_avx512 = torch.cpu._is_avx512_bf16_supported() and not cpu().is_intel
    return bool(torch.cpu._is_amx_tile_supported() or has_avx512 or cpu().has_bf16)


def settle_device(device: ComputeDevice) -> tuple[UsedDevice, str]:
    """Where to compute: auto is the GPU, unless PyTorch cannot use it.

    The driver's version and the kernels in the wheel are compared first: torch reports CUDA as available on a GPU that
    it has no kernels for, and fails at the first one.

    Returns:
        The device, and what the user should know of it: why it is not the GPU that this machine has, or that it was not
        seen by us.

    Raises:
        UserError: cuda or mps was requested and cannot be used.
    """
    if device == "cpu":
        return "cpu", ""
    if device == "mps":
        if refused := mps_refused("" if torch.backends.mps.is_available() else "PyTorch cannot use it here"):
            raise mps_refused() or refused
        return "mps", "computing on Apple's GPU in fp32: we have not seen this; check what comes of it"
    machine = this_machine()
    problems = machine.gpu_problems
    if not problems and not torch.cuda.is_available():
        problems = ["PyTorch sees no CUDA GPU"]
        try:
            torch.cuda.init()
        except (RuntimeError, AssertionError) as error:
            problems = [f"PyTorch cannot use CUDA: {str(error).splitlines()[0]}"]
    if not problems:
        return "cuda", ""
    if device == "cuda":
        raise cuda_refused(machine, problems[0])
    return "cpu", f"computing on the CPU: {'; '.join(problems)}" if machine.gpu else ""


def check_allocator(device: torch.device) -> str:
    """Use the memory segments of `TORCH_ENVIRONMENT` on a GPU, or plain ones where its driver has none (vGPUs).

    Commands have set the variable; a call from Python has not. What the user has set stays.

    Returns:
        What was wrong with them; empty when they work.
    """
    wanted = TORCH_ENVIRONMENT.get("PYTORCH_ALLOC_CONF", "")
    given = [os.environ[name] for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF") if name in os.environ]
    if device.type != "cuda" or not wanted or any(one != wanted for one in given):
        return ""
    try:
        torch._C._accelerator_setAllocatorSettings(wanted)
        torch.empty(1, device=device)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        torch._C._accelerator_setAllocatorSettings("expandable_segments:False")
        torch.empty(1, device=device)
        return f"expandable segments are off: {str(error).splitlines()[0]}"
    return ""


def trial(work: Callable[[], object]) -> str:
    """Why a piece of work fails on the GPU, in a line; empty where it works."""
    try:
        # What a run draws must not depend on what was tried before it.
        with torch.random.fork_rng():
            work()
        # Kernels fail after the call that launches them.
        torch.cuda.synchronize()
    # A driver, a compiler or a package built for another GPU may say so in any way.
    except Exception as error:
        log.debug("a trial failed", exc_info=True)
        return (str(error).splitlines() or [type(error).__name__])[0]
    return ""


def pinning_fault() -> str:
    """Why this machine has no page-locked memory, from which a GPU copies while it computes; empty where it has."""
    return trial(lambda: torch.empty(SIDE).pin_memory())


def half_precision_fault(device: torch.device, dtype: torch.dtype) -> str:
    """Why this GPU cannot compute and learn in half precision; empty where it can."""
    return trial(lambda: half_precision(device, dtype))


def half_precision(device: torch.device, dtype: torch.dtype) -> None:
    """A layer, its loss and its gradients in half precision."""
    layer, scaler = nn.Linear(SIDE, SIDE, device=device), torch.amp.GradScaler(device.type)
    with torch.autocast(device.type, dtype=dtype):
        loss = layer(torch.ones(SIDE, SIDE, device=device)).float().mean()
    scaler.scale(loss).backward()
    assert layer.weight.grad is not None and bool(layer.weight.grad.isfinite().all()), "gradients are not finite"
