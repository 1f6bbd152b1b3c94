"""AdamW with 8-bit moments: about 2 bytes per parameter instead of 8.

Source: Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization": each block of values is scaled by its
largest, and each value becomes one of 256 that lie densely around zero. The update itself is in float32.

The update is written three times, tested against each other: here in operations of PyTorch, which any device has, in
`adamw8bit_cpu` as one pass over memory, and in `adamw8bit_cuda` as one kernel for all parameters.
"""

from typing import Any

import torch
from torch import Tensor

from utils.training.optimizer.levels import BLOCK, dequantize, quantize, rows_of
from utils.training.optimizer.plain_adamw import PlainAdamW, Scale, scaled
from utils.training.optimizer.triton import triton_problem

MOMENTS = ("exp_avg", "exp_avg_sq")
"""Names of the moments in a parameter's state."""
SMALLEST = 4_096
"""Smaller parameters keep float32 moments: they are few bytes, and norms and biases are the most sensitive."""


class AdamW8bit(PlainAdamW):
    """AdamW whose state holds `exp_avg` and `exp_avg_sq` as uint8 codes with a float32 scale for each block.

    Args:
        params: parameters or groups of them, float32.
        lr, betas, eps, weight_decay: as of torch.optim.AdamW.
    """

    num_kernels = 0
    """Of the last update of a group on a GPU, one for all parameters that are kept alike; 0 without Triton."""

    def update(self, parameters: list[Tensor], group: dict[str, Any], scale: Scale) -> None:
        for parameter in parameters:
            state: dict[str, Tensor] = self.state[parameter]
            if not state:
                state |= _empty_state(parameter)
            state["step"] += 1
        device = parameters[0].device
        if device.type == "cuda" and triton_problem(device) is None:
            from utils.training.optimizer.adamw8bit_cuda import update_all

            self.num_kernels = update_all(parameters, self.state, self.rests, group, scale)
            return
        for parameter in parameters:
            state = self.state[parameter]
            for part, weights, gradient in self._parts(parameter):
                if device.type == "cpu" and is_quantized(parameter):
                    from utils.training.optimizer.adamw8bit_cpu import update_blocks

                    done = update_blocks(weights, gradient, state, part, group, float(scale))
                    rest = slice(part.start + done, part.stop)
                    if rest.start < rest.stop:
                        update_part(weights[done:], scaled(gradient[done:], scale), state, rest, group)
                else:
                    update_part(weights, scaled(gradient, scale), state, part, group)


def update_part(
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


def _read(state: dict[str, Tensor], name: str, part: slice, *, signed: bool) -> Tensor:
    """Values of the moment in float32."""
    if name in state:
        return state[name].view(-1)[part]
    codes, scales = (state[f"{name}_{kind}"][rows_of(part)] for kind in ("codes", "scales"))
    return dequantize(codes, scales, signed=signed)[: part.stop - part.start]


def _write(state: dict[str, Tensor], name: str, part: slice, moment: Tensor, *, signed: bool) -> None:
    # Exact moments were changed where they lie.
    if name not in state:
        codes, scales = quantize(moment, signed=signed)
        state[f"{name}_codes"][rows_of(part)] = codes
        state[f"{name}_scales"][rows_of(part)] = scales
