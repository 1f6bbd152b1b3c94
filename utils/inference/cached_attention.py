"""Attention of the decode engine: the queries of one step over the keys and values that each sentence has by then.

Shapes: B slots, N of them in use (always the first ones), H heads, T cached positions, C channels a head. A cache is
[layers, 2, B, H, T, C], keys before values.
"""

import logging
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.hardware.gpu import AMPERE
from utils.model.shapes import GptShape
from utils.performance_utils.device import trial

log = logging.getLogger(__name__)

MASK_STEP = 16
"""Lengths of masks are multiples of this: SDPA would copy others into such rows in each layer."""

AttendLayer = Callable[[int, Tensor, Tensor], Tensor]
"""Takes a layer's number, queries [N, H, n, C] and new keys and values [2, N, H, n, C], which it stores; gives what the
queries attend to, [N, H, n, C]."""


def has_flash_attention(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether this GPU computes with the variable-length kernel what masked attention does, by a trial."""
    if torch.cuda.get_device_capability(device) < AMPERE or not torch.backends.cuda.is_flash_attention_available():
        return False
    if fault := trial(lambda: _compare(device, dtype)):
        log.warning("speaking by masked attention: the variable-length kernel failed its trial: %s", fault)
    return not fault


def _compare(device: torch.device, dtype: torch.dtype) -> None:
    """Two slots of two heads, one of which has four positions.

    Raises:
        RuntimeError: there is no such kernel for this GPU.
        AssertionError: it gives something else.
    """
    content = torch.arange(8 * MASK_STEP * 64, device=device).sin().view(1, 2, 2, 2, MASK_STEP, 64).to(dtype)
    positions, found = torch.tensor([3, MASK_STEP - 1], device=device), []
    for is_ragged in (True, False):
        cache = content.transpose(3, 4).contiguous().transpose(3, 4) if is_ragged else content.clone()
        attend = attend_at_once(cache, positions, length=MASK_STEP, is_ragged=is_ragged)
        found.append(attend(0, content[0, 0, :, :, :1], content[0, ..., -1:, :]))
    torch.testing.assert_close(*found, rtol=0.05, atol=0.05)


def new_cache(
    shape: GptShape, slots: int, length: int, dtype: torch.dtype, device: torch.device, *, is_ragged: bool
) -> Tensor:
    """An empty cache; for the variable-length kernel with a position's heads side by side in memory."""
    sizes = [shape.layers, 2, slots, shape.heads, length, shape.width // shape.heads]
    if is_ragged:
        sizes[3:5] = length, shape.heads
    cache = torch.zeros(sizes, dtype=dtype, device=device)
    return cache.transpose(3, 4) if is_ragged else cache


def attend_by_slot(cache: Tensor, lengths: Sequence[int]) -> AttendLayer:
    """Each slot by itself: it computes the same whatever is beside it, and nothing in vain.

    Args:
        cache: new keys and values are written into it.
        lengths: cached positions of each slot in use.
    """

    def attend(number: int, q: Tensor, new: Tensor) -> Tensor:
        found = []
        for slot, length in enumerate(lengths):
            own = slice(slot, slot + 1)
            cache[number, :, slot, :, length] = new[:, slot, :, 0]
            keys, values = cache[number, :, own, :, : length + 1]
            found.append(F.scaled_dot_product_attention(q[own], keys, values))
        return found[0] if len(found) == 1 else torch.cat(found)

    return attend


def attend_at_once(cache: Tensor, positions: Tensor, *, length: int, is_ragged: bool) -> AttendLayer:
    """All slots at once, each to the positions that it has; no value of the host goes in.

    Args:
        cache: new keys and values are written into it.
        positions: where each slot's next one stands, [N] on the device; those behind the cache's end are its last.
        length: positions that are read at most, where the rest is masked.
        is_ragged: by the variable-length kernel, which reads no more than a slot has; `cache` is then laid out for it.
    """
    num, longest = len(positions), cache.size(4)
    rows, positions = torch.arange(num, device=cache.device), positions.clamp(max=longest - 1)
    if is_ragged:
        used, bounds = (positions + 1).int(), torch.arange(num + 1, dtype=torch.int32, device=cache.device)
        starts = bounds * longest
    else:
        hidden = torch.arange(length, device=cache.device) > positions[:, None]
        # Not as booleans, which SDPA would turn into this in each layer.
        mask = torch.zeros(num, length, dtype=cache.dtype, device=cache.device)
        mask = mask.masked_fill(hidden, float("-inf"))[:, None, None]

    def attend(number: int, q: Tensor, new: Tensor) -> Tensor:
        own = cache[number]
        own[:, rows, :, positions] = new[..., 0, :].transpose(0, 1)
        if not is_ragged:
            keys, values = own[:, :num, :, :length]
            return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        keys, values = own[:, :num].transpose(2, 3).flatten(1, 2)
        found: tuple[Tensor, ...] = torch.ops.aten._flash_attention_forward(
            q[:, :, 0], keys, values, bounds, starts, 1, longest, 0.0, False, False, seqused_k=used
        )
        return found[0][:, :, None]

    return attend
