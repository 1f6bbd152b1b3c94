"""CPU kernels for PyTorch's variable-length flash attention, so that a machine without CUDA runs the packed layout."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from utils.model.attention import sdpa_attention, varlen_attention
from utils.model.gpt import XttsGpt

calls = {"forward": 0, "backward": 0}
"""How often each was called."""


@contextmanager
def emulated_flash() -> Iterator[None]:
    """Register the kernels for a while, and have the GPT call them as on a GPU.

    Other tests of this process register kernels of their own in the same place.
    """
    own = XttsGpt._attend
    XttsGpt._attend = _attend_as_on_cuda  # type: ignore[assignment]
    library = torch.library.Library("aten", "IMPL")
    library.impl("_flash_attention_forward", _forward, "CPU")
    library.impl("_flash_attention_backward", _backward, "CPU")
    try:
        yield
    finally:
        library._destroy()
        XttsGpt._attend = own  # type: ignore[method-assign]


def _attend_as_on_cuda(gpt: XttsGpt, batch: Any, dropout: float) -> Callable[..., Tensor]:
    if not batch.lengths:
        return partial(sdpa_attention, causal=True)
    return partial(varlen_attention, cu_seqlens=batch.cu_seqlens, max_seqlen=batch.max_seqlen)


def _clips(bounds: Tensor) -> list[slice]:
    ends = bounds.tolist()
    return [slice(begin, end) for begin, end in pairwise(ends) if end > begin]


def _scores(q: Tensor, k: Tensor, scale: float | None, *, is_causal: bool) -> Tensor:
    """[T, H, C] twice -> [H, T, T] in float32."""
    found = torch.einsum("thc,shc->hts", q.float(), k.float()) * (q.size(-1) ** -0.5 if scale is None else scale)
    return found.masked_fill(torch.ones_like(found[0], dtype=torch.bool).triu(1), float("-inf")) if is_causal else found


def _forward(q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, *more: Any, **options: Any) -> tuple[Tensor, ...]:
    starts, longest, _, dropout, is_causal, _ = more
    # What the CUDA kernel requires, so that a call it would refuse fails here as well.
    assert q.dtype in (torch.bfloat16, torch.float16) and bounds.dtype == torch.int32 and dropout == 0
    assert longest >= max(clip.stop - clip.start for clip in _clips(bounds)) and q.stride(-1) == 1
    calls["forward"] += 1
    unused = torch.zeros(2, dtype=torch.uint64)
    if (used := options.get("seqused_k")) is not None:
        return _one_query_each(q, k, v, starts, used), torch.empty(0), unused, unused[0], torch.empty(0)
    out, sums = torch.empty_like(q), []
    for clip in _clips(bounds):
        scores = _scores(q[clip], k[clip], options.get("scale"), is_causal=is_causal)
        sums.append(scores.logsumexp(-1))
        out[clip] = torch.einsum("hts,shc->thc", scores.softmax(-1), v[clip].float()).to(q.dtype)
    return out, torch.cat(sums, 1), unused, unused[0], torch.empty(0)


def _one_query_each(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, used: Tensor) -> Tensor:
    """Of each of the sequences [N, H, C] to the first `used` of its keys, which begin at `starts`."""
    assert starts.dtype == used.dtype == torch.int32 and len(starts) == len(q) + 1 == len(used) + 1
    out = torch.empty_like(q)
    for number, (start, count) in enumerate(zip(starts.tolist(), used.tolist(), strict=False)):
        own = slice(start, start + count)
        scores = _scores(q[number, None], k[own], None, is_causal=False)
        out[number] = torch.einsum("hts,shc->thc", scores.softmax(-1), v[own].float())[0].to(q.dtype)
    return out


def _backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, bounds: Tensor, *more: Any, **options: Any
) -> tuple[Tensor, ...]:
    calls["backward"] += 1
    scale = options.get("scale")
    grads = tuple(map(torch.empty_like, (q, k, v)))
    for clip in _clips(bounds):
        queries, keys, values, above = (t[clip].float() for t in (q, k, v, grad))
        shares = _scores(queries, keys, scale, is_causal=more[4]).softmax(-1)
        inner = torch.einsum("thc,shc->hts", above, values)
        inner = shares * (inner - (shares * inner).sum(-1, keepdim=True)) * (scale or q.size(-1) ** -0.5)
        grads[0][clip] = torch.einsum("hts,shc->thc", inner, keys).to(q.dtype)
        grads[1][clip] = torch.einsum("hts,thc->shc", inner, queries).to(q.dtype)
        grads[2][clip] = torch.einsum("hts,thc->shc", shares, above).to(q.dtype)
    return grads
