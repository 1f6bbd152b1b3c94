"""Which GPUs PyTorch sees, and in what order, from CUDA's environment variables, without loading torch."""

import os
import re
from collections.abc import Mapping, Sequence

from utils.hardware.gpu import Gpu


def visible_gpus(gpus: Sequence[Gpu], environment: Mapping[str, str] | None = None) -> list[Gpu]:
    """The GPUs that PyTorch sees, `cuda:0` first; of a GPU that is divided (MIG), the part that it takes.

    Args:
        gpus: all of this computer, in the driver's order.
        environment: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER are read; this process' own when not given.

    Source: CUDA programming guide, CUDA environment variables: the first name that fits no GPU ends the list. Names
    that come twice leave nothing (torch.cuda._parse_visible_devices).
    """
    environment = os.environ if environment is None else environment
    ordered = cuda_order(gpus, environment.get("CUDA_DEVICE_ORDER", ""))
    names = environment.get("CUDA_VISIBLE_DEVICES")
    if names is None:
        return _as_cuda_shows([_taken(gpu) for gpu in ordered])
    found: list[Gpu] = []
    for name in names.split(","):
        gpu = _named(name.strip(), ordered)
        if gpu is None:
            break
        if gpu in found:
            return []
        found.append(gpu)
    return _as_cuda_shows(found)


def _as_cuda_shows(found: list[Gpu]) -> list[Gpu]:
    """A process sees one part of a divided GPU and then nothing else (NVIDIA MIG user guide, CUDA visible devices)."""
    return [gpu for gpu in found if gpu.uuid.startswith("MIG-")][:1] or found


def trained_on(gpus: Sequence[Gpu], local_rank: int | None = None) -> Gpu | None:
    """The GPU that a training in this environment takes; None when PyTorch sees none.

    Args:
        gpus: as of `visible_gpus`.
        local_rank: of the process among those of its run on this computer; LOCAL_RANK when not given.
    """
    rank = os.environ.get("LOCAL_RANK", "") if local_rank is None else str(local_rank)
    seen = visible_gpus(gpus)
    return seen[(int(rank) if rank.isdecimal() else 0) % len(seen)] if seen else None


def cuda_order(gpus: Sequence[Gpu], order: str) -> list[Gpu]:
    """GPUs as CUDA counts them: PCI_BUS_ID as the driver does, otherwise the fastest first."""
    if order.strip() == "PCI_BUS_ID":
        return list(gpus)
    # CUDA does not publish its measure; arithmetic per second orders cards of unequal kinds as it does.
    return sorted(gpus, key=lambda gpu: (gpu.speed, gpu.capability or (0, 0)), reverse=True)


def _named(name: str, ordered: Sequence[Gpu]) -> Gpu | None:
    """What one name of CUDA_VISIBLE_DEVICES stands for: a number, or the beginning of a long name that only one has."""
    if name.startswith(("GPU-", "MIG-")):
        every = [*ordered, *(part for gpu in ordered for part in gpu.parts)]
        fitting = [gpu for gpu in every if gpu.uuid.lower().startswith(name.lower())]
        return _taken(fitting[0]) if len(fitting) == 1 else None
    number = re.match(r"\+?(\d+)", name)
    return _taken(ordered[int(number[1])]) if number and int(number[1]) < len(ordered) else None


def _taken(gpu: Gpu) -> Gpu:
    """CUDA gives a process one part of a GPU that is divided."""
    return gpu.parts[0] if gpu.parts else gpu
