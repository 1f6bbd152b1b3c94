"""Numbers in 8 bits with a scale for each block: 256 levels that lie densely around zero.

Source: Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization" (dynamic tree quantization).
"""

from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 256
"""Values that share a scale; the paper's 2,048 in later practice became 256."""
DECADES = 7
"""Powers of ten that the 256 values span below 1."""
NUDGE = 1e-3
"""Steps between levels that rounding may cost: a block's largest value is its scale, and must be read back as it."""


class Lines(NamedTuple):
    """How many levels are below a magnitude from 0 to 1: the smallest of these lines, floored.

    In a decade levels are evenly spaced, and from one decade to the next their distance grows: their number
    is a concave function, made of a line for each decade. A value becomes the nearest level, but for the
    upper neighbor in the lowest fifth of the step in which a decade begins.
    """

    slopes: tuple[float, ...]
    offsets: tuple[float, ...]


def lines(*, signed: bool) -> Lines:
    """Those of first moments (signed: a bit gives the sign) or second moments."""
    counts = [2.0**decade if signed else 2.0 ** (decade + 1) for decade in range(DECADES)]
    return Lines(
        slopes=tuple(count * 10.0 ** (DECADES - 1 - decade) / 0.9 for decade, count in enumerate(counts)),
        offsets=tuple(count * 8 / 9 + NUDGE for count in counts),
    )


def rows_of(part: slice) -> slice:
    """The blocks that hold these values."""
    return slice(part.start // BLOCK, -(-part.stop // BLOCK))


def quantize(values: Tensor, *, signed: bool) -> tuple[Tensor, Tensor]:
    """Codes and scales of values of any shape.

    Returns:
        uint8 codes [K, BLOCK], the last block filled up with zeros, and the largest magnitude of each block, [K, 1].
    """
    flat = values.flatten()
    blocks = F.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
    scales = blocks.abs().amax(dim=1, keepdim=True)
    shares = blocks / scales.clamp_min(torch.finfo(torch.float32).tiny)
    magnitudes, level = shares.abs(), torch.full((), torch.inf, device=values.device)
    for slope, offset in zip(*lines(signed=signed), strict=True):
        level = torch.minimum(level, magnitudes * slope + offset)
    level.floor_()
    # A second moment must not vanish beside its block's largest: the update would be divided by eps alone.
    # There is a level for 1, and none for -1.
    codes = (level.copysign(shares) + 127).clamp_min_(0) if signed else (level - 1).clamp_min_(1)
    return codes.to(torch.uint8), scales


def dequantize(codes: Tensor, scales: Tensor, *, signed: bool) -> Tensor:
    """Float32 values of `quantize`'s codes, flat, with what the last block was filled up with."""
    values = levels(signed, codes.device).index_select(0, codes.flatten().int()).view_as(codes)
    return values.mul_(scales).flatten()


@cache
def levels(signed: bool, device: torch.device) -> Tensor:
    """The 256 values that codes stand for, ascending, float32 (the paper's dynamic tree quantization)."""
    values = [0.0, 1.0]
    for decade in range(DECADES):
        # A value's leading bits give its decade, the others the step in it; unsigned values have a bit more for that.
        count = 2**decade if signed else 2 ** (decade + 1)
        edges = torch.linspace(0.1, 1.0, count + 1, dtype=torch.float64)
        middles = ((edges[1:] + edges[:-1]) / 2 * 10.0 ** (decade - DECADES + 1)).tolist()
        values += middles + ([-value for value in middles] if signed else [])
    return torch.tensor(sorted(values), dtype=torch.float32, device=device)
