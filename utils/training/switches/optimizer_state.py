"""8-bit and paged AdamW: how the optimizer's moments are kept."""

from functools import partial

import torch

from utils.config import TrainConfig
from utils.training.switches.base import MB, Behavior, Off, Seen, Trace
from utils.training.switches.optim import optimizer_problem


def _resolve(kind: str, asked: TrainConfig, device: torch.device) -> bool | Off:
    return Off(problem) if (problem := optimizer_problem(kind, device)) else True


def _eight_bit(trace: Trace) -> Seen:
    tensors = _moments(trace)
    dtypes = sorted({str(value.dtype).removeprefix("torch.") for value in tensors})
    num_bytes = sum(value.nbytes for value in tensors)
    observed = f"moments in {' and '.join(dtypes) or 'nothing yet'}, {num_bytes / MB:.1f} MB"
    return Seen(any(value.dtype == torch.uint8 for value in tensors), observed)


def _paged(trace: Trace) -> Seen:
    tensors = _moments(trace)
    paged = sum(value.nbytes for value in tensors if getattr(value, "is_paged", False))
    return Seen(paged > 0, f"{paged / MB:.1f} of {sum(value.nbytes for value in tensors) / MB:.1f} MB of moments paged")


def _moments(trace: Trace) -> list[torch.Tensor]:
    values = (value for state in trace.optimizer.state.values() for value in state.values())
    return [value for value in values if isinstance(value, torch.Tensor) and value.ndim]


# Applied where the optimizer is made: see `Optimizations.make_optimizer`.
EIGHT_BIT = Behavior(resolve=partial(_resolve, "AdamW8bit"), observe=_eight_bit)
PAGED = Behavior(resolve=partial(_resolve, "PagedAdamW"), observe=_paged)
