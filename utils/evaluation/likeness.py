"""Measure similarity to the voice: pitch and spectrum, which no loss optimizes, and speaker embeddings.

Shapes: N samples at 16 000 Hz, T frames, K mel bands.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from utils.audio.pitch import track_pitch
from utils.evaluation.features import RATE, active, log_mels

PITCH_HOP = 200
DB = 20 / np.log(10)


VoiceMeasures = tuple[float, float, NDArray[np.float32]]
"""What is measured of a voice without any training: median pitch of voiced frames in Hz, not a number where nothing is
voiced; from the 10th to the 90th percentile of pitch, in semitones; long-term average of each mel band in dB, mean 0,
[K]."""


def sound_of(wav: Tensor) -> VoiceMeasures:
    """Pitch and spectrum of speech, [1, N]."""
    voiced = pitches(wav)
    low, middle, high = np.percentile(voiced, (10, 50, 90)) if len(voiced) else (np.nan,) * 3
    mels, is_active = log_mels(wav), active(wav)
    kept = mels[: len(is_active)][torch.from_numpy(is_active[: len(mels)])]
    spectrum = (kept.exp().square().mean(0).clamp(min=1e-12).log().numpy() / 2 if len(kept) else np.zeros(1)) * DB
    return float(middle), float(12 * np.log2(high / low)), (spectrum - spectrum.mean()).astype(np.float32)


def difference(one: VoiceMeasures, other: VoiceMeasures) -> dict[str, float]:
    """How far two voices are apart: median pitch and its range in semitones, spectrum in dB (root mean square).

    Pitches are not numbers where a voice is not voiced.
    """
    (pitch, pitch_range, spectrum), (other_pitch, other_range, other_spectrum) = one, other
    return {
        "pitch": float(abs(12 * np.log2(pitch / other_pitch))),
        "pitch_range": abs(pitch_range - other_range),
        "spectrum": float(np.sqrt(((spectrum - other_spectrum) ** 2).mean())),
    }


def pitches(wav: Tensor) -> NDArray[np.float64]:
    """Pitch of each voiced frame of speech in Hz."""
    found = track_pitch(wav, RATE, PITCH_HOP)[0]
    return np.asarray(found[found > 0], dtype=np.float64)
