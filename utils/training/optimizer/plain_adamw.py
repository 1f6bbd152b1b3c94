"""What our AdamW variants share: hyperparameters, which parameters a step updates, and weights in two halves."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.adamw import adamw

from utils.model.split_weights import join, split_into

Scale = float | Tensor
"""What gradients are multiplied by: 1, or less where they are clipped. A tensor is on their device."""

CPU_CHUNK, GPU_CHUNK = 2**18, 2**24
"""Values that are in float32 at a time: on a CPU as many as stay in its cache. Multiples of 64 values, so that a fused
update takes the same vectors as of the whole."""


class PlainAdamW(Optimizer, ABC):
    """An AdamW that says for itself how it keeps its moments.

    Args:
        params: parameters or groups of them, float32, or bfloat16 where `rests` has their other half.
        lr, betas, eps, weight_decay: as of torch.optim.AdamW.
        rests: lower halves of parameters (see `utils.model.split_weights`).
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        rests: Mapping[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.rests = dict(rests or {})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None, *, scale: Scale = 1.0) -> None:  # type: ignore[override]
        """One update of all parameters that have a gradient."""
        assert closure is None, "the gradients are there already"
        for group in self.param_groups:
            live = [parameter for parameter in group["params"] if parameter.grad is not None]
            if live:
                self.update(live, group, scale)

    @abstractmethod
    def update(self, parameters: list[Tensor], group: dict[str, Any], scale: Scale) -> None:
        """Move these parameters of one group, all of which have a gradient; it may be changed."""

    def _parts(self, parameter: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """A parameter part by part: where, its weights to be moved in place and its gradient, flat, float32."""
        assert parameter.grad is not None
        rest = self.rests.get(parameter)
        weights, gradient = parameter.view(-1), parameter.grad.reshape(-1)
        size = (CPU_CHUNK if rest is not None else len(weights)) if parameter.device.type == "cpu" else GPU_CHUNK
        for first in range(0, len(weights), size):
            part = slice(first, min(first + size, len(weights)))
            if rest is None:
                yield part, weights[part], gradient[part]
                continue
            whole = join(weights[part], rest.view(-1)[part])
            yield part, whole, gradient[part].float()
            split_into(whole, weights[part], rest.view(-1)[part])


def scaled(gradient: Tensor, scale: Scale) -> Tensor:
    """A gradient times a number, in place."""
    return gradient if isinstance(scale, float) and scale == 1 else gradient.mul_(scale)


class FusedAdamW(PlainAdamW):
    """torch.optim.AdamW with its fused update, bit for bit, which moves about 28 bytes a parameter and step."""

    def update(self, parameters: list[Tensor], group: dict[str, Any], scale: Scale) -> None:
        states = {parameter: self._state_of(parameter) for parameter in parameters}
        whole = {parameter: state for parameter, state in states.items() if parameter not in self.rests}
        gradients = [parameter.grad for parameter in whole if parameter.grad is not None]
        if whole:
            if not (isinstance(scale, float) and scale == 1):
                torch._foreach_mul_(gradients, scale)
            fused_update(list(whole), gradients, list(whole.values()), group)
        for parameter, state in states.items():
            if parameter in whole:
                continue
            moments = state["exp_avg"].view(-1), state["exp_avg_sq"].view(-1)
            for part, weights, gradient in self._parts(parameter):
                # The kernel counts the step: once for all parts.
                of_part = {"step": state["step"].clone(), "exp_avg": moments[0][part], "exp_avg_sq": moments[1][part]}
                fused_update([weights], [scaled(gradient, scale)], [of_part], group)
            state["step"] += 1

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            # The kernel reads the step where the parameter is.
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter, dtype=torch.float32)
            state["exp_avg_sq"] = torch.zeros_like(parameter, dtype=torch.float32)
        return state


def fused_update(
    weights: list[Tensor], gradients: list[Tensor], states: list[dict[str, Tensor]], group: dict[str, Any]
) -> None:
    """torch's fused AdamW of tensors with these states, which need not be parameters; it adds 1 to each step."""
    adamw(
        weights,
        gradients,
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
        [],
        [state["step"] for state in states],
        fused=True,
        amsgrad=False,
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=False,
    )
