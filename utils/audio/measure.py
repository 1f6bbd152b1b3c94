"""Measure a clip: offset, clipping, noise, share of speech, and a fingerprint that copies have in common.

Shapes: T samples, F voice activity frames of 32 ms.
"""

import math
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchaudio import functional

from utils.audio.trim import frame_levels
from utils.audio.voice_activity import FRAME, VAD_RATE

SPEECH = 0.5
"""Probability from which a frame counts as speech: silero's own default."""
MAX_SNR = 80.0
"""Digital silence between words would be infinitely clean; 16-bit recordings end near 96 dB."""
FINGERPRINT = (16, 24)
"""Mel bands and stretches of time that a fingerprint holds."""

_CLIPPED_RUN = 4
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
    peak = float(np.abs(samples).max(initial=0.0))
    if peak < 0.05:
        return 0.0
    clipped = np.abs(samples) >= 1 - _STEP
    for side in (samples, -samples):
        top = float(side.max())
        # The other side of an asymmetric voice is not clipped just because it has a highest sample.
        if top >= 0.05:
            clipped = clipped | _in_runs(side >= top - _STEP)
    return float(clipped.mean())


def speech_share(speech: Tensor) -> float:
    """Share of a clip, 0 to 1, in which somebody speaks.

    Args:
        speech: probabilities from `VoiceActivity`, [F].
    """
    return float((speech >= SPEECH).float().mean())


def estimate_snr(wav: Tensor, sample_rate: int, speech: Tensor | None = None) -> float:
    """Signal-to-noise ratio in dB, estimated: level while somebody speaks against the level of the pauses.

    Args:
        wav: mono audio with its pauses, [1, T]: before edges are cut.
        sample_rate: in Hz.
        speech: probabilities from `VoiceActivity`, [F]; without them, or where it finds no pause of 0.1 s, the
            quietest tenth of the frames counts as pause and the louder half as speech.

    Returns:
        At most 80; an estimate from one short clip is good to some 3 dB.
    """
    level = frame_levels(wav, sample_rate)
    power = 10 ** (level / 10)
    loud, pause = level >= np.median(level), level <= np.percentile(level, 10)
    if speech is not None:
        voiced = _at_frames(speech, len(level))
        # Noise as loud as the voice can lead the model astray: its pauses must be quieter than its speech.
        if voiced.sum() >= 10 and (~voiced).sum() >= 10 and np.median(level[voiced]) > np.median(level[~voiced]):
            loud, pause = voiced, ~voiced
    # The median: consonants at the edge of a pause are not noise.
    noise = float(np.median(power[pause]))
    signal = max(float(power[loud].mean()) - noise, 1e-12)
    return float(np.clip(10 * math.log10(signal / max(noise, 1e-12)), -20.0, MAX_SNR))


def edge_levels(wav: Tensor, sample_rate: int) -> tuple[float, float]:
    """How loud a clip begins and ends, in dB below its speech: near 0 means that a word was cut.

    Args:
        wav: mono audio, [1, T].
        sample_rate: in Hz.

    Returns:
        Level of the first and of the last 5 ms, relative to the loudest twentieth of the frames; seldom above 0. Words
        do not begin that fast by themselves.
    """
    loud = float(np.percentile(frame_levels(wav, sample_rate), 95))
    edge = max(1, round(0.005 * sample_rate))
    powers = (float(part.double().square().mean()) for part in (wav[:, :edge], wav[:, -edge:]))
    first, last = (10 * math.log10(max(power, 1e-12)) - loud for power in powers)
    return first, last


def fingerprint(wav: Tensor, sample_rate: int) -> Tensor:
    """A unit vector that copies of one recording share, whatever their loudness, format and rate: [16 * 24].

    Mel energies in dB over 24 equal stretches of time, without their mean per band: what an equaliser, another gain or
    a codec changes is taken out, the rhythm and melody of what is said stays.

    Args:
        wav: mono audio, [1, T]; silence at its edges is left out, so that the stretches lie at the same places of both.
        sample_rate: in Hz, at least 8 000.
    """
    size, stretches = 512, FINGERPRINT[1]
    wav = torch.nn.functional.pad(_core(wav, sample_rate), (0, size))
    spectrum = functional.spectrogram(
        wav, 0, torch.hann_window(size), size, size // 2, size, power=2.0, normalized=False, center=True
    )[0]
    filters = _mel_filters(sample_rate, size)
    mel = filters.T @ spectrum
    pooled = torch.nn.functional.adaptive_avg_pool1d(mel[None], stretches)[0]
    level = 10 * (pooled + 1e-9 * float(pooled.max()) + 1e-12).log10()
    level = level.clamp(min=float(level.max()) - 60)
    centred = (level - level.mean(dim=1, keepdim=True)).flatten()
    return torch.nn.functional.normalize(centred, dim=0)


@lru_cache(maxsize=4)
def _mel_filters(sample_rate: int, size: int) -> Tensor:
    return functional.melscale_fbanks(size // 2 + 1, 100.0, 3_800.0, FINGERPRINT[0], sample_rate)


def _core(wav: Tensor, sample_rate: int) -> Tensor:
    """From the first to the last frame within 25 dB of the loudest: noise hardly moves where that begins."""
    level = frame_levels(wav, sample_rate)
    loud = np.flatnonzero(level >= np.percentile(level, 95) - 25)
    hop = round(0.01 * sample_rate)
    return wav[:, int(loud[0]) * hop : (int(loud[-1]) + 2) * hop]


def _at_frames(speech: Tensor, count: int) -> NDArray[np.bool_]:
    """Voice activity at the frames of `frame_levels`, which begin every 10 ms."""
    times = (np.arange(count) * 0.01 + 0.0125) * VAD_RATE / FRAME
    return (speech.numpy() >= SPEECH)[np.minimum(times.astype(int), len(speech) - 1)]


def _in_runs(flat: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Samples that stand in a run of at least `_CLIPPED_RUN`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flat, [False]]).astype(np.int8)))
    kept = np.zeros(len(flat), dtype=bool)
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        if stop - start >= _CLIPPED_RUN:
            kept[start:stop] = True
    return kept
