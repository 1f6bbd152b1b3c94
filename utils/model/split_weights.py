"""Weights of matrix products in two halves: bfloat16 to compute with, and the other 16 bits of their float32 beside.

Autocast makes a bfloat16 copy of each float32 weight in each forward pass and keeps it for the backward pass: 2 bytes
a weight more, and the time to make them. Here the copy is the upper half of the weight itself, rounded to the nearest.
Both halves together are the float32 weight exactly, in the same 4 bytes. `state_dict` gives, and `load_state_dict`
takes, float32: what is saved does not show that a weight was split.

A weight in the middle between two bfloat16 values, one of 65,536, is rounded up where a cast takes the even one.
"""

from typing import Any

import torch
from torch import Tensor, nn

from utils.model.gpt import Conv1D

REST = "weight_rest"
"""Buffer of a layer whose weight is split."""


def split_weights(model: nn.Module) -> None:
    """Split, in place, the weights of all layers that autocast computes in half precision."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv1d | Conv1D):
            weight = layer.weight
            rest = torch.empty_like(weight, dtype=torch.int16)
            upper = torch.empty_like(weight, dtype=torch.bfloat16)
            split_into(weight.detach(), upper, rest)
            weight.data = upper
            layer.register_buffer(REST, rest, persistent=False)
            layer.register_state_dict_post_hook(_give_whole)
            layer.register_load_state_dict_pre_hook(_take_whole)


def rests_of(model: nn.Module) -> dict[Tensor, Tensor]:
    """The lower halves of a model's split weights, int16, by parameter."""
    layers = [layer for layer in model.modules() if REST in layer._buffers]
    return {layer.get_parameter("weight"): layer.get_buffer(REST) for layer in layers}


def join(upper: Tensor, rest: Tensor) -> Tensor:
    """The float32 values of both halves."""
    return upper.view(torch.int16).int().bitwise_left_shift_(16).add_(rest).view(torch.float32)


def split_into(whole: Tensor, upper: Tensor, rest: Tensor) -> None:
    """Write float32 values as bfloat16 `upper` and int16 `rest`, so that `join` gives them back."""
    bits = whole.contiguous().view(torch.int32)
    # Half of the last place that stays: adding it rounds to the nearest, and what was beyond becomes negative.
    high = (bits + 0x8000).bitwise_right_shift_(16)
    upper.view(torch.int16).copy_(high)
    rest.copy_(bits - high.bitwise_left_shift_(16))


def _give_whole(layer: nn.Module, state: dict[str, Tensor], prefix: str, metadata: Any) -> None:
    # On the processor: a GPU that needs this has no room for all weights once more.
    state[f"{prefix}weight"] = join(layer.get_parameter("weight").detach().cpu(), layer.get_buffer(REST).cpu())


def _take_whole(layer: nn.Module, state: dict[str, Tensor], prefix: str, *others: Any) -> None:
    weight = state.get(f"{prefix}weight")
    if weight is not None and weight.shape == layer.get_parameter("weight").shape:
        upper, rest = torch.empty_like(weight, dtype=torch.bfloat16), torch.empty_like(weight, dtype=torch.int16)
        split_into(weight.detach().float(), upper, rest)
        layer.get_buffer(REST).copy_(rest)
        state[f"{prefix}weight"] = upper
