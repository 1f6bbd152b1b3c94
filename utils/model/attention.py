"""Attention kernels: explicit softmax as the reference, and PyTorch's fused one.

Shapes: B rows, H heads, T positions, C channels a head.
"""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

AttentionKind = Literal["explicit", "sdpa"]
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Takes queries, keys and values of shape [B, H, T, C]; returns [B, H, T, C]."""


def explicit_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """Softmax attention written out, with the softmax in float32; the reference for every kernel.

    Args:
        q, k, v: [B, H, T, C] (k and v may have another T).
        causal: a position sees itself and earlier ones only; needs equal T.
        dropout: share of attention weights dropped.
    """
    scores = torch.matmul(q, k.transpose(-1, -2)) * q.size(-1) ** -0.5
    if causal:
        length = q.size(-2)
        hidden = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    weights = F.dropout(scores.float().softmax(dim=-1).to(v.dtype), p=dropout)
    return torch.matmul(weights, v)


def sdpa_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """The same through `F.scaled_dot_product_attention`, with no mask tensor.

    A mask, even a full one, keeps SDPA off the flash kernel: the tight layout is what makes it unnecessary.
    """
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout)


def attention(kind: AttentionKind) -> Callable[..., Tensor]:
    """The kernel of that name."""
    return {"explicit": explicit_attention, "sdpa": sdpa_attention}[kind]
