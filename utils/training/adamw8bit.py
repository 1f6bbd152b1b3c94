"""AdamW with moments in 8 bits: about 2 bytes a parameter instead of 8, in plain PyTorch on any device.

Source: Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization": each block of values is scaled by its
largest, and each value becomes the nearest of 256 that lie densely around zero. The update itself is in float32.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.training.plain_adamw import PlainAdamW

BLOCK = 256
"""Values that share a scale; the paper's 2,048 in later practice became 256."""
SMALLEST = 4_096
"""Smaller parameters keep float32 moments: they are few bytes, and norms and biases are the most sensitive."""
DECADES = 7
"""Powers of ten that the 256 values span below 1."""


class AdamW8bit(PlainAdamW):
    """AdamW whose state holds `exp_avg` and `exp_avg_sq` as uint8 codes with a float32 scale for each block.

    Args:
        params: parameters or groups of them, float32.
        lr, betas, eps, weight_decay: as of torch.optim.AdamW.
    """

    def _update(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        # One parameter at a time is in float32.
        for parameter in parameters:
            self._update_one(parameter, group)

    def _update_one(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state: dict[str, Tensor] = self.state[parameter]
        state.setdefault("step", torch.zeros((), dtype=torch.float32))
        state["step"] += 1
        step = int(state["step"])
        gradient, (beta1, beta2) = parameter.grad, group["betas"]
        assert gradient is not None
        mean = _read(state, "exp_avg", parameter, signed=True).lerp_(gradient, 1 - beta1)
        square = _read(state, "exp_avg_sq", parameter, signed=False).mul_(beta2)
        square.addcmul_(gradient, gradient, value=1 - beta2)
        denominator = (square / (1 - beta2**step)).sqrt_().add_(group["eps"])
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.addcdiv_(mean, denominator, value=-group["lr"] / (1 - beta1**step))
        _write(state, "exp_avg", mean, signed=True)
        _write(state, "exp_avg_sq", square, signed=False)


def _read(state: dict[str, Tensor], name: str, parameter: Tensor, *, signed: bool) -> Tensor:
    """The moment in float32, of the parameter's shape; zeros at the first step."""
    if name in state:
        return state[name]
    if f"{name}_codes" not in state:
        return torch.zeros_like(parameter, dtype=torch.float32)
    return dequantize(state[f"{name}_codes"], state[f"{name}_scales"], signed=signed)[: parameter.numel()].view_as(
        parameter
    )


def _write(state: dict[str, Tensor], name: str, moment: Tensor, *, signed: bool) -> None:
    if moment.numel() < SMALLEST:
        state[name] = moment
        return
    state[f"{name}_codes"], state[f"{name}_scales"] = quantize(moment, signed=signed)


def quantize(values: Tensor, *, signed: bool) -> tuple[Tensor, Tensor]:
    """Codes and scales of values of any shape.

    Returns:
        uint8 codes [K, BLOCK], the last block filled up with zeros, and the largest magnitude of each block, [K, 1].
    """
    flat = values.flatten()
    blocks = F.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
    scales = blocks.abs().amax(dim=1, keepdim=True)
    levels = _levels(signed, values.device)
    middles = (levels[1:] + levels[:-1]) / 2
    codes = torch.bucketize(blocks / scales.clamp_min(torch.finfo(torch.float32).tiny), middles, out_int32=True)
    if not signed:
        # A second moment must not vanish beside its block's largest: the update would be divided by eps alone.
        codes = codes.clamp_min(1)
    return codes.to(torch.uint8), scales


def dequantize(codes: Tensor, scales: Tensor, *, signed: bool) -> Tensor:
    """Float32 values of `quantize`'s codes, flat, with what the last block was filled up with."""
    return (_levels(signed, codes.device)[codes.int()] * scales).flatten()


@cache
def _levels(signed: bool, device: torch.device) -> Tensor:
    """The 256 values that codes stand for, ascending, float32 (the paper's dynamic tree quantization)."""
    values = [0.0, 1.0]
    for decade in range(DECADES):
        # A value's leading bits tell its decade, the others where in it; unsigned values have a bit more for that.
        count = 2**decade if signed else 2 ** (decade + 1)
        borders = torch.linspace(0.1, 1.0, count + 1, dtype=torch.float64)
        middles = ((borders[1:] + borders[:-1]) / 2 * 10.0 ** (decade - DECADES + 1)).tolist()
        values += middles + ([-value for value in middles] if signed else [])
    return torch.tensor(sorted(values), dtype=torch.float32, device=device)
