"""Recommend settings for a machine and a purpose, each with its reason, without loading torch.

Each purpose has a list of plans, the most preferred first. The first plan whose estimated memory (see
`utils.hardware.estimates`) fits its smallest useful batch is chosen, with the largest batch that fits. Gradients are
then accumulated to an effective batch of 8 to 16 clips.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from utils.config import Precision
from utils.hardware.estimates import GB, XTTS_V2, Checkpointing, MemoryEstimate, ModelSize, Step, estimate
from utils.hardware.gpu import Gpu
from utils.hardware.machine import Machine, this_machine
from utils.hardware.processor import AVX512_BF16, Cpu
from utils.switches import SWITCHES

UseCase = Literal["production", "experiments", "limited memory", "maximum quality", "debugging"]
USE_CASES: tuple[UseCase, ...] = get_args(UseCase)

GIB = 1 << 30
TIERS = ((25, "> 24 GB"), (16, "16-24 GB"), (12, "12-16 GB"), (8, "8-12 GB"), (0, "< 8 GB"))
"""GPU memory by its smallest whole GiB: a card sold with 24 GB has 24 GiB and belongs to 16-24."""
BATCH_SIZES = (16, 8, 4, 2, 1)
GPU_SHARE, CPU_SHARE = 0.9, 0.8
"""Share of the memory that a plan may fill: ragged batches fragment it, and other programs want some."""
CROWDED = 0.25
"""A GPU of which others use more than this share is planned by what is free of it."""
_LORA_RANK = next(switch.on for switch in SWITCHES if switch.field == "lora_rank")
AMPERE, VOLTA = (8, 0), (7, 0)


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Settings by the names of `TrainConfig`, and why."""

    device: Literal["cpu", "cuda"]
    batch_size: int
    grad_accumulation: int
    gradient_checkpointing: Checkpointing
    sdpa: bool
    mixed_precision: Precision
    compile: Literal["off", "default"]
    eight_bit_optimizer: bool
    lora: bool
    freeze_conditioning: bool
    estimate: MemoryEstimate
    """Memory by calculation, not by measurement."""
    reasons: tuple[str, ...]
    """Why each of these, one sentence each."""
    problems: tuple[str, ...] = ()
    """What keeps the machine from training better, each with its fix."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings alone, by the names of `TrainConfig`."""
        others = ("estimate", "reasons", "problems", "lora")
        return {name: value for name, value in vars(self).items() if name not in others} | {
            "lora_rank": _LORA_RANK if self.lora else 0
        }


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """One rung of a ladder."""

    step: Step
    """With batch size 1."""
    min_batch: int
    """Smallest batch for which this plan is worth taking."""
    why: str


def recommend(
    use_case: UseCase = "production",
    machine: Machine | None = None,
    *,
    model: ModelSize = XTTS_V2,
    max_audio_length: int = 255_995,
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
    gpu = machine.gpu if machine.has_usable_gpu else None
    budget, about_budget = memory_budget(machine, gpu)
    precision, about_precision = _gpu_precision(gpu, use_case) if gpu else _cpu_precision(machine.cpu, use_case)
    start = Step(
        device="cuda" if gpu else "cpu",
        batch_size=1,
        mixed_precision=precision,
        sdpa=use_case != "debugging",
        max_audio_length=max_audio_length,
    )
    largest_batch = 2 if use_case in ("limited memory", "debugging") else 16 if gpu else 4
    plan, batch_size = _choose(list(_ladder(start, machine, gpu, use_case)), budget, machine, model, largest_batch)
    step = replace(plan.step, batch_size=batch_size)
    effective = 16 if use_case == "maximum quality" else max(8, batch_size)
    needed = estimate(step, model)
    compile_mode, about_compile = _compile(machine, gpu, use_case)
    about_batch = (
        f"batch {batch_size} x {effective // batch_size} accumulated = {effective} clips an update; 8 to 16 are "
        "known to train XTTS well"
    )
    # A plan may bring a precision of its own, and its own reason for it.
    about = [about_precision] if step.mixed_precision == precision else []
    reasons = (about_budget, plan.why, *about, _about_attention(gpu, step), about_batch, about_compile, str(needed))
    return Recommendation(
        device=step.device,
        batch_size=batch_size,
        grad_accumulation=effective // batch_size,
        gradient_checkpointing=step.gradient_checkpointing,
        sdpa=step.sdpa,
        mixed_precision=step.mixed_precision,
        compile=compile_mode,
        eight_bit_optimizer=step.eight_bit_optimizer,
        lora=step.lora,
        freeze_conditioning=step.freeze_conditioning,
        estimate=needed,
        reasons=reasons,
        problems=tuple(_problems(machine, needed, budget)),
    )


def memory_tier(num_bytes: int) -> str:
    """Row of the matrix by GPU memory: < 8 GB, 8-12 GB, 12-16 GB, 16-24 GB or > 24 GB."""
    # A card sold with 8 GB may report 7.996 GiB.
    return next(name for smallest, name in TIERS if round(num_bytes / GIB) >= smallest)


def _ladder(start: Step, machine: Machine, gpu: Gpu | None, use_case: UseCase) -> Iterator[_Plan]:
    """Plans for a purpose, the most wanted first; the last one is for when nothing else fits."""
    frugal = use_case == "limited memory"
    full = replace(start, freeze_conditioning=frugal)
    checkpointed = replace(full, gradient_checkpointing="full")
    whole = "all parameters are trained"
    if use_case == "maximum quality" and gpu and _has_bf16(gpu):
        why = f"{whole}, with float32 activations and TF32 matrix products: there is room for them"
        yield _Plan(step=replace(full, mixed_precision="fp32"), min_batch=4, why=why)
    if not frugal:
        few = 1 if use_case == "debugging" else 4
        yield _Plan(step=full, min_batch=few, why=f"{whole}; activations fit, so none are recomputed")
        why = f"{whole}; matrix products are kept and the rest is recomputed, because not all would fit"
        yield _Plan(step=replace(full, gradient_checkpointing="selective"), min_batch=few, why=why)
        yield _Plan(
            step=checkpointed,
            min_batch=2 if gpu and use_case != "debugging" else 1,
            why=f"{whole}; activations would not fit, so they are recomputed: a third more computation",
        )
    if gpu:
        yield from _smaller_optimizers(checkpointed)
    elif frugal:
        yield _Plan(
            step=checkpointed, min_batch=1, why=f"{whole} but the conditioning encoder; activations are recomputed"
        )
    lora = replace(start, lora=True, freeze_conditioning=True)
    why = "LoRA: gradients and moments of all parameters would not fit, so small matrices beside them are trained"
    if not frugal:
        yield _Plan(step=lora, min_batch=4, why=why)
    yield _Plan(
        step=replace(lora, gradient_checkpointing="full"), min_batch=1, why=f"{why}; activations are recomputed"
    )


def _smaller_optimizers(step: Step) -> Iterator[_Plan]:
    whole = "all parameters but the conditioning encoder" if step.freeze_conditioning else "all parameters"
    roomy = _Plan(
        step=replace(step, eight_bit_optimizer=True),
        min_batch=4,
        why=f"{whole} are trained, with recomputed activations and 8-bit Adam, whose moments take 2 instead of 8 bytes "
        "a parameter",
    )
    yield from (roomy, replace(roomy, min_batch=1))


def _choose(plans: list[_Plan], budget: int, machine: Machine, model: ModelSize, largest: int) -> tuple[_Plan, int]:
    """The first plan that fits with a useful batch, and the largest batch that fits with it."""
    for plan in plans:
        for batch_size in BATCH_SIZES:
            needed = estimate(replace(plan.step, batch_size=batch_size), model)
            has_host = needed.host <= CPU_SHARE * machine.memory.available_bytes
            if min(plan.min_batch, largest) <= batch_size <= largest and needed.total <= budget and has_host:
                return plan, batch_size
    return plans[-1], 1


def memory_budget(machine: Machine, gpu: Gpu | None) -> tuple[int, str]:
    """Bytes that a training may plan for on a GPU, or on the CPU without one, and why."""
    return _gpu_budget(gpu) if gpu else _cpu_budget(machine)


def _gpu_budget(gpu: Gpu) -> tuple[int, str]:
    size = f"{gpu.name}, {gpu.architecture or 'unknown architecture'}, {gpu.total_bytes / GIB:.0f} GiB"
    if gpu.used_bytes > CROWDED * gpu.total_bytes:
        free = f"planned for the {gpu.free_bytes / GIB:.1f} GiB that other programs leave free"
        return round(GPU_SHARE * gpu.free_bytes), f"{size}: {free}"
    return round(GPU_SHARE * gpu.total_bytes), f"{size}: planned for the row {memory_tier(gpu.total_bytes)}"


def _cpu_budget(machine: Machine) -> tuple[int, str]:
    available = machine.memory.available_bytes
    why = "PyTorch cannot use the GPU yet" if machine.gpu else machine.gpu_reason or "there is no GPU"
    return round(CPU_SHARE * available), f"training on the CPU, with {available / GB:.0f} GB of memory free: {why}"


def _gpu_precision(gpu: Gpu, use_case: UseCase) -> tuple[Precision, str]:
    name = gpu.architecture or "this GPU"
    if use_case == "debugging":
        return "fp32", "float32: what goes wrong is then not a matter of rounding"
    if _has_bf16(gpu):
        return "bf16", f"bf16: {name} has matrix units for it, and its range needs no gradient scaling"
    if gpu.capability is not None and gpu.capability >= VOLTA:
        return "fp16", f"fp16 with gradient scaling: {name} has fast fp16 but no bf16 units"
    if use_case == "limited memory" or memory_tier(gpu.total_bytes) == "< 8 GB":
        return "fp16", f"fp16 with gradient scaling halves the activations; {name} is not faster for it"
    return "fp32", f"float32: {name} has no matrix units for half precision"


def _cpu_precision(processor: Cpu, use_case: UseCase) -> tuple[Precision, str]:
    if use_case == "debugging":
        return "fp32", "float32: what goes wrong is then not a matter of rounding"
    if processor.has_bf16:
        return "bf16", f"bf16: {processor.model} multiplies bf16 matrices in hardware; weights stay float32"
    known = "" if processor.flags_known else " as far as this system reports"
    if AVX512_BF16 in processor.flags:
        return "fp32", f"float32: {processor.model} multiplies bf16 more slowly than float32 without AMX"
    return "fp32", f"float32: {processor.model} has no bf16 units{known}, and emulated bf16 is slower"


def _about_attention(gpu: Gpu | None, step: Step) -> str:
    if not step.sdpa:
        return "explicit softmax: the reference that every kernel is compared with"
    if gpu and _has_bf16(gpu) and step.is_half:
        return "SDPA: clips without padding in one row let varlen flash run"
    if gpu:
        return "SDPA: memory-efficient runs; varlen flash needs Ampere or newer and half precision"
    if step.is_half:
        return "SDPA: matrix products (CPU), with a backward pass made for bf16"
    return "SDPA: flash (CPU) keeps no attention weights"


def _compile(machine: Machine, gpu: Gpu | None, use_case: UseCase) -> tuple[Literal["off", "default"], str]:
    if gpu is None:
        return "off", "compile off: it is recommended on GPUs only; try it with --preflight"
    if use_case not in ("production", "maximum quality"):
        return "off", "compile off: its warm-up pays only in long runs"
    if machine.system != "Linux":
        return "off", f"compile off: PyTorch's {machine.system} build brings no Triton, which compiles for GPUs"
    if not _has_bf16(gpu):
        return (
            "off",
            "compile off: Triton is made for Ampere and newer; PyTorch tries Volta and Turing, see --preflight",
        )
    if not machine.compiler:
        return "off", "compile off: no C++ compiler is installed (on Debian: apt install build-essential)"
    return "default", "compile on: the repeated blocks become fewer kernels, and a long run pays for the warm-up"


def _problems(machine: Machine, needed: MemoryEstimate, budget: int) -> Iterator[str]:
    yield from machine.gpu_problems
    if needed.total > budget:
        yield (
            f"even the smallest plan needs {needed.total / GB:.1f} GB by calculation and {budget / GB:.1f} GB may be "
            "used: close other programs, shorten the longest clip (max_audio_length), or take a larger machine"
        )


def _has_bf16(gpu: Gpu) -> bool:
    return gpu.capability is not None and gpu.capability >= AMPERE
