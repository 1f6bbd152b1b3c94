"""The truth about each optimization switch, told from what a step did and from the objects that are in use."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import nn

from utils.config import TrainConfig
from utils.model.gpt import XttsGpt
from utils.model.lora import has_lora, num_added_rows
from utils.performance_utils.settings import AMPERE
from utils.training.optimizations.proof import SLOW, StepRecord
from utils.training.optimizations.switches import Switches, device_index
from utils.training.optimizer.offload import OffloadedAdamW

MB = 1e6
LOADING = ("num_workers", "prefetch_factor", "pin_memory")
"""Settings of the loader that may be chosen."""


@dataclass(frozen=True, kw_only=True)
class SwitchState:
    """One switch after a step."""

    asked: bool | str | int | float
    state: Literal["on", "off"]
    observed: str
    """What was seen."""
    reason: str | None = None
    """Why it is off although it was asked for."""
    summary: str | None = None
    """What was seen, in a few words for people who watch; None where it is off."""


Report = dict[str, dict[str, Any]]
"""By switch name: the fields of `SwitchState`."""


def report(
    *,
    asked: TrainConfig,
    switches: Switches,
    record: StepRecord,
    model: XttsGpt,
    optimizer: torch.optim.Optimizer,
    scaler: bool,
    loader: object,
) -> Report:
    """Every switch, as JSON values.

    Args:
        asked: what the user wanted.
        switches: what was tried, and what could not be.
        record: what was watched of a step.
        model, optimizer, loader: the objects in use.
        scaler: whether a gradient scaler is active.
    """
    device = next(model.parameters()).device
    seen = {
        "gradient_checkpointing": (asked.gradient_checkpointing, *_checkpointing(asked, record)),
        "sdpa": (asked.sdpa, *attention_proof(asked, record)),
        "mixed_precision": (asked.mixed_precision, *_precision(asked, record, scaler)),
        "compile": (asked.compile, *_compiled(record, switches)),
        "eight_bit_optimizer": (asked.eight_bit_optimizer, *_eight_bit(optimizer)),
        "offload_optimizer": (asked.offload_optimizer, *_offloaded(optimizer)),
        "lora": (asked.lora_rank, *_lora(model)),
        "freeze_conditioning": (asked.freeze_conditioning, *_frozen(model)),
        "cuda_memory_fraction": (asked.cuda_memory_fraction or False, *_fraction(switches, device)),
        "tf32": (_has_tf32(device), *_tf32(device)),
        "loader": (_asked_of_loader(asked), *_loader(asked, loader)),
    }
    short = _summaries(record, layers=model.shape.layers)
    return {
        name: asdict(_state(name, *what, switches=switches, summary=short.get(name))) for name, what in seen.items()
    }


def _summaries(record: StepRecord, *, layers: int) -> dict[str, str]:
    """The proofs that count passes, in blocks: a step of several micro-batches passes through each more than once."""

    def blocks(part: int, whole: int) -> str:
        return f"{layers * part // max(whole, 1)} of {layers} blocks"

    kernels = ", ".join(name for name, _ in record.kernels.most_common())
    return {
        "gradient_checkpointing": f"{blocks(record.recomputed, record.forward_runs)} recomputed",
        "sdpa": f"{kernels} in {blocks(record.passes - record.hidden, record.passes)}",
        "mixed_precision": f"{str(record.product_dtype).removeprefix('torch.')} matrix products",
    }


def _state(
    name: str, asked: Any, is_on: bool, observed: str, *, switches: Switches, summary: str | None
) -> SwitchState:
    wanted = asked not in (False, 0, None, "none", "off", "fp32")
    reason = switches.off.get(name)
    if wanted and not is_on and reason is None:
        reason = f"what ran shows: {observed}"
    return SwitchState(
        asked=asked,
        state="on" if is_on else "off",
        observed=observed,
        reason=reason if wanted else None,
        summary=(summary or observed) if is_on else None,
    )


def _checkpointing(asked: TrainConfig, record: StepRecord) -> tuple[bool, str]:
    if not record.recomputed:
        return False, "no block was recomputed"
    saved = (record.block_bytes - record.kept_bytes) / MB
    share = f"{record.recomputed} of {record.forward_runs} block passes recomputed"
    listeners = f"{record.conditioning_recomputed} of the conditioning encoder"
    kept = f"{record.kept_bytes / MB:.1f} instead of {record.block_bytes / MB:.1f} MB kept a block ({saved:.1f} saved)"
    return True, f"{share} and {listeners}; {kept}"


def attention_proof(asked: TrainConfig, record: StepRecord) -> tuple[bool, str]:
    """On where every pass of every block took a fast kernel, and nothing anywhere a slow one."""
    slow = (set(record.kernels) | set(record.other_kernels)) & SLOW
    is_fast = bool(record.kernels) and not record.hidden and not slow
    told = f"{_told(record.kernels)} in {record.passes - record.hidden} of {record.passes} block passes"
    if record.hidden and record.compiled:
        told += "; compiled code does not show what it runs in the others"
    if record.other_kernels:
        told += f"; conditioning {_told(record.other_kernels)}"
    if is_fast and asked.dropout:
        told += "; no dropout of attention weights, which these kernels do without"
    return is_fast, told


def _told(kernels: Counter[str]) -> str:
    return ", ".join(f"{name} x{count}" for name, count in kernels.most_common()) or "no attention kernel was seen"


def _precision(asked: TrainConfig, record: StepRecord, scaler: bool) -> tuple[bool, str]:
    products, stream = (str(dtype).removeprefix("torch.") for dtype in (record.product_dtype, record.stream_dtype))
    is_half = record.product_dtype in (torch.bfloat16, torch.float16)
    return is_half, f"products {products}, block outputs {stream}, gradient scaler {'on' if scaler else 'off'}"


def _compiled(record: StepRecord, switches: Switches) -> tuple[bool, str]:
    if "compile" in switches.off:
        # It may have failed after the step that was watched.
        return False, "the blocks run as they are written"
    told = f"{record.compiled} of {record.passes} block passes ran compiled"
    told += f"; {record.num_graphs} graphs compiled in this step"
    if record.num_skips:
        told += f"; CUDA graphs skipped {record.num_skips} times"
    # Of max-autotune the graphs are only a part.
    lacks_graphs = record.num_skips > 0 and switches.compile == "reduce-overhead"
    return 0 < record.compiled == record.passes and not lacks_graphs, told


def _eight_bit(optimizer: torch.optim.Optimizer) -> tuple[bool, str]:
    tensors = [
        value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)
    ]
    num_bytes = sum(value.nbytes for value in tensors)
    dtypes = sorted({str(value.dtype).removeprefix("torch.") for value in tensors if value.ndim})
    told = f"moments in {' and '.join(dtypes) or 'nothing yet'}, {num_bytes / MB:.1f} MB"
    return any(value.dtype == torch.uint8 for value in tensors), told


def _offloaded(optimizer: torch.optim.Optimizer) -> tuple[bool, str]:
    devices = {
        value.device.type
        for state in optimizer.state.values()
        for name, value in state.items()
        if isinstance(value, torch.Tensor) and name != "step"
    }
    told = f"moments on {', '.join(sorted(devices)) or 'no device'}"
    if not isinstance(optimizer, OffloadedAdamW):
        return False, told
    return devices == {"cpu"}, f"{told}; {optimizer.staging_bytes / MB:.1f} MB of staging buffers"


def _lora(model: XttsGpt) -> tuple[bool, str]:
    trained, whole = _sizes(model)
    told = f"{trained / 1e6:.2f} of {whole / 1e6:.2f} million parameters learn"
    if not has_lora(model):
        return False, told
    if rows := num_added_rows(model):
        told += f", {rows:,} added text rows among them"
    if model.added_rows is None:
        told += "; text rows that were added to the base's vocabulary do not: its about.json does not name them"
    return True, told


def _frozen(model: XttsGpt) -> tuple[bool, str]:
    parts = (model.conditioning_encoder, model.conditioning_perceiver)
    learning = sum(p.numel() for part in parts for p in part.parameters() if p.requires_grad)
    return learning == 0, f"{learning / 1e6:.2f} million parameters of the conditioning encoder learn"


def _fraction(switches: Switches, device: torch.device) -> tuple[bool, str]:
    if switches.memory_fraction is None:
        return False, "no limit"
    return True, f"{torch.cuda.get_per_process_memory_fraction(device_index(device)):.0%} of {device}"


def _tf32(device: torch.device) -> tuple[bool, str]:
    if device.type != "cuda":
        return False, "no CUDA device"
    matmul = torch.backends.cuda.matmul.fp32_precision
    convolution = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    autotune = "on" if torch.backends.cudnn.benchmark else "off"
    told = f"fp32 products {matmul}, convolutions {convolution}, cuDNN autotune {autotune}"
    return _has_tf32(device) and matmul == "tf32", told


def _has_tf32(device: torch.device) -> bool:
    """Whether there are units for it, which are then to be used."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= AMPERE


def _asked_of_loader(asked: TrainConfig) -> str:
    chosen = {name: getattr(asked, name) for name in LOADING}
    return ", ".join(f"{name} {value}" for name, value in chosen.items() if value is not None) or "auto"


def _loader(asked: TrainConfig, loader: object) -> tuple[bool, str]:
    """On where the loader has all that was asked for."""
    is_on = all(getattr(asked, name) in (None, getattr(loader, name, None)) for name in LOADING)
    told = ", ".join(f"{name} {getattr(loader, name, None)}" for name in (*LOADING, "persistent_workers"))
    return is_on, told


def _sizes(model: nn.Module) -> tuple[int, int]:
    """Parameters that learn, and all."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    return sum(size for size, learns in sizes if learns), sum(size for size, _ in sizes)
