"""AdamW over the trained parameters, and the LR schedules."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from utils.schedules import LrSchedule, Schedule

BETAS = (0.9, 0.96)
"""coqui-tts' XTTS recipe."""
EPS = 1e-8


def make_optimizer(model: nn.Module, *, learning_rate: float, weight_decay: float, kind: str = "AdamW") -> Optimizer:
    """AdamW over the parameters that learn; biases, norms, embeddings and the perceiver's latents are not decayed.

    Args:
        model: whose parameters to update.
        learning_rate, weight_decay: of AdamW.
        kind: AdamW is torch's, fused: it moves 28 bytes a parameter and step where the plain loop moves about 80.
            AdamW8bit, PagedAdamW and PagedAdamW8bit are bitsandbytes': moments in 8 bits, or in memory that moves to
            the machine's when the GPU is full.
    """
    groups, betas = _groups(model, weight_decay), BETAS
    if kind == "AdamW":
        return AdamW(groups, lr=learning_rate, betas=betas, eps=EPS, fused=True)
    made: Optimizer = getattr(import_module("bitsandbytes.optim"), kind)(groups, lr=learning_rate, betas=betas, eps=EPS)
    return made


def optimizer_problem(kind: str, device: torch.device) -> str | None:
    """Why bitsandbytes cannot update parameters on a device, from a trial update; None where it can."""
    if device.type != "cuda":
        return "8-bit AdamW needs a CUDA GPU; use LoRA" if "8bit" in kind else "paged AdamW needs a CUDA GPU"
    try:
        layer = nn.Linear(128, 128, device=device)
        layer(torch.ones(1, 128, device=device)).sum().backward()
        make_optimizer(layer, learning_rate=1e-3, weight_decay=0.0, kind=kind).step()
    except ImportError:
        return "bitsandbytes is not installed; run pip install -r requirements-8bit.txt"
    except Exception as error:  # noqa: BLE001 - whatever a package for another CUDA raises is the reason.
        return f"bitsandbytes does not work on this GPU: {error}"
    return None


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's tensors under `parameter/key` names: the order of parameter groups then does not matter."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        f"{names[id(parameter)]}/{key}": value if isinstance(value, Tensor) else torch.tensor(float(value))
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
        # bitsandbytes' tables of levels: the same for all parameters.
        if not key.startswith("qmap")
    }


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
