"""Measure speech loudness, and normalize it without clipping.

Shapes: C channels, T samples.
"""

import math
from functools import lru_cache

import numpy as np
import pyloudnorm
from torch import Tensor

CEILING = 10 ** (-1 / 20)
"""Highest peak after amplification: -1 dBFS, room for what resampling may add between the samples."""
_GATE_S = 0.4
"""Length of a gating block of BS.1770: shorter sounds are repeated until they fill one."""
_meter = lru_cache(maxsize=8)(pyloudnorm.Meter)


def loudness(wav: Tensor, sample_rate: int) -> float:
    """Integrated loudness in LUFS; -inf where nothing is louder than the gate of -70 LUFS.

    Args:
        wav: audio in [-1, 1], [C, T] with C up to 5.
        sample_rate: in Hz.

    Source: ITU-R BS.1770-4, by pyloudnorm.
    """
    samples = wav.numpy().T.astype(np.float64)
    shortest = math.ceil(_GATE_S * sample_rate)
    if len(samples) < shortest:
        samples = np.tile(samples, (-(-shortest // max(1, len(samples))), 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(_meter(sample_rate).integrated_loudness(samples))


def normalize_loudness(wav: Tensor, sample_rate: int, target: float) -> tuple[Tensor, float]:
    """Speech at the wanted loudness, or as near to it as its peaks allow: nothing is limited or clipped.

    Args:
        wav: audio in [-1, 1], [C, T].
        sample_rate: in Hz.
        target: in LUFS.

    Returns:
        The audio, and the gain that was applied, in dB; silence is returned as it was, with 0.
    """
    measured = loudness(wav, sample_rate)
    peak = float(wav.abs().max())
    if not math.isfinite(measured) or peak == 0:
        return wav, 0.0
    # A peak that is above the ceiling already is no reason to make a quiet target louder or quieter than asked for.
    gain = min(10 ** ((target - measured) / 20), max(CEILING / peak, 1e-6))
    return wav * gain, 20 * math.log10(gain)
