"""Weights of matrix products in two halves: bfloat16 to compute with, and the other 16 bits of their float32 beside.

Autocast makes a bfloat16 copy of each float32 weight in each forward pass and keeps it for the backward pass: 2 bytes
a weight more, and the time to make them. Here the copy is the upper half of the weight itself, rounded to the nearest.
Both halves together are the float32 weight exactly, in the same 4 bytes. `state_dict` gives, and `load_state_dict`
takes, float32: what is saved does not show that a weight was split.

A weight that does not learn is read nowhere but in its upper half. Its other half is needed where the model is saved,
so it stays in the machine's memory when the model moves to a GPU. With LoRA these are nearly all weights.

A weight in the middle between two bfloat16 values, one of 65,536, is rounded up where a cast takes the even one.
"""

from typing import Any

import torch
from torch import Tensor, nn

from utils.model.gpt import Conv1D
from utils.model.lora import AddedRows, has_lora

REST = "weight_rest"
"""Buffer of a layer whose weight is split and learns; an attribute where it does not learn."""


def split_weights(model: nn.Module) -> None:
    """Split, in place, the weights of all layers that autocast computes in half precision; with LoRA, of frozen ones.

    Args:
        model: frozen, and with its LoRA additions, where it is to be.
    """
    is_low_rank = has_lora(model)
    for layer in model.modules():
        # Layers that LoRA adds to are of transformers' own class of the same name.
        is_product = isinstance(layer, nn.Linear | nn.Conv1d) or type(layer).__name__ == Conv1D.__name__
        if not is_product or isinstance(layer, AddedRows):
            continue
        weight = layer.get_parameter("weight")
        if not (is_low_rank and weight.requires_grad):
            rest = torch.empty_like(weight, dtype=torch.int16)
            upper = torch.empty_like(weight, dtype=torch.bfloat16)
            split_into(weight.detach(), upper, rest)
            weight.data = upper
            if weight.requires_grad:
                layer.register_buffer(REST, rest, persistent=False)
            else:
                setattr(layer, REST, rest)
            layer.register_state_dict_post_hook(_give_whole)
            layer.register_load_state_dict_pre_hook(_take_whole)


def rests_of(model: nn.Module) -> dict[Tensor, Tensor]:
    """The lower halves of a model's split weights that learn, int16, by parameter."""
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
    state[f"{prefix}weight"] = join(layer.get_parameter("weight").detach().cpu(), getattr(layer, REST).cpu())


def _take_whole(layer: nn.Module, state: dict[str, Tensor], prefix: str, *others: Any) -> None:
    weight = state.get(f"{prefix}weight")
    if weight is not None and weight.shape == layer.get_parameter("weight").shape:
        upper, rest = torch.empty_like(weight, dtype=torch.bfloat16), torch.empty_like(weight, dtype=torch.int16)
        split_into(weight.detach().float(), upper, rest)
        getattr(layer, REST).copy_(rest)
        state[f"{prefix}weight"] = upper
