"""What training a DVAE, a speaker encoder and a decoder share: the LR schedule, and resuming."""

import math
from pathlib import Path

import torch

FLOOR = 0.02


Stateful = torch.nn.Module | torch.optim.Optimizer


def learning_rate_share(step: int, *, steps: int, warmup_steps: int) -> float:
    """Share of the peak learning rate at `step`: a linear warm-up, then half a cosine down to `FLOOR`."""
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    done = (step - warmup_steps) / max(1, steps - warmup_steps)
    return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Give every group of `optimizer` this learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


def save_progress(path: Path, step: int, **parts: Stateful) -> None:
    """Write the states of `parts` after `step` optimizer steps; a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    torch.save({"step": step} | {name: part.state_dict() for name, part in parts.items()}, unfinished)
    unfinished.replace(path)


def load_progress(path: Path, **parts: Stateful) -> int:
    """Put the saved states into `parts`; returns the steps already done, 0 when there is no file."""
    if not path.is_file():
        return 0
    saved = torch.load(path, weights_only=True, map_location="cpu")
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    return int(saved["step"])
