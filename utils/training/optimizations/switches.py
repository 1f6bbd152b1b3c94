"""Which optimizations a run can have on its device, and for each that was asked for and cannot be had, why."""

from dataclasses import dataclass, field

import torch

from utils.config import Checkpointing, CompileMode, TrainConfig
from utils.model.attention import AttentionKind
from utils.model.packing import Layout
from utils.training.optimizations.compiler import compiler_problem
from utils.training.optimizer.make import OptimizerKind
from utils.training.optimizer.precision import AMPERE, choose_precision


@dataclass(frozen=True, kw_only=True)
class Switches:
    """What a run will try to do; whether it did is told by its proof."""

    precision: str
    """fp32, bf16 or fp16."""
    attention: AttentionKind
    checkpointing: Checkpointing
    compile: CompileMode
    optimizer: OptimizerKind
    lora_rank: int
    freeze_conditioning: bool
    layout: Layout
    """How batches are laid out: tight rows, or one packed row for variable-length attention."""
    memory_fraction: float | None = None
    off: dict[str, str] = field(default_factory=dict)
    """Switches that were asked for and cannot take effect here, with the reason."""


def resolve(config: TrainConfig, device: torch.device) -> Switches:
    """The switches of a run.

    Args:
        config: what was asked for.
        device: where training runs.

    Raises:
        UserError: fp16 on a CPU.
    """
    precision = choose_precision(config.mixed_precision, device)
    off: dict[str, str] = {}
    if config.mixed_precision == "auto" and precision == "fp32":
        what = (
            "GPU has no matrix units for half precision"
            if device.type == "cuda"
            else "processor has no bf16 matrix units"
        )
        off["mixed_precision"] = f"this {what}: half precision would be slower than fp32"
    compile_mode = _compile_mode(config, device, off)
    checkpointing = config.gradient_checkpointing
    if checkpointing == "selective" and compile_mode != "off":
        off["gradient_checkpointing"] = (
            "compiled blocks choose by themselves what to recompute, and selective mode cannot look into them; "
            "use full, or compile off"
        )
        checkpointing = "none"
    attention: AttentionKind = "sdpa" if config.sdpa else "explicit"
    return Switches(
        precision=precision,
        attention=attention,
        checkpointing=checkpointing,
        compile=compile_mode,
        optimizer=_optimizer(config, device, off),
        lora_rank=config.lora_rank,
        freeze_conditioning=config.freeze_conditioning,
        layout=choose_layout(attention, precision, device, is_compiled=compile_mode != "off"),
        memory_fraction=_memory_fraction(config, device, off),
        off=off,
    )


def choose_layout(attention: AttentionKind, precision: str, device: torch.device, *, is_compiled: bool) -> Layout:
    """One packed row where attention can keep clips apart cheaply, tight rows elsewhere.

    On CUDA that takes the variable-length kernel: compute capability 8.0 and half precision. A CPU goes clip by clip,
    which compiled code would have to be made anew for with each batch.
    """
    if attention == "explicit":
        return "rows"
    if device.type == "cuda":
        has_varlen = torch.cuda.get_device_capability(device) >= AMPERE and precision in ("bf16", "fp16")
        return "packed" if has_varlen else "rows"
    return "rows" if is_compiled else "packed"


def _compile_mode(config: TrainConfig, device: torch.device, off: dict[str, str]) -> CompileMode:
    if config.compile == "off":
        return "off"
    if problem := compiler_problem(device):
        off["compile"] = problem
        return "off"
    if device.type == "cpu" and config.compile == "reduce-overhead":
        off["compile"] = "reduce-overhead records CUDA graphs, which a CPU has none of; use default"
        return "off"
    return config.compile


def _optimizer(config: TrainConfig, device: torch.device, off: dict[str, str]) -> OptimizerKind:
    if config.eight_bit_optimizer:
        return "8-bit"
    if config.offload_optimizer and device.type == "cpu":
        off["offload_optimizer"] = "training runs in the machine's own memory: there is nothing to move"
        return "fused"
    return "offloaded" if config.offload_optimizer else "fused"


def _memory_fraction(config: TrainConfig, device: torch.device, off: dict[str, str]) -> float | None:
    if config.cuda_memory_fraction is None:
        return None
    if device.type != "cuda":
        off["cuda_memory_fraction"] = "there is no GPU memory to limit"
        return None
    return float(config.cuda_memory_fraction)


def device_index(device: torch.device) -> int:
    """Number of a CUDA device; accelerate names the only one without."""
    return torch.cuda.current_device() if device.index is None else device.index
