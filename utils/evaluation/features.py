"""Features of the metrics: normalized MFCCs, mel-cepstra, and the start and end of speech.

Shapes: N samples at 16 000 Hz, T frames (80 a second), K mel bands, F features.
"""

from functools import cache

import numpy as np
import torch
import torchaudio
from numpy.typing import NDArray
from torch import Tensor

RATE = 16_000
"""Sample rate of all metrics, in Hz."""
HOP = 200
FRAMES_PER_SECOND = RATE // HOP
FFT_SIZE = 512
WINDOW = 400
FINE, COARSE = 40, 24
"""Mel bands for sound, and for words."""
NUM_MFCCS, NUM_CEPSTRA = 8, 24
"""Coefficients for words, and for sound. Eight of 24 bands are too coarse to follow the harmonics of a high voice: with
13 of 40, a woman's perfect speech was separated from a man's near misses in 80 % of 20 sentences, with these in all."""
SLOPE_FRAMES = 9
FLOOR = 1e-5
"""Amplitudes below this are silence: 100 dB under full scale."""
ACTIVE_DB = 35.0
"""Frames this far under a recording's loud ones count as silence."""
SILENT_DB = -60.0
"""A recording whose loudest frame is below this, against full scale, is silent."""

Features = NDArray[np.float32]


@cache
def _mel_bands(count: int) -> torchaudio.transforms.MelSpectrogram:
    return torchaudio.transforms.MelSpectrogram(
        RATE,
        n_fft=FFT_SIZE,
        win_length=WINDOW,
        hop_length=HOP,
        f_min=50,
        f_max=7_600,
        n_mels=count,
        power=1,
        norm="slaney",
    )


def log_mels(wav: Tensor, bands: int = FINE) -> Tensor:
    """Logarithms of mel amplitudes, natural: [1, N] to [T, K]."""
    return _mel_bands(bands)(wav.float())[0].T.clamp(min=FLOOR).log()


def cepstra(mels: Tensor, count: int) -> Tensor:
    """Cepstral coefficients 1 to `count` of log-mels, [T, K] to [T, count]; the level, number 0, is dropped.

    One-sided, so that log|H| is the sum of c_m cos(m w), as mel-cepstral distortion expects (Kubichek 1993).
    """
    bands = mels.shape[1]
    return mels @ torchaudio.functional.create_dct(count + 1, bands, norm=None)[:, 1:] / bands


def levels(wav: Tensor) -> NDArray[np.float32]:
    """Level of each frame in dB against full scale, [T]."""
    padded = torch.nn.functional.pad(wav[0].float(), (WINDOW // 2, WINDOW // 2))
    frames = padded.unfold(0, WINDOW, HOP)
    return (10 * frames.square().mean(1).clamp(min=1e-12).log10()).numpy()


def active(wav: Tensor) -> NDArray[np.bool_]:
    """Which frames hold sound, [T]: within 35 dB of the loud ones; none of a silent recording."""
    frame_levels = levels(wav)
    loud = float(np.percentile(frame_levels, 95)) if len(frame_levels) else -120.0
    if loud < SILENT_DB:
        return np.zeros(len(frame_levels), dtype=bool)
    return np.asarray(frame_levels > loud - ACTIVE_DB)


def trimmed(wav: Tensor) -> Tensor:
    """The recording from its first to its last frame with sound, [1, n]; empty when it is silent."""
    indices = np.flatnonzero(active(wav))
    if not len(indices):
        return wav[:, :0]
    return wav[:, max(0, indices[0] * HOP - HOP // 2) : (indices[-1] + 1) * HOP]


def mfccs(wav: Tensor) -> Features:
    """What was said, as little as possible of who said it: MFCCs and their slopes, [T, 16].

    Each coefficient has mean 0 and variance 1 over the recording, which removes the channel and most of the voice.
    """
    if wav.shape[1] < WINDOW:
        return np.zeros((0, 2 * NUM_MFCCS), dtype=np.float32)
    coefficients = cepstra(log_mels(wav, COARSE), NUM_MFCCS)
    slopes = torchaudio.functional.compute_deltas(coefficients.T[None], win_length=SLOPE_FRAMES)[0].T
    both = torch.cat([coefficients, slopes], dim=1)
    return ((both - both.mean(0)) / both.std(0, correction=0).clamp(min=1e-3)).numpy()


def mel_cepstra(wav: Tensor) -> Features:
    """Cepstral coefficients for mel-cepstral distortion, [T, 24]."""
    if wav.shape[1] < WINDOW:
        return np.zeros((0, NUM_CEPSTRA), dtype=np.float32)
    return cepstra(log_mels(wav), NUM_CEPSTRA).numpy()
