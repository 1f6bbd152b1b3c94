"""AdamW with 8-bit moments: about 2 bytes per parameter instead of 8, in plain PyTorch on any device.

Source: Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization": each block of values is scaled by its
largest, and each value becomes the nearest of 256 that lie densely around zero. The update itself is in float32.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.training.optimizer.plain_adamw import PlainAdamW, Scale

BLOCK = 256
"""Values that share a scale; the paper's 2,048 in later practice became 256."""
SMALLEST = 4_096
"""Smaller parameters keep float32 moments: they are few bytes, and norms and biases are the most sensitive."""
KEPT_BITS, LOST_BITS = 20, 12
"""A float32 is identified by its sign, exponent and 11 bits behind the point."""
MOMENTS = ("exp_avg", "exp_avg_sq")
DECADES = 7
"""Powers of ten that the 256 values span below 1."""


class AdamW8bit(PlainAdamW):
    """AdamW whose state holds `exp_avg` and `exp_avg_sq` as uint8 codes with a float32 scale for each block.

    Args:
        params: parameters or groups of them, float32.
        lr, betas, eps, weight_decay: as of torch.optim.AdamW.
    """

    def update(self, parameters: list[Tensor], group: dict[str, Any], scale: Scale) -> None:
        for parameter in parameters:
            state: dict[str, Tensor] = self.state[parameter]
            if not state:
                state |= _empty_state(parameter)
            state["step"] += 1
            for part, weights, gradient in self._parts(parameter, scale):
                _update_part(weights, gradient, state, part, group)


def _update_part(
    weights: Tensor, gradient: Tensor, state: dict[str, Tensor], part: slice, group: dict[str, Any]
) -> None:
    """Move these values of a parameter, from a block's first on."""
    step, (beta1, beta2) = int(state["step"]), group["betas"]
    mean = _read(state, "exp_avg", part, signed=True).lerp_(gradient, 1 - beta1)
    square = _read(state, "exp_avg_sq", part, signed=False).mul_(beta2)
    square.addcmul_(gradient, gradient, value=1 - beta2)
    denominator = (square / (1 - beta2**step)).sqrt_().add_(group["eps"])
    weights.mul_(1 - group["lr"] * group["weight_decay"])
    weights.addcdiv_(mean, denominator, value=-group["lr"] / (1 - beta1**step))
    _write(state, "exp_avg", part, mean, signed=True)
    _write(state, "exp_avg_sq", part, square, signed=False)


def is_quantized(parameter: Tensor) -> bool:
    """Whether a parameter is large enough for its moments to be kept in 8 bits."""
    return parameter.numel() >= SMALLEST


def _empty_state(parameter: Tensor) -> dict[str, Tensor]:
    """Moments of zero."""
    state = {"step": torch.zeros((), dtype=torch.float32)}
    if not is_quantized(parameter):
        return state | {name: torch.zeros_like(parameter, dtype=torch.float32) for name in MOMENTS}
    count, device = -(-parameter.numel() // BLOCK), parameter.device
    for name in MOMENTS:
        state[f"{name}_codes"] = torch.zeros(count, BLOCK, dtype=torch.uint8, device=device)
        state[f"{name}_scales"] = torch.zeros(count, 1, device=device)
    return state


def _rows(part: slice) -> slice:
    """The blocks that hold these values."""
    return slice(part.start // BLOCK, -(-part.stop // BLOCK))


def _read(state: dict[str, Tensor], name: str, part: slice, *, signed: bool) -> Tensor:
    """Values of the moment in float32."""
    if name in state:
        return state[name].view(-1)[part]
    codes, scales = (state[f"{name}_{kind}"][_rows(part)] for kind in ("codes", "scales"))
    return dequantize(codes, scales, signed=signed)[: part.stop - part.start]


def _write(state: dict[str, Tensor], name: str, part: slice, moment: Tensor, *, signed: bool) -> None:
    # Exact moments were changed where they lie.
    if name not in state:
        codes, scales = quantize(moment, signed=signed)
        state[f"{name}_codes"][_rows(part)] = codes
        state[f"{name}_scales"][_rows(part)] = scales


def quantize(values: Tensor, *, signed: bool) -> tuple[Tensor, Tensor]:
    """Codes and scales of values of any shape.

    A code is looked up by the value's upper 20 bits: ten times as fast as searching among the levels. Values within
    half a thousandth of the middle between two levels may get either.

    Returns:
        uint8 codes [K, BLOCK], the last block filled up with zeros, and the largest magnitude of each block, [K, 1].
    """
    flat = values.flatten()
    blocks = F.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
    scales = blocks.abs().amax(dim=1, keepdim=True)
    shares = blocks / scales.clamp_min(torch.finfo(torch.float32).tiny)
    keys = shares.view(torch.int32).bitwise_right_shift(LOST_BITS).bitwise_and_(2**KEPT_BITS - 1)
    return _codes(signed, values.device).index_select(0, keys.view(-1)).view(-1, BLOCK), scales


def dequantize(codes: Tensor, scales: Tensor, *, signed: bool) -> Tensor:
    """Float32 values of `quantize`'s codes, flat, with what the last block was filled up with."""
    values = _levels(signed, codes.device).index_select(0, codes.flatten().int()).view_as(codes)
    return values.mul_(scales).flatten()


@cache
def _codes(signed: bool, device: torch.device) -> Tensor:
    """The code of each float32 from -1 to 1 by its upper KEPT_BITS bits, [2**KEPT_BITS], uint8."""
    upper = torch.arange(2**KEPT_BITS, dtype=torch.int64)
    upper = torch.where(upper < 2 ** (KEPT_BITS - 1), upper, upper - 2**KEPT_BITS)
    # The float in the middle of those that share these bits; those beyond 1 do not occur.
    values = ((upper << LOST_BITS) + 2 ** (LOST_BITS - 1)).int().view(torch.float32).nan_to_num(0.0)
    levels = _levels(signed, torch.device("cpu"))
    codes = torch.bucketize(values, (levels[1:] + levels[:-1]) / 2)
    if not signed:
        # A second moment must not vanish beside its block's largest: the update would be divided by eps alone.
        codes = codes.clamp_min(1)
    return codes.to(torch.uint8).to(device)


@cache
def _levels(signed: bool, device: torch.device) -> Tensor:
    """The 256 values that codes stand for, ascending, float32 (the paper's dynamic tree quantization)."""
    values = [0.0, 1.0]
    for decade in range(DECADES):
        # A value's leading bits give its decade, the others the step in it; unsigned values have a bit more for that.
        count = 2**decade if signed else 2 ** (decade + 1)
        cu_seqlens = torch.linspace(0.1, 1.0, count + 1, dtype=torch.float64)
        middles = ((cu_seqlens[1:] + cu_seqlens[:-1]) / 2 * 10.0 ** (decade - DECADES + 1)).tolist()
        values += middles + ([-value for value in middles] if signed else [])
    return torch.tensor(sorted(values), dtype=torch.float32, device=device)
