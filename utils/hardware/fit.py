"""Predict before a start whether a training fits in this machine's memory, without loading torch."""

from dataclasses import dataclass

from utils.config import TrainConfig
from utils.hardware.estimates import XTTS_V2, MemoryEstimate, ModelSize, Step, estimate
from utils.hardware.machine import Machine
from utils.hardware.recommendations import CPU_SHARE, memory_budget


@dataclass(frozen=True, kw_only=True)
class MemoryFit:
    """What a training needs by calculation, beside what there is."""

    device: str
    """cpu or cuda."""
    needed: MemoryEstimate
    total_bytes: int
    """Of the GPU, or of the machine (of its container where that is less)."""
    used_bytes: int
    """By others, now."""
    budget_bytes: int
    """So much may be planned for: a part of what is free, as the rest is for what no calculation knows."""
    host_budget_bytes: int
    """The same of the machine's memory, for the float32 values of frozen weights."""

    @property
    def fits(self) -> bool:
        return self.needed.total <= self.budget_bytes and self.needed.host <= self.host_budget_bytes


def memory_fit(
    config: TrainConfig, machine: Machine, *, model: ModelSize = XTTS_V2, max_audio_length: int = 255_995
) -> MemoryFit:
    """Whether a training fits.

    Args:
        config: its settings.
        machine: as it is now, before the start.
        model: sizes of the base.
        max_audio_length: longest clip where the settings leave it open, in samples at 22 050 Hz.
    """
    gpu = machine.gpu if config.device != "cpu" and machine.has_usable_gpu else None
    step = Step(
        device="cuda" if gpu else "cpu",
        batch_size=config.batch_size,
        gradient_checkpointing=config.gradient_checkpointing,
        sdpa=config.sdpa,
        mixed_precision=config.mixed_precision,
        eight_bit_optimizer=config.eight_bit_optimizer,
        lora=config.lora_rank > 0,
        freeze_conditioning=config.freeze_conditioning,
        max_audio_length=config.max_audio_length or max_audio_length,
    )
    available = machine.memory.available_bytes
    return MemoryFit(
        device=step.device,
        needed=estimate(step, model),
        total_bytes=gpu.total_bytes if gpu else machine.memory.total_bytes,
        used_bytes=gpu.used_bytes if gpu else machine.memory.total_bytes - available,
        budget_bytes=memory_budget(machine, gpu)[0],
        host_budget_bytes=round(CPU_SHARE * available),
    )
