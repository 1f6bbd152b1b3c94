"""Gradient release: each parameter is updated inside the backward pass, as soon as its gradient is there.

A gradient is then freed before the next one is computed: a step holds those of one layer instead of all. What it costs
is that the gradients' norm is known only when they are gone. They are clipped by the largest of three numbers that are
known: the norm of the step before, the norm of this step's gradients so far, and the limit. A run's first step has no
step before it: its backward pass runs twice, the first time for the norm alone, so that it is clipped exactly.

Source of the update inside the backward pass: Lv et al. 2023, "Full Parameter Fine-tuning for Large Language Models
with Limited Resources"; the bounds are ours.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor

from utils.training.optimizer.plain_adamw import PlainAdamW


class GradientRelease:
    """Lets an optimizer update its parameters inside the backward pass.

    Gradients outside of `measure` and `update` are left alone.

    Args:
        optimizer: of all parameters that learn; its learning rates are read in each backward pass.
        clip_norm: gradients are scaled down to this L2 norm.
    """

    def __init__(self, optimizer: PlainAdamW, clip_norm: float) -> None:
        self._optimizer = optimizer
        self._clip_norm = clip_norm
        self._groups: dict[Tensor, dict[str, Any]] = {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._groups[parameter] = group
                parameter.register_post_accumulate_grad_hook(self._arrived)
        self._pass: Literal["", "measure", "update"] = ""
        self._square = torch.zeros(())
        self.last_norm: float | None = None
        """L2 norm of the gradients of the last step that was finite; None before a run's first."""
        self.num_released = 0
        """Gradients that were freed inside the last backward pass."""
        self.most_bytes = 0
        """Largest gradient of the last backward pass."""

    @property
    def num_parameters(self) -> int:
        """Tensors that learn."""
        return len(self._groups)

    @property
    def norm(self) -> Tensor:
        """L2 norm of the last backward pass's gradients before clipping, a scalar on the device."""
        return self._square.sqrt()

    def note(self, norm: float) -> None:
        """The norm of a step that has ended; one that is not finite clips nothing."""
        if math.isfinite(norm):
            self.last_norm = norm

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Around a backward pass that moves nothing: its gradients are freed once they are counted in `norm`."""
        with self._backward("measure"):
            yield

    @contextmanager
    def update(self) -> Iterator[None]:
        """Around the backward pass of a step.

        From the first gradient on that is not finite, all count as zero; `norm` is not finite then either.
        """
        assert self.last_norm is not None, "the first step is measured before"
        with self._backward("update"):
            yield

    @contextmanager
    def _backward(self, name: Literal["measure", "update"]) -> Iterator[None]:
        device = next(iter(self._groups)).device
        self._pass, self._square = name, torch.zeros((), device=device)
        self.num_released = self.most_bytes = 0
        try:
            yield
        finally:
            self._pass = ""

    @torch.no_grad()
    def _arrived(self, parameter: Tensor) -> None:
        if not self._pass:
            return
        gradient = parameter.grad
        assert gradient is not None
        self._square = self._square + torch.linalg.vector_norm(gradient, dtype=torch.float32).square()
        if self._pass == "update":
            self._optimizer.update([parameter], self._groups[parameter], self._scale(gradient))
        self.num_released += 1
        self.most_bytes = max(self.most_bytes, gradient.nbytes)
        parameter.grad = None

    def _scale(self, gradient: Tensor) -> Tensor:
        """What to multiply a gradient with, found on the device and without asking it."""
        assert self.last_norm is not None
        # Never more than exact clipping allows: the norm so far is at most that of all gradients.
        known = self.norm.clamp_min(max(self.last_norm, self._clip_norm))
        # Zero times what is not a number would not be zero.
        gradient.nan_to_num_(0, 0, 0)
        return torch.where(known.isfinite(), self._clip_norm / known, 0)
