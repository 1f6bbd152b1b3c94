"""Activation checkpointing of one block: store all activations, only the expensive ones, or recompute them all."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from utils.options import Checkpointing

_SAVED_NAMES = (
    "aten.mm",
    "aten.addmm",
    "aten.bmm",
    "aten._scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_flash_attention_for_cpu",
    "aten._scaled_dot_product_efficient_attention",
    "aten._scaled_dot_product_cudnn_attention",
    "aten._flash_attention_forward",
    "flash_attn._flash_attn_varlen_forward",
)
"""Operations whose outputs selective checkpointing keeps: matrix products and attention; the rest is cheap to redo."""


def saved_operations() -> list[Any]:
    """The operations of `_SAVED_NAMES` that this torch has."""
    found = []
    for name in _SAVED_NAMES:
        space, operation = name.split(".")
        packet = getattr(getattr(torch.ops, space), operation, None)
        if packet is not None:
            found.append(packet.default)
    return found


def run_checkpointed(mode: Checkpointing, block: Callable[..., Any], *inputs: Any, keep_rng: bool = False) -> Any:
    """The block's output, with what its backward pass needs kept or recomputed as `mode` says.

    Args:
        mode: none keeps all; selective keeps the outputs of matrix products and attention; full keeps the inputs only.
        block: called with `inputs`.
        keep_rng: replay the random state, which costs a device synchronization a block: only dropout needs it.

    Source: PyTorch's non-reentrant checkpoint and its selective policies (torch.utils.checkpoint).
    """
    if mode == "none":
        return block(*inputs)
    context: dict[str, Any] = {}
    if mode == "selective":
        context = {"context_fn": partial(create_selective_checkpoint_contexts, saved_operations())}
    return checkpoint(block, *inputs, use_reentrant=False, preserve_rng_state=keep_rng, **context)
