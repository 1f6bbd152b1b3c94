"""Fast attention: fused kernels without a padding mask, and whose; or explicit softmax attention, the reference."""

from collections import Counter

import torch

from utils.config import TrainConfig
from utils.model.flash_attn import activate, use_flash_attn
from utils.model.gpt import XttsGpt
from utils.training.switches.base import Behavior, Off, Seen, Switches, Trace, blocks
from utils.training.switches.optim import DTYPES
from utils.training.switches.record import EXPLICIT, PACKAGED, SLOW


def _attention(trace: Trace) -> Seen:
    """On where every pass of every block took a fast kernel, and nothing anywhere a slow one."""
    record = trace.record
    slow = (set(record.kernels) | set(record.other_kernels)) & SLOW
    is_fast = bool(record.kernels) and not record.hidden and not slow
    shown = record.passes - record.hidden
    observed = f"{_counted(record.kernels)} in {shown} of {record.passes} block passes"
    if record.hidden and record.compiled:
        observed += "; compiled code does not show what it runs in the others"
    if record.other_kernels:
        observed += f"; conditioning {_counted(record.other_kernels)}"
    if is_fast and trace.switches.asked.dropout:
        observed += "; no dropout of attention weights, which these kernels do without"
    kernels = ", ".join(name for name, _ in record.kernels.most_common())
    return Seen(is_fast, observed, f"{kernels} in {blocks(shown, record.passes, trace)}")


def _kernels(asked: TrainConfig, device: torch.device) -> str | Off:
    if asked.attention != "flash-attn":
        return asked.attention
    if not asked.sdpa:
        return Off("SDPA is off, which is explicit attention")
    if device.type != "cuda":
        return Off("flash-attn has kernels for CUDA GPUs only")
    return asked.attention


def choose_kernel(switches: Switches, gpt: XttsGpt, device: torch.device) -> None:
    """Give the model the flash-attn kernel that this GPU, data type and head size can have, if one may be used."""
    gpt.options.kernel = "torch"
    effective = switches.effective
    if effective.attention not in ("auto", "flash-attn") or not effective.sdpa or device.type != "cuda":
        activate("torch")
        if effective.attention == "auto" and "attention" not in switches.off:
            lacking = "flash-attn has kernels for CUDA GPUs only" if effective.sdpa else "SDPA is off"
            switches.off["attention"] = f"{lacking}; PyTorch's own kernels compute attention"
        return
    if switches.layout == "packed":
        dtype, channels = DTYPES[effective.mixed_precision], gpt.shape.width // gpt.shape.heads
        gpt.options.kernel, switches.without_flash_attn = use_flash_attn(device, dtype, channels)
    elif not switches.without_flash_attn:
        switches.without_flash_attn = "flash-attn takes half precision and compute capability 8.0 or more"
    if gpt.options.kernel == "torch":
        switches.off["attention"] = switches.without_flash_attn


def _kernel_source(trace: Trace) -> Seen:
    """On where the blocks ran what was requested; of auto, where they ran a flash-attn package's kernel."""
    kernels = set(trace.record.kernels)
    of_package = bool(kernels) and kernels <= PACKAGED
    is_on = {
        "auto": of_package,
        "flash-attn": of_package,
        "torch": bool(kernels) and not kernels & {*PACKAGED, EXPLICIT},
        "explicit": kernels == {EXPLICIT},
    }[trace.switches.asked.attention]
    observed = f"{_counted(trace.record.kernels)} in the blocks"
    if not of_package and trace.switches.without_flash_attn:
        observed += f"; {trace.switches.without_flash_attn}"
    return Seen(is_on, observed)


def _counted(kernels: Counter[str]) -> str:
    return ", ".join(f"{name} x{count}" for name, count in kernels.most_common()) or "no attention kernel was seen"


# Options of the model: `Optimizations.apply` sets the first, and `choose_kernel` the second once it is on its device.
SDPA = Behavior(
    resolve=lambda asked, device: (
        asked.attention != "explicit" or Off("attention explicit was requested, which is the reference")
    ),
    observe=_attention,
)

KERNELS = Behavior(resolve=_kernels, observe=_kernel_source)
