"""Attention kernels: explicit softmax as the reference, and PyTorch's fused kernels.

Shapes: B rows, H heads, T positions, C channels a head.
"""

from collections.abc import Callable
from contextlib import ContextDecorator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from utils.model.flash_attn import Kernel, flash_attention
from utils.model.matrix_attention import MatrixAttention, PackedMatrixAttention, Plan

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


def sdpa_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """The same through `F.scaled_dot_product_attention`, with no mask tensor and no dropout.

    A mask, even a full one, keeps SDPA off the flash kernel: the packed layout is what makes it unnecessary.
    In bf16 on a CPU it is our own matrix products, whose backward pass is the faster one.
    """
    if is_matrix_case(q):
        output: Tensor = MatrixAttention.apply(q, k, v, causal)
        return output
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def without_cudnn_attention() -> ContextDecorator:
    """Context, or decorator, in which `F.scaled_dot_product_attention` does not take cuDNN's kernel.

    On Hopper and newer, torch 2.11 prefers it, and cuDNN builds a plan for each new shape: the first word of each text
    would wait for one.
    """
    kernels = sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
    assert isinstance(kernels, ContextDecorator)
    return kernels


def is_matrix_case(q: Tensor) -> bool:
    """Whether plain matrix products are the fastest attention: in bf16 on a CPU, where gradients are wanted."""
    return q.device.type == "cpu" and q.dtype == torch.bfloat16 and q.requires_grad


def packed_attention(q: Tensor, k: Tensor, v: Tensor, *, lengths: tuple[int, ...], plan: Plan) -> Tensor:
    """Causal attention within each clip of one packed row, as a CPU does it fastest.

    Args:
        q, k, v: [1, H, T, C].
        lengths, plan: of the clips; see `clip_by_clip` and `plan_groups`.
    """
    if is_matrix_case(q):
        output: Tensor = PackedMatrixAttention.apply(q, k, v, plan)
        return output
    return clip_by_clip(q, k, v, kernel=partial(sdpa_attention, causal=True), lengths=lengths)


def clip_by_clip(q: Tensor, k: Tensor, v: Tensor, *, kernel: Attend, lengths: tuple[int, ...]) -> Tensor:
    """Causal attention within each clip of one packed row, one clip after the other.

    Args:
        q, k, v: [1, H, T, C].
        kernel: attention over one clip.
        lengths: positions of each clip and of the padding behind the last, which may be 0; they add up to T.
    """
    parts = [tensor.split([length for length in lengths if length], dim=2) for tensor in (q, k, v)]
    return torch.cat([kernel(*clip) for clip in zip(*parts, strict=True)], dim=2)


def varlen_attention(
    q: Tensor, k: Tensor, v: Tensor, *, cu_seqlens: Tensor, max_seqlen: int, kernel: Kernel = "torch"
) -> Tensor:
    """The same in one call of a variable-length flash kernel.

    Needs CUDA of compute capability 8.0 or more and half-precision inputs. It drops no attention weights.

    Args:
        q, k, v: [1, H, T, C].
        cu_seqlens: where clips begin, and the end, int32 [N + 1].
        max_seqlen: positions of the longest clip.
        kernel: PyTorch's own, or one of the flash-attn packages.
    """
    q, k, v = (t.squeeze(0).transpose(0, 1) for t in (q, k, v))
    seen = flash_attention(q, k, v, cu_seqlens=cu_seqlens, max_seqlen=max_seqlen, kernel=kernel)
    return seen.transpose(0, 1).unsqueeze(0)
