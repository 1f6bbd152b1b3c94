"""Recommend settings for a machine and a purpose, each with its reason, and whether they fit; without loading torch.

Each purpose has a list of plans, the most preferred first. The first plan whose estimated memory (see
`utils.hardware.estimates`) fits its smallest useful batch is chosen, with the largest batch that fits. Gradients are
then accumulated to an effective batch of 8 to 16 clips.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal, get_args

from utils.config import TrainConfig
from utils.hardware.estimates import MAX_AUDIO_LENGTH, XTTS_V2, MemoryEstimate, ModelSize, estimate
from utils.hardware.gpu import AMPERE, VOLTA, Gpu
from utils.hardware.machine import Machine, this_machine
from utils.hardware.processor import AVX512_BF16
from utils.hardware.resources import GIB
from utils.options import Precision
from utils.switches import SWITCHES

UseCase = Literal["production", "experiments", "limited memory", "maximum quality", "debugging"]
USE_CASES: tuple[UseCase, ...] = get_args(UseCase)

TIERS = ((25, "> 24 GB"), (16, "16-24 GB"), (12, "12-16 GB"), (8, "8-12 GB"), (0, "< 8 GB"))
"""GPU memory by its smallest whole GB: a card sold with 24 GB has 24 and belongs to 16-24."""
BATCH_SIZES = (16, 8, 4, 2, 1)
GPU_SHARE, CPU_SHARE = 0.9, 0.8
"""Share of the memory that a plan may fill: ragged batches fragment it, and other programs want some."""
CROWDED = 0.25
"""A GPU of which others use more than this share is planned by what is free of it."""
LORA: dict[str, Any] = {
    "lora_rank": next(switch.on for switch in SWITCHES if switch.field == "lora_rank"),
    "freeze_conditioning": True,
}
SMALLEST_GB = 8
"""Of a GPU that all parameters of XTTS v2 are trained on."""

ABOUT_COMPILE = (
    "compile off: it delays the start, and makes steps slower on some machines and faster on others; --preflight "
    "measures it where it can compile"
)
SETTINGS = (
    "device",
    "batch_size",
    "grad_accumulation",
    "gradient_checkpointing",
    "sdpa",
    "mixed_precision",
    "compile",
    "eight_bit_optimizer",
    "lora_rank",
    "freeze_conditioning",
)
"""What is recommended, by the names of `TrainConfig`."""


@dataclass(frozen=True, kw_only=True)
class MemoryFit:
    """What a training needs by calculation, beside what there is."""

    device: Literal["cpu", "cuda"]
    needed: MemoryEstimate
    total_bytes: int
    """Of the GPU, or of the machine (of its container where that is less)."""
    used_bytes: int
    """By others, now."""
    budget_bytes: int
    """So much may be planned for: a part of what is free, as the rest is for what no calculation knows."""
    host_budget_bytes: int
    """The same of the machine's memory, for what is held there besides."""

    @property
    def fits(self) -> bool:
        return self.needed.total <= self.budget_bytes and self.needed.host <= self.host_budget_bytes


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Settings to begin with on a machine, whether they fit, and why; each of `SETTINGS` is an attribute, too."""

    config: TrainConfig
    fit: MemoryFit
    reasons: tuple[str, ...]
    """Why each of these, one sentence each."""
    problems: tuple[str, ...] = ()
    """What keeps the machine from training better, each with its fix."""

    def __getattr__(self, name: str) -> Any:
        if name not in SETTINGS:
            raise AttributeError(name)
        return getattr(self.config, name)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings alone, by the names of `TrainConfig`."""
        return {name: getattr(self.config, name) for name in SETTINGS}


def memory_fit(
    config: TrainConfig, machine: Machine, *, model: ModelSize = XTTS_V2, max_audio_length: int = MAX_AUDIO_LENGTH
) -> MemoryFit:
    """Whether a training fits.

    Args:
        config: its settings.
        machine: as it is now, before the start.
        model: sizes of the base.
        max_audio_length: longest clip where the settings leave it open, in samples at 22 050 Hz.
    """
    gpu = None if config.device == "cpu" or machine.gpu_problems else machine.gpu
    host = round(CPU_SHARE * machine.memory.available_bytes)
    budget = host
    if gpu:
        room = gpu.free_bytes if gpu.used_bytes > CROWDED * gpu.total_bytes else gpu.total_bytes
        budget = round(GPU_SHARE * room)
    device: Literal["cpu", "cuda"] = "cuda" if gpu else "cpu"
    return MemoryFit(
        device=device,
        needed=estimate(config, model, device=device, max_audio_length=max_audio_length),
        total_bytes=gpu.total_bytes if gpu else machine.memory.total_bytes,
        used_bytes=gpu.used_bytes if gpu else machine.memory.total_bytes - machine.memory.available_bytes,
        budget_bytes=budget,
        host_budget_bytes=host,
    )


def recommend(
    use_case: UseCase = "production",
    machine: Machine | None = None,
    *,
    model: ModelSize = XTTS_V2,
    max_audio_length: int = MAX_AUDIO_LENGTH,
) -> Recommendation:
    """The settings to begin with on a machine.

    Args:
        use_case: what the training is for.
        machine: this one when not given.
        model: sizes of the base; XTTS v2 when not given.
        max_audio_length: longest clip, in samples at 22 050 Hz.
    """
    assert use_case in USE_CASES, use_case
    machine = machine or this_machine()
    gpu = None if machine.gpu_problems else machine.gpu
    precision, about_precision = _precision(machine, gpu, use_case)
    start = TrainConfig(
        project="", device="cuda" if gpu else "cpu", mixed_precision=precision, sdpa=use_case != "debugging"
    )
    largest = 2 if use_case in ("limited memory", "debugging") else 16 if gpu else 4
    for plan in _plans(use_case, gpu):
        changes, least, why = plan
        sizes = [size for size in BATCH_SIZES if min(least, largest) <= size <= largest]
        configs = [replace(start, **changes, batch_size=size) for size in sizes]
        pairs = [(one, memory_fit(one, machine, model=model, max_audio_length=max_audio_length)) for one in configs]
        chosen = next((pair for pair in pairs if pair[1].fits), None)
        if chosen:
            break
    config, fit = chosen or pairs[-1]
    effective = 16 if use_case == "maximum quality" else max(8, config.batch_size)
    accumulated = effective // config.batch_size
    about_batch = (
        f"batch {config.batch_size} x {accumulated} accumulated = {effective} clips an update; 8 to 16 are "
        "known to train XTTS well"
    )
    # A plan may bring a precision of its own, and its own reason for it.
    about = [about_precision] if config.mixed_precision == precision else []
    about = [_about_budget(machine, gpu), why, *about, _about_attention(gpu, config), about_batch, ABOUT_COMPILE]
    return Recommendation(
        config=replace(config, grad_accumulation=accumulated),
        fit=fit,
        reasons=tuple(about),
        problems=tuple(_problems(machine, config, fit)),
    )


def memory_tier(num_bytes: int) -> str:
    """Row of the matrix by GPU memory: < 8 GB, 8-12 GB, 12-16 GB, 16-24 GB or > 24 GB."""
    # A card sold with 8 GB may report 7.996 GiB.
    return next(name for smallest, name in TIERS if round(num_bytes / GIB) >= smallest)


def _plans(use_case: UseCase, gpu: Gpu | None) -> Iterator[tuple[dict[str, Any], int, str]]:
    """Plans for a purpose, the most wanted first; the last one is for when nothing else fits.

    Yields:
        Settings, the smallest batch for which they are worth taking, and why.
    """
    frugal, few = use_case == "limited memory", 1 if use_case == "debugging" else 4
    frozen: dict[str, Any] = {"freeze_conditioning": True} if frugal else {}
    whole = "all parameters but the conditioning encoder are trained" if frugal else "all parameters are trained"
    if use_case == "maximum quality" and _has_bf16(gpu):
        why = f"{whole}, with float32 activations and TF32 matrix products: there is room for them"
        yield ({"mixed_precision": "fp32"}, 4, why)
    if not frugal:
        yield ({}, few, f"{whole}; activations fit, so none are recomputed")
        why = f"{whole}; matrix products are kept and the rest is recomputed, because not all would fit"
        yield ({"gradient_checkpointing": "selective"}, few, why)
    checkpointed = frozen | {"gradient_checkpointing": "full"}
    if not frugal or gpu is None:
        least = 2 if gpu and use_case != "debugging" else 1
        why = f"{whole}; activations would not fit, so they are recomputed: a third more computation"
        yield (checkpointed, least, f"{whole}; activations are recomputed" if frugal else why)
    # Smaller cards hold too few clips of a full fine-tune.
    if gpu and round(gpu.total_bytes / GIB) >= SMALLEST_GB:
        why = f"{whole}, with recomputed activations and 8-bit Adam, whose moments take 2 bytes a parameter, not 8"
        yield (checkpointed | {"eight_bit_optimizer": True}, 4, why)
    why = "LoRA: gradients and moments of all parameters would not fit, so small matrices beside them are trained"
    if not frugal:
        yield (LORA, 4, why)
    yield (LORA | {"gradient_checkpointing": "full"}, 1, f"{why}; activations are recomputed")


def _about_budget(machine: Machine, gpu: Gpu | None) -> str:
    if gpu is None:
        why = "PyTorch cannot use the GPU yet" if machine.gpu else machine.gpu_reason or "there is no GPU"
        return f"training on the CPU, with {machine.memory.available_bytes / GIB:.0f} GB of memory free: {why}"
    size = f"{gpu.name}, {gpu.architecture or 'unknown architecture'}, {gpu.total_bytes / GIB:.0f} GB"
    if gpu.used_bytes > CROWDED * gpu.total_bytes:
        return f"{size}: planned for the {gpu.free_bytes / GIB:.1f} GB that other programs leave free"
    return f"{size}: planned for the row {memory_tier(gpu.total_bytes)}"


def _precision(machine: Machine, gpu: Gpu | None, use_case: UseCase) -> tuple[Precision, str]:
    if use_case == "debugging":
        return "fp32", "float32: what goes wrong is then not a matter of rounding"
    processor, name = machine.cpu, gpu.architecture or "this GPU" if gpu else machine.cpu.model
    if gpu is None:
        if processor.has_bf16:
            return "bf16", f"bf16: {name} multiplies bf16 matrices in hardware; weights stay float32"
        if AVX512_BF16 in processor.flags:
            return "fp32", f"float32: {name} multiplies bf16 more slowly than float32 without AMX"
        known = "" if processor.flags_known else " as far as this system reports"
        return "fp32", f"float32: {name} has no bf16 units{known}, and emulated bf16 is slower"
    if _has_bf16(gpu):
        return "bf16", f"bf16: {name} has matrix units for it, and its range needs no gradient scaling"
    if gpu.capability is not None and gpu.capability >= VOLTA:
        return "fp16", f"fp16 with gradient scaling: {name} has fast fp16 but no bf16 units"
    if use_case == "limited memory" or memory_tier(gpu.total_bytes) == "< 8 GB":
        return "fp16", f"fp16 with gradient scaling halves the activations; {name} is not faster for it"
    return "fp32", f"float32: {name} has no matrix units for half precision"


def _about_attention(gpu: Gpu | None, config: TrainConfig) -> str:
    is_half = config.mixed_precision != "fp32"
    if not config.sdpa:
        return "explicit softmax: the reference that every kernel is compared with"
    if gpu and not (_has_bf16(gpu) and is_half):
        return "SDPA: memory-efficient runs; varlen flash needs Ampere or newer and half precision"
    if gpu:
        return "SDPA: clips without padding in one row let varlen flash run"
    if is_half:
        return "SDPA: matrix products (CPU), with a backward pass made for bf16"
    return "SDPA: flash (CPU) keeps no attention weights"


def _problems(machine: Machine, config: TrainConfig, fit: MemoryFit) -> Iterator[str]:
    yield from machine.gpu_problems
    if config.eight_bit_optimizer and find_spec("bitsandbytes") is None:
        yield "8-bit AdamW needs bitsandbytes, which is not installed: run pip install -r requirements-8bit.txt"
    if not fit.fits:
        yield (
            f"even the smallest plan needs {fit.needed.total / GIB:.1f} GB by calculation and "
            f"{fit.budget_bytes / GIB:.1f} GB may be used: close other programs, shorten the longest clip "
            "(max_audio_length), or take a larger machine"
        )


def _has_bf16(gpu: Gpu | None) -> bool:
    return gpu is not None and gpu.capability is not None and gpu.capability >= AMPERE
