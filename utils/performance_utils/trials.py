"""Try what only a GPU has once, on a small input, before something relies on it."""

import logging
from collections.abc import Callable

import torch
from torch import nn

log = logging.getLogger(__name__)

SIDE = 64
"""Positions and width of what is tried: as the head of an XTTS GPT."""


def trial(work: Callable[[], object]) -> str:
    """Why a piece of work fails on the GPU, in a line; empty where it works."""
    try:
        # What a run draws must not depend on what was tried before it.
        with torch.random.fork_rng():
            work()
        # Kernels fail after the call that launches them.
        torch.cuda.synchronize()
    # A driver, a compiler or a package built for another GPU may say so in any way.
    except Exception as error:
        log.debug("a trial failed", exc_info=True)
        return (str(error).splitlines() or [type(error).__name__])[0]
    return ""


def pinning_fault() -> str:
    """Why this machine has no page-locked memory, from which a GPU copies while it computes; empty where it has."""
    return trial(lambda: torch.empty(SIDE).pin_memory())


def half_precision_fault(device: torch.device, dtype: torch.dtype) -> str:
    """Why this GPU cannot compute and learn in half precision; empty where it can."""
    return trial(lambda: half_precision(device, dtype))


def half_precision(device: torch.device, dtype: torch.dtype) -> None:
    """A layer, its loss and its gradients in half precision."""
    layer, scaler = nn.Linear(SIDE, SIDE, device=device), torch.amp.GradScaler(device.type)
    with torch.autocast(device.type, dtype=dtype):
        loss = layer(torch.ones(SIDE, SIDE, device=device)).float().mean()
    scaler.scale(loss).backward()
    assert layer.weight.grad is not None and bool(layer.weight.grad.isfinite().all()), "gradients are not finite"
