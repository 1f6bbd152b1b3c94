"""torch's global settings for this machine, and what machine and settings are, for the log."""

import logging
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import torch

from utils.console import say
from utils.hardware import cpu, find_gpus, memory, process_memory, usable_cpus
from utils.model.no_tf32 import kept_float32
from utils.performance_utils.device import check_allocator, settle_device

log = logging.getLogger(__name__)

AMPERE = (8, 0)
"""First compute capability with TF32 units."""
GB = 1e9


def optimize_torch_settings(device: str | torch.device | None = None, *, threads: int | None = None) -> dict[str, Any]:
    """Set what makes torch faster on a device, and nothing that does not.

    CUDA: TF32 in matrix products and convolutions where the GPU has units for it, and cuDNN's choice of the fastest
    kernel. CPU: no more threads than this process may use, which torch does not see in a container.

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
        if not torch.backends.cudnn.benchmark:
            torch.backends.cudnn.benchmark = True
            changed["torch.backends.cudnn.benchmark"] = True
    for name, value in changed.items():
        log.info("set %s to %s", name, value)
    return changed


@contextmanager
def kept_torch_settings() -> Iterator[None]:
    """What `optimize_torch_settings` sets inside the block is afterwards as the caller had it."""
    threads, benchmark = torch.get_num_threads(), torch.backends.cudnn.benchmark
    try:
        with kept_float32():
            yield
    finally:
        torch.backends.cudnn.benchmark = benchmark
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def log_system_info() -> dict[str, str]:
    """Show and return what this machine is: system, versions, processor, memory, GPUs."""
    processor, free, survey = cpu(), memory(), find_gpus()
    matrix = ", bf16 units" if processor.has_bf16 else ""
    limit = f" (limited by {free.limited_by})" if free.limited_by else ""
    info = {
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": f"{torch.__version__}, CUDA {torch.version.cuda or 'none'}",
        "transformers": version("transformers"),
        "cpu": f"{processor.model}, {processor.usable_cpus} usable of {processor.physical_cores} cores{matrix}",
        "memory": f"{free.available_bytes / GB:.1f} of {free.total_bytes / GB:.1f} GB free{limit}",
    }
    for gpu in survey.gpus:
        info[f"gpu {gpu.index}"] = (
            f"{gpu.name}, {gpu.architecture}, {gpu.free_bytes / GB:.1f} of {gpu.total_bytes / GB:.1f} GB free, "
            f"driver {gpu.driver}"
        )
    if survey.reason:
        info["gpu" if not survey.gpus else "gpus"] = survey.reason
    return _logged(info)


def log_performance_info() -> dict[str, str]:
    """Show and return the settings in force and the memory in use; what ran is in the run's optimizations event."""
    info = {
        "threads": f"{torch.get_num_threads()} of {usable_cpus()} usable",
        "process memory": f"{process_memory(children=True) / GB:.2f} GB",
    }
    # A run on the CPU does not wake a GPU up: that alone would take hundreds of megabytes of it.
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        device = torch.cuda.current_device()
        allocated, reserved = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
        info |= {
            "matrix products": torch.backends.cuda.matmul.fp32_precision,
            "convolutions": torch.backends.cudnn.conv.fp32_precision,  # type: ignore[attr-defined]
            "cuDNN": f"{torch.backends.cudnn.version()}, benchmark {'on' if torch.backends.cudnn.benchmark else 'off'}",
            "gpu memory": (
                f"{allocated / GB:.2f} GB allocated, {reserved / GB:.2f} GB reserved, "
                f"{torch.cuda.max_memory_allocated(device) / GB:.2f} GB allocated at most"
            ),
        }
    return _logged(info)


def _use_tf32() -> dict[str, Any]:
    """Matrix products and cuDNN's operations in TF32.

    Products through `set_float32_matmul_precision`: it writes torch's older and newer setting alike. Where the newer
    one (`cuda.matmul.fp32_precision`) was written alone, reading the older raises, as max-autotune does.
    """
    changed = {}
    if torch.backends.cuda.matmul.fp32_precision != "tf32" or not _is_older_readable():
        torch.set_float32_matmul_precision("high")
        changed["torch.float32_matmul_precision"] = "high"
    cudnn: Any = torch.backends.cudnn
    for name, operation in {"conv": cudnn.conv, "rnn": cudnn.rnn}.items():
        if operation.fp32_precision != "tf32":
            operation.fp32_precision = "tf32"
            changed[f"torch.backends.cudnn.{name}.fp32_precision"] = "tf32"
    return changed


def _is_older_readable() -> bool:
    try:
        torch.get_float32_matmul_precision()
    except RuntimeError:
        return False
    return True


def _logged(info: dict[str, str]) -> dict[str, str]:
    for name, value in info.items():
        say(log, f"{name:15} {value}")
    return info
