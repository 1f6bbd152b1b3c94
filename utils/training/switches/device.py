"""What concerns the device: its memory limit and TF32; and what the training loader has."""

import torch

from utils.config import TrainConfig
from utils.hardware.gpu import AMPERE
from utils.training.switches.base import Behavior, Off, Seen, Trace

LOADING = ("num_workers", "prefetch_factor", "pin_memory")
"""Settings of the loader that may be chosen."""


def limit_memory(effective: TrainConfig, device: torch.device) -> None:
    """Let the process have its share of a GPU; a limit that an earlier run set does not stay."""
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(float(effective.cuda_memory_fraction or 1.0), _index(device))


def _limited(trace: Trace) -> Seen:
    if trace.switches.effective.cuda_memory_fraction is None:
        return Seen(False, "no limit")
    share = torch.cuda.get_per_process_memory_fraction(_index(trace.device))
    return Seen(True, f"{share:.0%} of {trace.device}")


def _index(device: torch.device) -> int:
    """Number of a CUDA device; accelerate names the only one without."""
    return torch.cuda.current_device() if device.index is None else device.index


def _has_tf32(device: torch.device) -> bool:
    """Whether there are units for it, which are then to be used."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= AMPERE


def _tf32(trace: Trace) -> Seen:
    if trace.device.type != "cuda":
        return Seen(False, "no CUDA device")
    matmul = torch.backends.cuda.matmul.fp32_precision
    convolution = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    return Seen(_has_tf32(trace.device) and matmul == "tf32", f"fp32 products {matmul}, convolutions {convolution}")


def _asked_of_loader(trace: Trace) -> str:
    chosen = {name: getattr(trace.switches.asked, name) for name in LOADING}
    return ", ".join(f"{name} {value}" for name, value in chosen.items() if value is not None) or "auto"


def _loader(trace: Trace) -> Seen:
    """On where the loader has all that was asked for."""
    asked, loader = trace.switches.asked, trace.loader
    is_on = all(getattr(asked, name) in (None, getattr(loader, name, None)) for name in LOADING)
    return Seen(is_on, ", ".join(f"{name} {getattr(loader, name, None)}" for name in (*LOADING, "persistent_workers")))


# The limit is the process's, whatever the model: see `limit_memory`.
MEMORY = Behavior(
    resolve=lambda asked, device: (
        asked.cuda_memory_fraction if device.type == "cuda" else Off("there is no GPU memory to limit")
    ),
    observe=_limited,
)
TF32 = Behavior(asked=lambda trace: _has_tf32(trace.device), observe=_tf32)
LOADER = Behavior(asked=_asked_of_loader, observe=_loader)
