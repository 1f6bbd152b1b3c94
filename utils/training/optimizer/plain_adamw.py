"""What our AdamW variants share: hyperparameters, and which parameters a step updates."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class PlainAdamW(Optimizer, ABC):
    """An AdamW that says for itself how it keeps its moments.

    Args:
        params: parameters or groups of them, float32.
        lr, betas, eps, weight_decay: as of torch.optim.AdamW.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of all parameters that have a gradient."""
        assert closure is None, "the gradients are there already"
        for group in self.param_groups:
            live = [parameter for parameter in group["params"] if parameter.grad is not None]
            if live:
                self._update(live, group)

    @abstractmethod
    def _update(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        """Move these parameters of one group."""
