"""One optimizer step and one evaluation: the packed forward, losses in fp32, the backward, clipping, AdamW."""

import math
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from utils.bases.base import Base
from utils.bases.loading import load_gpt
from utils.config import TrainConfig
from utils.hardware.environment import keep_freed_memory
from utils.model.gpt import GptLosses, XttsGpt
from utils.model.mel import LogMel, conditioning_mel
from utils.options import LrSchedule
from utils.performance_utils.tracker import PhaseClock
from utils.training.data.batches import Batch
from utils.training.distributed import wrap
from utils.training.switches.compile import mark_step
from utils.training.switches.optim import DTYPES
from utils.training.switches.optimizer import Optimizations

TEXT_WEIGHT, CODE_WEIGHT = 0.01, 1.0
"""Weights of the two losses (coqui-tts, GPTArgs)."""
OVERFLOW = "fp16 overflow"
"""Why a step was skipped that fp16's scaler makes good by itself."""
Gathered = tuple[Tensor, list[float], float]
"""Gradients of one optimizer step that are not applied yet: loss sums of text, codes and reading over all
micro-batches, [3]; their valid targets, on the host, by which each is divided; and the seconds of speech."""


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Mean cross-entropies over valid targets, in nats."""

    text: float
    codes: float
    reading: float = 0.0
    """Guided attention loss, weighted; beside the loss, not in it (see `TrainConfig.reading_weight`)."""

    @property
    def total(self) -> float:
        """What is minimized."""
        return TEXT_WEIGHT * self.text + CODE_WEIGHT * self.codes


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What one optimizer step did."""

    losses: Losses
    grad_norm: float
    """L2 norm of all gradients before clipping."""
    learning_rate: float
    audio_seconds: float
    skipped: str = ""
    """Why the weights were left as they were, such as OVERFLOW; empty when they moved."""


@dataclass(kw_only=True, eq=False)
class Trainer:
    """The model with all that moves it."""

    gpt: XttsGpt
    optimizer: torch.optim.Optimizer
    learning_rate: float
    """Peak of the schedule."""
    schedule: LrSchedule
    """Gives each optimizer step its share of the peak."""
    mel: LogMel
    """Makes the conditioning encoder's input."""
    accelerator: Accelerator
    """Device and processes."""
    precision: str
    """fp32, bf16 or fp16."""
    grad_clip_norm: float
    """Gradients are scaled down to this L2 norm."""
    seed: int
    """With the numbers of step and micro-batch it fixes dropout: a resumed run draws what an undisturbed one does,
    whichever process computes the micro-batch."""
    optimizations: Optimizations
    """Does the steps and evaluations; it is given the model, the work and what takes a failed one back."""
    parallel: DistributedDataParallel | None = None
    """The model as several processes train it; sums their gradients."""
    num_steps: int = 0
    """Optimizer steps done."""

    def __post_init__(self) -> None:
        self.device = self.accelerator.device
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.precision == "fp16")
        self._learned = [parameter for parameter in self.gpt.parameters() if parameter.requires_grad]
        self.clock = PhaseClock(self.device)
        """Of the phases of training steps."""
        self.set_rate()

    def set_rate(self) -> None:
        """Give the optimizer the learning rate of the next step: of schedule and step, never of what was saved.

        A run that resumes with more epochs or another learning rate is then where it would be had it begun with them.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * self.schedule(self.num_steps)

    def state(self) -> dict[str, Any]:
        """Counters and schedules as JSON values; weights and moments are saved beside them."""
        return {"num_steps": self.num_steps, "scaler": self.scaler.state_dict()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.num_steps = state["num_steps"]
        self.set_rate()
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])

    def release_memory(self) -> None:
        """Release what only further steps need: gradients and moments; the weights stay."""
        self.discard()
        self.optimizer.state.clear()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def step(self, batches: list[Batch]) -> StepResult:
        """One optimizer step over some micro-batches, weighted by their valid targets.

        The sums of all micro-batches are divided by the number of targets in all of them: accumulating equals one
        large batch, whatever the clips' lengths.
        """
        return self.update(self.gather(batches))

    def gather(self, batches: list[Batch]) -> Gathered:
        """The gradients of a step; when this fails, `discard` makes it as if it had not been tried."""
        with self.optimizations.step():
            return self.optimizations.attempt(self.gpt, lambda: self._backward(batches), self.discard)

    def _backward(self, batches: list[Batch]) -> Gathered:
        if not self.gpt.training:  # setting it again in each module took a millisecond of a step
            self.gpt.train()
        mark_step()
        own = [batch for batch in batches if not batch.is_filler]
        texts = sum(batch.packed.num_text_targets for batch in own)
        codes = sum(batch.packed.num_code_targets for batch in own)
        seconds = sum(batch.audio_seconds for batch in own)
        *counts, audio_seconds = self._summed(texts, codes, codes, seconds)
        sums, seeded = torch.zeros(3, dtype=torch.float32, device=self.device), -1
        for place, batch in enumerate(batches):
            is_last = place == len(batches) - 1
            # Once for all pieces of a micro-batch: they draw one after another, as they would in one.
            if batch.number != seeded:
                seeded = batch.number
                torch.manual_seed(hash((self.seed, self.num_steps, seeded)) & 0x7FFF_FFFF_FFFF_FFFF)
            with (
                self.optimizations.micro_batch(self.gpt),
                # Gradients are summed over processes once, with those of the last pass.
                nullcontext() if is_last or self.parallel is None else self.parallel.no_sync(),
            ):
                losses = self._forward(batch, self.parallel or self.gpt)
                self.clock.begin("backward")
                loss = TEXT_WEIGHT * losses.text / counts[0] + CODE_WEIGHT * losses.codes / counts[1]
                # DistributedDataParallel takes the mean over processes, but the counts are those of all already.
                loss = (loss + losses.reading / counts[2]) * (0 if batch.is_filler else self.accelerator.num_processes)
                self.scaler.scale(loss).backward()
                self.clock.begin("")
            if not batch.is_filler:
                sums += torch.stack(losses).detach()
        if self.parallel is not None:
            sums = self.accelerator.reduce(sums, reduction="sum")
        return sums, counts, audio_seconds

    def discard(self) -> None:
        """Forget gradients that were not applied."""
        self.optimizer.zero_grad(set_to_none=True)

    def update(self, gathered: Gathered) -> StepResult:
        """Apply the gradients; where a number is not finite the weights stay as they are and only the step passes."""
        loss_sums, counts, audio_seconds = gathered
        learning_rate = self.optimizer.param_groups[0]["lr"]
        self.clock.begin("optimizer")
        self.scaler.unscale_(self.optimizer)
        gradients = [parameter.grad for parameter in self._learned if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        # The one wait for the device in a step, before the optimizer: these numbers decide whether it may run. Several
        # processes wait for each other as well, when they sum their counts.
        *sums, grad_norm = torch.cat([loss_sums, norm.reshape(1)]).tolist()
        text, codes, reading = (total / count for total, count in zip(sums, counts, strict=True))
        losses = Losses(text=text, codes=codes, reading=reading)
        skipped = "" if math.isfinite(losses.total) else "the loss is not a number"
        if not skipped and not math.isfinite(grad_norm):
            # A scale above 1 may be what made it too large: the scaler then lowers it, as it is meant to.
            is_scaled = self.scaler.is_enabled() and self.scaler.get_scale() > 1
            skipped = OVERFLOW if is_scaled else "the gradient is not a number"
        if not skipped:
            if (scale := self.grad_clip_norm / (grad_norm + 1e-6)) < 1:
                torch._foreach_mul_(gradients, scale)
            # Not through the scaler, which would wait for the device to read what the norm says.
            self.optimizer.step()
        self.scaler.update()
        # The schedule follows the place in the data, skipped or not, and so ends where the data ends.
        self.num_steps += 1
        self.set_rate()
        self.discard()
        self.clock.begin("")
        return StepResult(
            losses=losses,
            grad_norm=grad_norm,
            learning_rate=learning_rate,
            audio_seconds=audio_seconds,
            skipped=skipped,
        )

    @torch.no_grad()
    def evaluate(self, batches: Iterable[Batch]) -> Losses:
        """Mean losses over an evaluation set, without dropout; each process has a part of it."""
        self.gpt.eval()
        sums, counts = torch.zeros(2, device=self.device), torch.zeros(2)
        for batch in batches:
            losses = self.optimizations.attempt(self.gpt, partial(self._forward, batch, self.gpt), lambda: None)
            sums += torch.stack([losses.text, losses.codes])
            counts += torch.tensor([batch.packed.num_text_targets, batch.packed.num_code_targets])
        totals = self._summed(*counts.tolist())
        text, codes = (self.accelerator.reduce(sums, reduction="sum").cpu() / torch.tensor(totals)).tolist()
        self.clock.take()  # of training steps alone
        return Losses(text=text, codes=codes)

    def _forward(self, batch: Batch, model: torch.nn.Module) -> GptLosses:
        self.clock.begin("transfer")
        audio = batch.conditioning_audio.to(self.device, non_blocking=True)
        packed = batch.packed.to(self.device)
        self.clock.begin("forward")
        mels = self.mel(audio)
        dtype = DTYPES[self.precision]
        # Each weight is used once in a forward pass: a cache of half-precision copies would only hold memory.
        with torch.autocast(self.device.type, dtype=dtype, enabled=dtype != torch.float32, cache_enabled=False):
            losses: GptLosses = model(packed, mels)
            return losses

    def _summed(self, *numbers: float) -> list[float]:
        """Each number summed over all processes; the device of a single one is not asked, nor waited for."""
        if self.accelerator.num_processes == 1:
            return list(map(float, numbers))
        tensor = torch.tensor(numbers, dtype=torch.float32, device=self.device)
        return list(self.accelerator.reduce(tensor, reduction="sum").tolist())

    def any_process(self, *flags: bool) -> list[bool]:
        """For each flag whether it is set in any process, so that all do the same next."""
        return [count > 0 for count in self._summed(*flags)]


def make_trainer(
    config: TrainConfig, base: Base, accelerator: Accelerator, optimizations: Optimizations, *, total_steps: int
) -> Trainer:
    """The model on its device with optimizer and schedule.

    Args:
        config: settled settings.
        base: what to start from.
        accelerator: device and processes.
        optimizations: the switches; they are applied here.
        total_steps: that the schedule is to last for.
    """
    assert config.learning_rate
    if accelerator.device.type == "cpu":
        keep_freed_memory()
    gpt = optimizations.apply(load_gpt(base))
    gpt.options.reading_weight = config.reading_weight
    optimizer = optimizations.make_optimizer(gpt, learning_rate=config.learning_rate, weight_decay=config.weight_decay)
    return Trainer(
        gpt=gpt,
        optimizer=optimizer,
        learning_rate=config.learning_rate,
        schedule=LrSchedule(config.schedule, warmup_steps=config.warmup_steps, total_steps=total_steps),
        mel=conditioning_mel(base.mel_stats()).to(accelerator.device),
        accelerator=accelerator,
        precision=optimizations.switches.effective.mixed_precision,
        grad_clip_norm=config.grad_clip_norm,
        seed=config.seed,
        optimizations=optimizations,
        parallel=wrap(gpt, accelerator.device) if accelerator.num_processes > 1 else None,
    )
