"""The memory in use, and errors when it ran out, with who holds it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import torch

from utils.errors import UserError, is_out_of_memory
from utils.hardware.gpu import find_gpus, process_name, trained_on
from utils.hardware.resources import GIB, memory, process_memory
from utils.options import LORA_RANK

TRAINERS = ("utils.training.worker", "utils.cli.train")
"""Modules that a child which trains is started with."""


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
        if (words := shortage(error, f"while {doing}", device)) is None:
            raise
        raise words from error


def shortage(error: BaseException, when: str, device: str) -> UserError | None:
    """Words for memory that ran out, with what is free and who has the rest; None for another error."""
    if not is_out_of_memory(error):
        return None
    free = memory()
    room = f"{free.available_bytes / GIB:.1f} of {free.total_bytes / GIB:.1f} GB of this computer's memory are free"
    if device.startswith("cuda") and (gpu := trained_on(find_gpus()[0])):
        holders = [
            f"{name} (process {pid}) has {(used or 0) / GIB:.1f} GB"
            for pid, used in gpu.processes.items()
            if (name := process_name(pid))
        ]
        room = f"{gpu.free_bytes / GIB:.1f} of {gpu.total_bytes / GIB:.1f} GB of {gpu.name} are free"
        room = "; ".join([room, *holders])
    return UserError(
        what=f"out of memory {when}: {room}",
        where=device,
        fix="end other programs that use it, use --device cpu, or choose settings that need less "
        f"(to train: --gradient-checkpointing full, --lora-rank {LORA_RANK})",
    )


def memory_stats() -> dict[str, Any]:
    """Bytes in use now, by the process that trains and on its GPU; from any thread, and without a GPU.

    While `train_gpt` runs, that is its child process: `pid` names it, and its GPU's bytes are the driver's.

    Returns:
        device; rss_bytes and peak_rss_bytes of the process; with CUDA also allocated_bytes, reserved_bytes, peak_bytes
        (allocated at most), free_bytes and total_bytes of the GPU that it holds most of.
    """
    # The process that trains for this one, such as for `train_gpt`.
    trainer, peak = None, None
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(module in TRAINERS for module in child.cmdline()):
                trainer = child.pid
                break
    now = process_memory(trainer)
    # Read from the process' own memory map: Linux hands `ru_maxrss` on from parent to child.
    with suppress(OSError):
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{trainer or 'self'}/status").read_text(encoding="ascii"))
    most = int(peak[1]) * 1024 if peak else now
    stats = {"device": "cpu", "rss_bytes": now, "peak_rss_bytes": most}
    if trainer is not None:
        # Its GPU's are what the driver reports; nothing where it uses none, or the driver does not say.
        found = next((gpu for gpu in find_gpus()[0] if trainer in gpu.processes), None)
        if found is not None:
            stats |= {"device": f"cuda:{found.index}", "reserved_bytes": found.processes[trainer] or 0}
            stats |= {"free_bytes": found.free_bytes, "total_bytes": found.total_bytes}
        return stats | {"pid": trainer}
    # A GPU that was not used yet is not woken up: that alone would take hundreds of megabytes of it.
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return stats
    # The current GPU is each thread's own, the first one in a new thread: asking about that would wake it up.
    devices = [torch.cuda.current_device(), *range(torch.cuda.device_count())]
    device = max(devices, key=torch.cuda.memory_reserved)
    free, total = torch.cuda.mem_get_info(device)
    return stats | {
        "device": f"cuda:{device}",
        "allocated_bytes": torch.cuda.memory_allocated(device),
        "reserved_bytes": torch.cuda.memory_reserved(device),
        "peak_bytes": torch.cuda.max_memory_allocated(device),
        "free_bytes": free,
        "total_bytes": total,
    }


def memory_line(stats: dict[str, Any]) -> str:
    """`memory_stats` in words, in GB."""
    amounts = {name.removesuffix("_bytes"): value for name, value in stats.items() if name.endswith("_bytes")}
    figures = ", ".join(f"{name} {value / GIB:.2f} GB" for name, value in amounts.items())
    return f"memory on {stats['device']}: {figures}"
