"""Resample a tensor in constant memory.

Shapes: T samples at the source rate, U = ceil(T * target / source) at the target rate.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torchaudio.transforms import Resample

from utils.options import DATASET_RATE

# The filter of resampy's and librosa's "kaiser_best": aliases 100 dB down, flat to 95 % of the band.
# Source: torchaudio's audio resampling tutorial, "Comparison against librosa".
_WIDTH, _ROLLOFF, _BETA = 64, 0.9475937167399596, 14.769656459379492
# The filter bank holds one kernel per step of the ratio: rates without a common divisor would need gigabytes.
_MAX_STEPS = 4_000
_BLOCK_SECONDS = 30
_OUTPUTS = 16
"""Samples that a hop of the filter bank gives, at least: the width of a vector register or two."""
_BAND, _ZERO = 64, 1e-15
"""Neighboring kernels of the filter bank that are applied together, and what of their taps is a zero."""
_SHORT = 20_480
"""PyTorch convolves no more samples than this by another algorithm, whose rounding depends on the kernels beside."""


def resample(wav: Tensor, source_rate: int, target_rate: int) -> Tensor:
    """Band-limited resampling.

    Args:
        wav: audio at `source_rate`, float, shape [1, T].
        source_rate: in Hz.
        target_rate: in Hz. A ratio that cannot be had with 4 000 filter phases is rounded to the nearest that
            can: an error of at most 0.03 %, and none for the rates in common use.

    Returns:
        Audio at `target_rate`, shape [1, U]; `wav` itself when the rates are equal.
    """
    assert wav.ndim == 2 and source_rate > 0 and target_rate > 0
    ratio = Fraction(target_rate, source_rate).limit_denominator(_MAX_STEPS)
    if ratio == 1:
        return wav
    block = _BLOCK_SECONDS * source_rate // ratio.denominator * ratio.denominator
    # A dataset's samples are compared by hash, so not one bit of them may change; other rates are what models take.
    convert = _convert if target_rate == DATASET_RATE or ratio.numerator < 2 * _BAND else _by_bands
    if wav.shape[1] <= block:
        return convert(wav, ratio)
    return _by_blocks(wav, ratio, block, convert)


def _convert(wav: Tensor, ratio: Fraction) -> Tensor:
    """By torchaudio, or bit for bit as by torchaudio."""
    filters = _filters(ratio, wav.device, wav.dtype)
    padded_length = wav.shape[1] + 2 * filters.width + ratio.denominator
    if ratio.numerator < _OUTPUTS and padded_length > _SHORT:
        return _by_hops(wav, ratio, filters.width)
    converted: Tensor = filters(wav)
    return converted


def _by_hops(wav: Tensor, ratio: Fraction, width: int) -> Tensor:
    """As torchaudio's Resample, bit for bit with AVX2, with at least `_OUTPUTS` samples from each hop of its filters.

    A convolution with one output channel, as from 44 100 to 22 050 Hz, uses an eighth of the vector unit or less.
    Copies of the kernels, each shifted by `ratio.denominator` samples, fill it; the added taps are zeros, so no sample
    changes.
    """
    kernels = _shifted_filters(ratio, wav.device, wav.dtype)
    count = -(-wav.shape[1] * ratio.numerator // ratio.denominator)
    num_hops = -(-count // len(kernels))
    hop = len(kernels) // ratio.numerator * ratio.denominator
    end = (num_hops - 1) * hop + kernels.shape[2] - width - wav.shape[1]
    padded = F.pad(wav, (width, max(0, end)))
    return F.conv1d(padded[:, None], kernels, stride=hop).transpose(1, 2).reshape(1, -1)[:, :count]


@lru_cache(maxsize=16)
def _shifted_filters(ratio: Fraction, device: torch.device, dtype: torch.dtype) -> Tensor:
    """[outputs of a hop, 1, taps]"""
    kernel = _filters(ratio, device, dtype).kernel
    assert isinstance(kernel, Tensor)
    down, steps = ratio.denominator, -(-_OUTPUTS // ratio.numerator)
    return torch.cat([F.pad(kernel, (step * down, (steps - 1 - step) * down)) for step in range(steps)])


def _by_bands(wav: Tensor, ratio: Fraction) -> Tensor:
    """As torchaudio's Resample but for rounding, in half the time.

    Its kernels are all as long as a whole step of the filter bank reaches, and two thirds of each are zeros:
    neighboring ones are applied together, to as much as they reach themselves.
    """
    filters = _filters(ratio, wav.device, wav.dtype)
    down, count = ratio.denominator, -(-wav.shape[1] * ratio.numerator // ratio.denominator)
    padded = F.pad(wav, (filters.width, filters.width + down))[0]
    num_steps = wav.shape[1] // down + 1
    found = []
    for first, kernels in _bands(ratio, wav.device, wav.dtype):
        reached = padded[first : first + (num_steps - 1) * down + len(kernels)]
        found.append(reached.unfold(0, len(kernels), down) @ kernels)
    return torch.cat(found, dim=1).reshape(1, -1)[:, :count]


@lru_cache(maxsize=16)
def _bands(ratio: Fraction, device: torch.device, dtype: torch.dtype) -> list[tuple[int, Tensor]]:
    """First tap of `_BAND` neighboring kernels that is not zero, and their taps from there on, [taps, kernels]."""
    kernel = _filters(ratio, device, dtype).kernel
    assert isinstance(kernel, Tensor)
    found = []
    for kernels in kernel[:, 0].split(_BAND):
        taps = (kernels.abs().amax(dim=0) > _ZERO).nonzero()
        first, last = int(taps[0]), int(taps[-1])
        found.append((first, kernels[:, first : last + 1].T.contiguous()))
    return found


@lru_cache(maxsize=16)
def _filters(ratio: Fraction, device: torch.device, dtype: torch.dtype) -> Resample:
    """The filter bank of a ratio, kept: making it takes longer than resampling a clip."""
    filters = Resample(
        ratio.denominator,
        ratio.numerator,
        lowpass_filter_width=_WIDTH,
        rolloff=_ROLLOFF,
        resampling_method="sinc_interp_kaiser",
        beta=_BETA,
    )
    return filters.to(device=device, dtype=dtype)


def _by_blocks(wav: Tensor, ratio: Fraction, block: int, convert: Callable[[Tensor, Fraction], Tensor]) -> Tensor:
    """Resample `block` samples at a time, each with enough of its neighbors for the filter to see no edge."""
    up, down = ratio.numerator, ratio.denominator
    reach = 2 * _WIDTH * max(down, up) // up + down
    margin = (reach // down + 1) * down
    parts = []
    for start in range(0, wav.shape[1], block):
        first = max(0, start - margin)
        part = convert(wav[:, first : start + block + margin], ratio)
        skip = (start - first) // down * up
        parts.append(part[:, skip : skip + block // down * up])
    return torch.cat(parts, dim=1)[:, : -(-wav.shape[1] * up // down)]
