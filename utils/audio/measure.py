"""Measure a clip: DC offset, clipping, noise, share of speech, and a fingerprint that identifies copies.

Shapes: B signals, T samples, N samples of a window, F voice activity frames of 32 ms.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchaudio import functional

from utils.audio.clean import frame_levels
from utils.audio.voice_activity import FRAME, VAD_RATE


def power_spectrogram(wav: Tensor, window: Tensor, hop: int, **stft: Any) -> Tensor:
    """Squared magnitude of each frequency in each frame.

    Args:
        wav: [B, T].
        window: [N].
        hop: samples from one frame to the next.
        stft: more arguments of `torch.stft`; its `n_fft` is the size of the window when not given.

    Returns:
        [B, n_fft // 2 + 1, F].
    """
    size = stft.pop("n_fft", len(window))
    spectrum = torch.stft(wav, size, hop, len(window), window=window, return_complex=True, **stft)
    # Not abs().square(): the magnitude guards against overflow, and takes three times as long as the transform.
    return spectrum.real.square() + spectrum.imag.square()


SPEECH = 0.5
"""Probability from which a frame counts as speech: silero's own default."""
MAX_SNR = 80.0
"""Digital silence between words would be infinitely clean; 16-bit recordings end near 96 dB."""
FINGERPRINT = (16, 24)
"""Mel bands and stretches of time that a fingerprint holds."""

_CLIPPED_RUN = 4
_PAUSE_FRAMES = 50
"""Frames of 10 ms that pauses need for their median to be noise: at each edge some of them hold speech."""
_BAND_WINDOW = 512
_FLOOR_BIAS = 0.68
"""Of white noise, 8 lines by 4 frames of its spectrum averaged: the lowest twentieth over the mean."""
_ZERO_DB = -18.0
"""Below the speech: first samples so near zero are where a sound was begun. One cut in ten falls there by chance."""
_ONSET_DB = 3.0
"""A voice that sets in rises by more than this within 50 ms; one that was cut in mid-vowel seldom does."""
_STEP = 1 / 32_768


def dc_offset(wav: Tensor) -> float:
    """Mean of the samples, as a share of full scale."""
    return float(wav.double().mean())


def clipped_share(wav: Tensor) -> float:
    """Share of the samples, 0 to 1, that stand at full scale or in flat tops.

    A flat top is four or more samples in a row within one 16-bit step of the clip's highest (or lowest) sample: what
    clipping leaves behind when the recording was made quieter afterwards.

    Args:
        wav: mono audio as it was recorded, [1, T]: resampling rounds flat tops off.
    """
    samples = wav[0].numpy()
    highest, lowest = float(samples.max(initial=0.0)), float(samples.min(initial=0.0))
    tops = []
    # The other side of an asymmetric voice is not clipped just because it has a highest sample.
    if highest >= 0.05:
        tops.append(samples >= highest - _STEP)
    if lowest <= -0.05:
        tops.append(samples <= lowest + _STEP)
    clipped = [_in_runs(top) for top in tops if np.count_nonzero(top) >= _CLIPPED_RUN]
    if max(highest, -lowest) >= 1 - _STEP:
        clipped.append(np.abs(samples) >= 1 - _STEP)
    return float(np.logical_or.reduce(clipped).mean()) if clipped else 0.0


def speech_share(speech: Tensor) -> float:
    """Share of a clip, 0 to 1, that is speech.

    Args:
        speech: probabilities from `VoiceActivity`, [F].
    """
    return float((speech >= SPEECH).float().mean())


def estimate_snr(wav: Tensor, sample_rate: int, speech: Tensor | None = None) -> float:
    """Signal-to-noise ratio in dB, estimated: the level of speech against that of the pauses.

    Args:
        wav: mono audio with its pauses, [1, T]: before edges are cut.
        sample_rate: in Hz.
        speech: probabilities from `VoiceActivity`, [F]; without them the louder half of the frames counts as speech.

    Returns:
        At most 80; an estimate from one short clip is good to some 3 dB. Without half a second of pauses the quietest
        frames hold speech too: the noise is then what each band never falls below (see `_noise_floor`).
    """
    level = frame_levels(wav, sample_rate)
    power = 10 ** (level / 10)
    loud = level >= np.median(level)
    noise = None
    if speech is not None:
        # `frame_levels` begin a frame every 10 ms.
        times = (np.arange(len(level)) * 0.01 + 0.0125) * VAD_RATE / FRAME
        voiced = (speech.numpy() >= SPEECH)[np.minimum(times.astype(int), len(speech) - 1)]
        # Noise as loud as the voice can lead the model astray: its pauses must be quieter than its speech.
        if voiced.sum() >= 10 and (~voiced).sum() >= 10 and np.median(level[voiced]) > np.median(level[~voiced]):
            loud = voiced
            if (~voiced).sum() >= _PAUSE_FRAMES:
                # The median: consonants at the edge of a pause are not noise.
                noise = float(np.median(power[~voiced]))
    if noise is None:
        noise = _noise_floor(wav) if wav.shape[1] >= 4 * _BAND_WINDOW else float(np.percentile(power, 5))
    signal = max(float(power[loud].mean()) - noise, 1e-12)
    return float(np.clip(10 * math.log10(signal / max(noise, 1e-12)), -20.0, MAX_SNR))


def _noise_floor(wav: Tensor) -> float:
    """Power of the noise under speech without pauses: steady noise fills every band at all times, and speech does not.

    The minimum of each band over time, with the bias of a minimum taken out.
    Source: Martin 2001, "Noise Power Spectral Density Estimation Based on Optimal Smoothing and Minimum Statistics".
    """
    size = _BAND_WINDOW
    window = torch.hann_window(size)
    spectrum = power_spectrogram(wav, window, size // 4, center=False)[0]
    # Averaged over 8 lines, then over 4 frames: [F, bands].
    frames = spectrum.T[:, 1:].unflatten(1, (-1, 8)).mean(dim=2).numpy()
    bands = (frames[:-3] + frames[1:-2] + frames[2:-1] + frames[3:]) / 4
    floors = np.quantile(bands, 0.05, axis=0) / _FLOOR_BIAS
    # Back to the power of a sample (Parseval): each band is 8 of the spectrum's lines, and these are half of all.
    return float(floors.sum()) * 8 * 2 / (size * float(window.square().sum()))


def edge_levels(wav: Tensor, sample_rate: int, levels: NDArray[np.float64] | None = None) -> tuple[float, float]:
    """How loud a clip begins and ends, in dB below its speech: near 0 means that a word was cut.

    Args:
        wav: mono audio, [1, T].
        sample_rate: in Hz.
        levels: its `frame_levels`, where they are known already.

    Returns:
        Level of the first and of the last 10 ms, a period of any but the lowest voices, relative to the loudest
        twentieth of the frames; seldom above 0. Where the sound becomes 3 dB louder within the next 50 ms a word begins
        by itself: what it rises by is then subtracted. So does one whose first samples are all but zero,
        such as a synthesizer's n: their level counts.
    """
    loud = float(np.percentile(frame_levels(wav, sample_rate) if levels is None else levels, 95))
    return _beginning(wav, sample_rate, loud), _level(wav[:, -round(0.01 * sample_rate) :]) - loud


def _beginning(wav: Tensor, sample_rate: int, loud: float) -> float:
    """Level at the beginning, relative to `loud`; see `edge_levels`."""
    first, early, late = (round(time * sample_rate) for time in (0.01, 0.02, 0.06))
    level, later = _level(wav[:, :first]) - loud, _level(wav[:, early:late]) - loud
    if (start := _level(wav[:, : round(0.0002 * sample_rate)]) - loud) < _ZERO_DB:
        return min(start, level)
    rise = later - level
    return level - rise if rise >= _ONSET_DB else level


def _level(wav: Tensor) -> float:
    """In dB below full scale; nothing is silence."""
    return 10 * math.log10(max(float(wav.double().square().mean()) if wav.numel() else 0.0, 1e-12))


def fingerprint(wav: Tensor, sample_rate: int, levels: NDArray[np.float64] | None = None) -> Tensor:
    """A unit vector that copies of one recording share, whatever their loudness, format and rate: [16 * 24].

    Mel energies in dB over 24 equal stretches of time, without their mean per band: what an equalizer, another gain or
    a codec changes is taken out, the rhythm and melody of what is said stays.

    Args:
        wav: mono audio, [1, T]; silence at its edges is skipped, so that the stretches lie at the same places of both.
        sample_rate: in Hz, at least 8 000.
        levels: its `frame_levels`, where they are known already.
    """
    size, stretches = 512, FINGERPRINT[1]
    levels = frame_levels(wav, sample_rate) if levels is None else levels
    # From the first to the last frame within 25 dB of the loudest: noise hardly moves where that begins.
    loud, hop = np.flatnonzero(levels >= np.percentile(levels, 95) - 25), round(0.01 * sample_rate)
    wav = torch.nn.functional.pad(wav[:, int(loud[0]) * hop : (int(loud[-1]) + 2) * hop], (0, size))
    spectrum = power_spectrogram(wav, torch.hann_window(size), size // 2)[0]
    mel = _mel_filters(sample_rate, size).T @ spectrum
    pooled = torch.nn.functional.adaptive_avg_pool1d(mel[None], stretches)[0]
    level = 10 * (pooled + 1e-9 * float(pooled.max()) + 1e-12).log10()
    level = level.clamp(min=float(level.max()) - 60)
    centered = (level - level.mean(dim=1, keepdim=True)).flatten()
    return torch.nn.functional.normalize(centered, dim=0)


@lru_cache(maxsize=4)
def _mel_filters(sample_rate: int, size: int) -> Tensor:
    return functional.melscale_fbanks(size // 2 + 1, 100.0, 3_800.0, FINGERPRINT[0], sample_rate)


def _in_runs(flat: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Samples that stand in a run of at least `_CLIPPED_RUN`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flat, [False]]).astype(np.int8)))
    kept = np.zeros(len(flat), dtype=bool)
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        if stop - start >= _CLIPPED_RUN:
            kept[start:stop] = True
    return kept
