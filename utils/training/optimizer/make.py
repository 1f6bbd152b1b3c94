"""Create AdamW over the trained parameters, and the LR schedules."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from utils.model.split_weights import rests_of
from utils.schedules import LrSchedule, Schedule
from utils.training.optimizer.adamw8bit import AdamW8bit
from utils.training.optimizer.offload import OffloadedAdamW
from utils.training.optimizer.plain_adamw import FusedAdamW, PlainAdamW

OptimizerKind = Literal["fused", "8-bit", "offloaded"]

BETAS = (0.9, 0.96)
"""coqui-tts' XTTS recipe."""
EPS = 1e-8


def make_optimizer(
    model: nn.Module, *, learning_rate: float, weight_decay: float, kind: OptimizerKind = "fused"
) -> PlainAdamW:
    """AdamW over the parameters that learn; biases, norms, embeddings and the perceiver's latents are not decayed.

    Args:
        model: whose parameters to update.
        learning_rate, weight_decay: of AdamW.
        kind: fused moves 28 bytes a parameter and step where the plain loop moves about 80; 8-bit keeps the moments in
            2 bytes a parameter; offloaded keeps them in the machine's memory.
    """
    kinds: dict[OptimizerKind, Callable[..., PlainAdamW]] = {
        "fused": FusedAdamW,
        "8-bit": AdamW8bit,
        "offloaded": OffloadedAdamW,
    }
    return kinds[kind](_groups(model, weight_decay), lr=learning_rate, betas=BETAS, eps=EPS, rests=rests_of(model))


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameters that are decayed and those that are not."""
    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    undecayed = {id(parameter) for embedding in embeddings for parameter in embedding.parameters()}
    decay: list[nn.Parameter] = []
    keep: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        plain = parameter.ndim < 2 or id(parameter) in undecayed or name.endswith("perceiver.latents")
        (keep if plain else decay).append(parameter)
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": keep, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def make_schedule(
    optimizer: torch.optim.Optimizer, schedule: Schedule, *, warmup_steps: int, total_steps: int
) -> LambdaLR:
    """The learning rate by optimizer step: up linearly, then down as `schedule` says, to zero after the last step."""
    return LambdaLR(optimizer, LrSchedule(schedule, warmup_steps=warmup_steps, total_steps=max(total_steps, 1)))


def set_schedule(schedule: LambdaLR, step: int) -> None:
    """Give the optimizer the learning rate of a step: from the settings and the step alone, never from what was saved.

    A run that resumes with more epochs or another learning rate is then where it would be had it begun with them.
    """
    schedule.last_epoch = step
    rates = [rate * shape(step) for rate, shape in zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)]
    for group, rate in zip(schedule.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    schedule._last_lr = rates


def extend_schedule(schedule: LambdaLR, *, total_steps: int) -> None:
    """Let a schedule end at another step than it was made for."""
    shapes = [shape for shape in schedule.lr_lambdas if isinstance(shape, LrSchedule)]
    schedule.lr_lambdas = [replace(shape, total_steps=max(total_steps, 1)) for shape in shapes]
    set_schedule(schedule, schedule.last_epoch)
