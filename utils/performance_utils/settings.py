"""torch's global settings for this machine, and what machine and settings are, for the log."""

import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import torch

from utils.console import say
from utils.hardware.gpu import AMPERE, VOLTA, find_gpus
from utils.hardware.machine import this_machine
from utils.hardware.processor import cpu, usable_cpus
from utils.hardware.resources import GIB, memory
from utils.model.no_tf32 import kept_float32
from utils.performance_utils.device import check_allocator, settle_device
from utils.performance_utils.memory import memory_line, memory_stats

log = logging.getLogger(__name__)


def optimize_torch_settings(device: str | torch.device | None = None, *, threads: int | None = None) -> dict[str, Any]:
    """Set what makes torch faster on a device, and nothing that does not.

    CUDA: TF32 in matrix products and convolutions where the GPU has units for it, and attention without cuDNN, which
    plans for each shape. Not cuDNN's benchmark mode: trying its kernels takes 1.2 GB even for the smallest base, and a
    step of XTTS v2, which has few convolutions, is no faster (H200). CPU: no more threads than this process may use,
    which torch does not see in a container.

    Args:
        device: where training runs; a CUDA GPU when there is one.
        threads: of the CPU, torch's own number when not given; never more than this process may use.

    Returns:
        Name and new value of each setting that was changed; empty when all were as they should be.
    """
    chosen = torch.device(device or settle_device("auto")[0])
    changed: dict[str, Any] = {}
    wanted = min(threads or torch.get_num_threads(), usable_cpus())
    if threads and threads > wanted:
        log.warning("%d threads were asked for, and this process may use %d", threads, wanted)
    if torch.get_num_threads() != wanted:
        torch.set_num_threads(wanted)
        changed["torch.num_threads"] = wanted
    if chosen.type == "cuda":
        if fault := check_allocator(chosen):
            log.warning(fault)
            changed["expandable_segments"] = False
        if torch.cuda.get_device_capability(chosen) >= AMPERE:
            changed |= _use_tf32()
        if torch.backends.cuda.cudnn_sdp_enabled():
            # First in the order of PyTorch on Hopper and newer, it builds a plan for each new shape.
            torch.backends.cuda.enable_cudnn_sdp(False)
            changed["torch.backends.cuda.cudnn_sdp"] = False
    for name, value in changed.items():
        log.info("set %s to %s", name, value)
    return changed


@contextmanager
def kept_torch_settings() -> Iterator[None]:
    """What `optimize_torch_settings` sets inside the block is afterwards as the caller had it."""
    threads = torch.get_num_threads()
    by_cudnn = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        with kept_float32():
            yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(by_cudnn)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def log_system_info() -> dict[str, str]:
    """Show and return what this machine is: system, versions, processor, memory, GPUs."""
    processor, free, (gpus, reason) = cpu(), memory(), find_gpus()
    matrix = ", bf16 units" if processor.has_bf16 else ""
    limit = f" (limited by {free.limited_by})" if free.limited_by else ""
    info = {
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": f"{torch.__version__}, CUDA {torch.version.cuda or 'none'}",
        "transformers": version("transformers"),
        "cpu": f"{processor.model}, {processor.usable_cpus} usable of {processor.physical_cores} cores{matrix}",
        "memory": f"{free.available_bytes / GIB:.1f} of {free.total_bytes / GIB:.1f} GB free{limit}",
    }
    for gpu in gpus:
        info[f"gpu {gpu.index}"] = (
            f"{gpu.name}, {gpu.architecture}, {gpu.free_bytes / GIB:.1f} of {gpu.total_bytes / GIB:.1f} GB free, "
            f"driver {gpu.driver}"
        )
    if reason:
        info["gpus" if gpus else "gpu"] = reason
    return _logged(info)


def log_performance_info(device: str | torch.device | None = None) -> dict[str, str]:
    """Show and return versions, device, which optimizations can be used on it, and the settings in force.

    What a run really used is in its optimizations event.

    Args:
        device: where training runs; a CUDA GPU that can be used when not given.
    """
    chosen, why = (str(device), "") if device else settle_device("auto")
    machine, on_gpu, cudnn = this_machine(), chosen.startswith("cuda"), torch.backends.cudnn
    capability = (machine.gpu.capability if machine.gpu and on_gpu else None) or (0, 0)
    has_bf16 = capability >= AMPERE if on_gpu else machine.cpu.has_bf16
    packages = {"torch": torch.__version__} | {name: version(name) for name in ("transformers", "accelerate")}
    optional = {"flash-attn": "flash_attn", "8-bit AdamW": "bitsandbytes"}
    for name, package in optional.items():
        here = f"yes: {package} is installed" if find_spec(package) else f"no: {package} is not installed"
        optional[name] = here if on_gpu else "no: it needs a CUDA GPU"
    return _logged(
        {
            "versions": ", ".join(f"{name} {one}" for name, one in packages.items()),
            "device": f"{chosen}, CUDA {torch.version.cuda}" + (f": {why}" if why else ""),
            "half precision": "bf16 usable"
            if has_bf16
            else "fp16 usable"
            if capability >= VOLTA
            else "no: slower than fp32",
            "SDPA": "varlen flash" if capability >= AMPERE else "memory-efficient" if on_gpu else "kernels for CPUs",
            "compile": "yes" if machine.compiler else "no: there is no C++ compiler",
            **optional,
            "on any device": "gradient checkpointing, LoRA, frozen conditioning encoder",
            "threads": f"{torch.get_num_threads()} of {usable_cpus()} usable",
            "matrix products": torch.backends.cuda.matmul.fp32_precision,
            "convolutions": cudnn.conv.fp32_precision,  # type: ignore[attr-defined]
            "cuDNN": f"{cudnn.version()}, benchmark {cudnn.benchmark}",
            "allocator": os.environ.get("PYTORCH_ALLOC_CONF", "default"),
            "memory": memory_line(memory_stats()),
        }
    )


def _use_tf32() -> dict[str, Any]:
    """Matrix products and cuDNN's operations in TF32.

    Products through `set_float32_matmul_precision`: it writes torch's older and newer setting alike. Where the newer
    one (`cuda.matmul.fp32_precision`) was written alone, reading the older raises, as max-autotune does.
    """
    changed, is_set = {}, torch.backends.cuda.matmul.fp32_precision == "tf32"
    try:
        torch.get_float32_matmul_precision()
    except RuntimeError:
        is_set = False
    if not is_set:
        torch.set_float32_matmul_precision("high")
        changed["torch.float32_matmul_precision"] = "high"
    cudnn: Any = torch.backends.cudnn
    for name, operation in {"conv": cudnn.conv, "rnn": cudnn.rnn}.items():
        if operation.fp32_precision != "tf32":
            operation.fp32_precision = "tf32"
            changed[f"torch.backends.cudnn.{name}.fp32_precision"] = "tf32"
    return changed


def _logged(info: dict[str, str]) -> dict[str, str]:
    for name, value in info.items():
        say(log, f"{name:15} {value}")
    return info
