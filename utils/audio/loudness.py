"""Measure speech loudness, and normalize it without clipping.

Shapes: C channels, T samples, B gating blocks of 0.4 s, one every 0.1 s.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyloudnorm.iirfilter import IIRfilter
from scipy.signal import sosfilt
from torch import Tensor

CEILING = 10 ** (-1 / 20)
"""Highest peak after amplification: -1 dBFS, room for what resampling may add between the samples."""
_GATE_S, _OVERLAP = 0.4, 0.75
"""Length of a gating block of BS.1770: shorter sounds are repeated until they fill one."""
_ABSOLUTE, _RELATIVE = -70.0, -10.0
"""Gates, in LUFS and in LU below the mean of the blocks that pass the first."""
_OFFSET = -0.691
_CHANNEL_GAINS = (1.0, 1.0, 1.0, 1.41, 1.41)


class LoudnessResult(NamedTuple):
    """A sound at the wanted loudness."""

    wav: Tensor
    """[C, T]."""
    gain_db: float
    """Amplification."""
    loudness: float
    """After it, in LUFS."""


def loudness(wav: Tensor, sample_rate: int) -> float:
    """Integrated loudness in LUFS; -inf where nothing is louder than the gate of -70 LUFS.

    Args:
        wav: audio in [-1, 1], [C, T] with C up to 5.
        sample_rate: in Hz.

    Source: ITU-R BS.1770-4; filters and blocks are those of pyloudnorm.
    """
    return _gated(_block_powers(wav, sample_rate))


def normalize_loudness(wav: Tensor, sample_rate: int, target: float) -> LoudnessResult:
    """Speech at the wanted loudness, or as near to it as its peaks allow: nothing is limited or clipped.

    Args:
        wav: audio in [-1, 1], [C, T].
        sample_rate: in Hz.
        target: in LUFS.

    Returns:
        The audio and the gain that was applied; silence is returned as it was, with 0.
    """
    powers = _block_powers(wav, sample_rate)
    measured = _gated(powers)
    peak = float(np.abs(wav.numpy()).max())
    if not math.isfinite(measured) or peak == 0:
        return LoudnessResult(wav, 0.0, measured)
    # A peak that is above the ceiling already is no reason to make a quiet target louder or quieter than asked for.
    gain = min(10 ** ((target - measured) / 20), max(CEILING / peak, 1e-6))
    # Amplified blocks may pass the absolute gate, so the loudness after is not always the one before plus the gain.
    return LoudnessResult(wav * gain, 20 * math.log10(gain), _gated(powers * gain**2))


def _block_powers(wav: Tensor, sample_rate: int) -> NDArray[np.float64]:
    """K-weighted power of each gating block over all channels, [B]."""
    samples = wav.numpy().astype(np.float64)
    shortest = math.ceil(_GATE_S * sample_rate)
    if samples.shape[1] < shortest:
        samples = np.tile(samples, (1, -(-shortest // max(1, samples.shape[1]))))
    weighted = sosfilt(_weighting(sample_rate), samples, axis=1)
    power = np.einsum("ct,ct,c->t", weighted, weighted, _CHANNEL_GAINS[: len(samples)])
    step = 1 - _OVERLAP
    count = round((len(power) / sample_rate - _GATE_S) / (_GATE_S * step)) + 1
    blocks = [((np.arange(count) * step + end) * _GATE_S * sample_rate).astype(int) for end in (0, 1)]
    starts, stops = np.minimum(blocks, len(power))
    # Blocks overlap: each stretch between two of their edges is summed once.
    edges = np.unique([starts, stops])
    total = np.concatenate([[0.0], np.cumsum(np.add.reduceat(power[: edges[-1]], edges[:-1]))])
    return (total[np.searchsorted(edges, stops)] - total[np.searchsorted(edges, starts)]) / (_GATE_S * sample_rate)


def _gated(powers: NDArray[np.float64]) -> float:
    """Loudness of the blocks that are neither silent nor far below the others, in LUFS."""
    with np.errstate(divide="ignore"):
        levels = _OFFSET + 10 * np.log10(powers)
        if not (levels >= _ABSOLUTE).any():
            return -math.inf
        relative = _OFFSET + 10 * np.log10(powers[levels >= _ABSOLUTE].mean()) + _RELATIVE
        kept = powers[(levels > relative) & (levels > _ABSOLUTE)]
        return _OFFSET + 10 * math.log10(kept.mean()) if len(kept) else -math.inf


@lru_cache(maxsize=8)
def _weighting(sample_rate: int) -> NDArray[np.float64]:
    """The K-weighting's two filters as second-order sections, [2, 6]."""
    shelf = IIRfilter(4.0, 1 / math.sqrt(2), 1_500.0, sample_rate, "high_shelf")
    high_pass = IIRfilter(0.0, 0.5, 38.0, sample_rate, "high_pass")
    return np.array([np.concatenate([section.b, section.a]) for section in (shelf, high_pass)])
