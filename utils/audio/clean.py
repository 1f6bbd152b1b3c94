"""Clean one clip: remove DC offset and rumble, trim silence, normalize loudness; report each change.

Shapes: T samples before, U <= T samples after.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.signal import butter, sosfiltfilt
from torch import Tensor

from utils.audio.loudness import normalize_loudness
from utils.audio.trim import sound_bounds

_ORDER = 2
"""Of the high-pass; run forwards and backwards it falls by 24 dB an octave and delays nothing."""


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """What is done to each clip; None or False leaves it as it is."""

    loudness: float | None = None
    """Target in LUFS."""
    trim: bool = False
    """Cut silence at the edges."""
    lead_s: float = 0.1
    """Kept before the first sound, in seconds."""
    tail_s: float = 0.25
    """Kept after the last sound, in seconds."""
    remove_dc: bool = False
    """Subtract the mean of the samples."""
    highpass: float | None = None
    """Frequency below which sound is taken out, in Hz."""

    @property
    def does_something(self) -> bool:
        """Whether any of it changes a clip."""
        return self.trim or self.remove_dc or self.loudness is not None or self.highpass is not None


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """A clip after cleaning."""

    wav: Tensor
    """Mono float32, [1, U]."""
    start: int
    """Sample of the given audio that it begins with."""
    gain_db: float
    """Amplification."""
    loudness: float | None = None
    """In LUFS; None where loudness was not asked for."""


def clean(wav: Tensor, sample_rate: int, cleaning: Cleaning) -> Cleaned:
    """The clip as the settings want it; the same input gives the same samples.

    Args:
        wav: mono audio, float32, [1, T] with T > 0.
        sample_rate: in Hz.
        cleaning: what to do.
    """
    if cleaning.remove_dc:
        wav = wav - wav.mean()
    if cleaning.highpass is not None:
        wav = high_pass(wav, sample_rate, cleaning.highpass)
    start, gain, loudness = 0, 0.0, None
    if cleaning.trim:
        start, stop = sound_bounds(wav, sample_rate, lead_s=cleaning.lead_s, tail_s=cleaning.tail_s)
        wav = wav[:, start:stop]
    if cleaning.loudness is not None:
        wav, gain, loudness = normalize_loudness(wav, sample_rate, cleaning.loudness)
    return Cleaned(wav=wav, start=start, gain_db=gain, loudness=loudness)


def high_pass(wav: Tensor, sample_rate: int, frequency: float) -> Tensor:
    """Sound above a frequency, in phase with the original; at the frequency itself 6 dB are lost.

    Args:
        wav: [1, T].
        sample_rate: in Hz.
        frequency: in Hz, below half of the rate.
    """
    sections = butter(_ORDER, frequency, btype="highpass", fs=sample_rate, output="sos")
    # Mirrored at the edges over as much as there is: the filter's own default refuses clips of a few samples.
    edge = min(wav.shape[1] - 1, round(sample_rate / frequency))
    filtered = sosfiltfilt(sections, wav.numpy().astype(np.float64), axis=1, padlen=max(0, edge))
    return torch.from_numpy(np.ascontiguousarray(filtered, dtype=np.float32))
