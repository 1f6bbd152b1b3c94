"""AdamW whose moments live in the machine's memory: the GPU holds weights and gradients only."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from utils.training.plain_adamw import PlainAdamW


class OffloadedAdamW(PlainAdamW):
    """The same update as fused AdamW, computed by the processor on copies of weights and gradients.

    A step moves 8 bytes a parameter from the GPU (weights and gradients) and 4 back. Parameters may lie on any
    device, the processor's included.

    Args:
        params: parameters or groups of them, float32.
        lr, betas, eps, weight_decay: as of torch.optim.AdamW.
    """

    def _update(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        states = [self._state_of(parameter) for parameter in parameters]
        weights = [parameter.detach().to("cpu") for parameter in parameters]
        gradients = [parameter.grad.detach().to("cpu", torch.float32) for parameter in parameters]  # type: ignore[union-attr]
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
        for parameter, weight in zip(parameters, weights, strict=True):
            # On a CPU the copy is the parameter itself, and this copies nothing.
            parameter.copy_(weight)

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        for name, value in state.items():
            # A checkpoint's moments were put where the parameter is.
            state[name] = value.to("cpu")
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"] = torch.zeros(parameter.shape, dtype=torch.float32)
            state["exp_avg_sq"] = torch.zeros(parameter.shape, dtype=torch.float32)
        return state
