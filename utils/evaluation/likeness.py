"""Does it sound like the voice: pitch and spectrum, which nobody trained, beside the base's own speaker encoder.

Shapes: N samples at 16 000 Hz, T frames, K mel bands.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from utils.evaluation.features import RATE, active, log_mels

PITCH_WINDOW, PITCH_HOP = 640, 200
LOWEST_HZ, HIGHEST_HZ = 60.0, 450.0
VOICED = 0.6
"""Least normalised autocorrelation of a voiced frame."""
DB = 20 / np.log(10)


@dataclass(frozen=True, kw_only=True)
class Sound:
    """What is measured of a voice without any training."""

    pitch_hz: float
    """Median pitch of voiced frames; not a number where nothing is voiced."""
    pitch_range: float
    """From the 10th to the 90th percentile of pitch, in semitones."""
    spectrum: NDArray[np.float32]
    """Long-term average of each mel band in dB, mean 0, [K]."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How far two voices are apart."""

    pitch: float
    """Between the median pitches, in semitones."""
    pitch_range: float
    """Between the ranges, in semitones."""
    spectrum: float
    """Between the long-term spectra, root mean square in dB."""


def sound_of(wav: Tensor) -> Sound:
    """Pitch and spectrum of speech, [1, N]."""
    voiced = pitches(wav)
    low, middle, high = np.percentile(voiced, (10, 50, 90)) if len(voiced) else (np.nan,) * 3
    mels, heard = log_mels(wav), active(wav)
    kept = mels[: len(heard)][torch.from_numpy(heard[: len(mels)])]
    spectrum = (kept.exp().square().mean(0).clamp(min=1e-12).log().numpy() / 2 if len(kept) else np.zeros(1)) * DB
    return Sound(
        pitch_hz=float(middle),
        pitch_range=float(12 * np.log2(high / low)) if len(voiced) else float("nan"),
        spectrum=(spectrum - spectrum.mean()).astype(np.float32),
    )


def difference(one: Sound, other: Sound) -> Difference:
    """How far two voices are apart; not a number where one of them is not voiced."""
    return Difference(
        pitch=float(abs(12 * np.log2(one.pitch_hz / other.pitch_hz))),
        pitch_range=abs(one.pitch_range - other.pitch_range),
        spectrum=float(np.sqrt(((one.spectrum - other.spectrum) ** 2).mean())),
    )


def pitches(wav: Tensor) -> NDArray[np.float64]:
    """Pitch of each voiced frame in Hz.

    Source: Boersma 1993: the autocorrelation of a windowed frame, divided by that of the window.
    """
    if wav.shape[1] < PITCH_WINDOW:
        return np.zeros(0)
    frames = wav[0].float().unfold(0, PITCH_WINDOW, PITCH_HOP)
    frames = frames[torch.from_numpy(active(wav)[: len(frames)])]
    if not len(frames):
        return np.zeros(0)
    window = torch.hann_window(PITCH_WINDOW)
    correlation = _autocorrelation((frames - frames.mean(1, keepdim=True)) * window) / _autocorrelation(window)
    first, last = int(RATE / HIGHEST_HZ), int(RATE / LOWEST_HZ)
    heights = correlation[:, first : last + 1]
    # Multiples of the true period are as high: a small bonus makes the shortest win.
    bonus = 0.02 * torch.linspace(1, 0, heights.shape[1])
    best = (heights + bonus).argmax(1)
    voiced = heights.gather(1, best[:, None])[:, 0] > VOICED
    return np.asarray(RATE / (_between(heights, best)[voiced] + first))


def _autocorrelation(frames: Tensor) -> Tensor:
    """Of each row, 1 at lag 0; [..., PITCH_WINDOW]."""
    power = torch.fft.rfft(frames, n=2 * PITCH_WINDOW).abs().square()
    lags = torch.fft.irfft(power)[..., :PITCH_WINDOW]
    return lags / lags[..., :1].clamp(min=1e-9)


def _between(heights: Tensor, best: Tensor) -> Tensor:
    """The peak's place between samples, by a parabola through three points."""
    inner = best.clamp(1, heights.shape[1] - 2)
    left, middle, right = (heights.gather(1, (inner + shift)[:, None])[:, 0] for shift in (-1, 0, 1))
    bend = (left - 2 * middle + right).clamp(max=-1e-9)
    return inner + (0.5 * (left - right) / bend).clamp(-1, 1)
