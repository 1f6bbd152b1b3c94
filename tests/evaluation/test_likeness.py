"""Pitch and spectrum against signals whose pitch and spectrum are known."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.evaluation.sounds import recording
from utils.evaluation.features import RATE
from utils.evaluation.likeness import difference, pitches, sound_of


def voice(hertz: Tensor) -> Tensor:
    """Harmonics of a pitch that may move, [1, N]."""
    phase = 2 * torch.pi * torch.cumsum(hertz, 0) / RATE
    return 0.1 * sum(torch.sin(harmonic * phase) / harmonic for harmonic in range(1, 12))[None]


@pytest.mark.parametrize("hertz", [80.0, 123.4, 220.0, 390.0])
def test_the_pitch_of_a_steady_voice(hertz):
    found = pitches(voice(torch.full((RATE,), hertz)))
    assert len(found) > 60
    assert np.median(found) == pytest.approx(hertz, rel=0.01)


def test_the_range_of_a_gliding_voice():
    pitch_hz, pitch_range, _ = sound_of(voice(100 * 2 ** torch.linspace(0, 1, 3 * RATE)))
    assert pitch_hz == pytest.approx(141.4, rel=0.02)
    assert pitch_range == pytest.approx(0.8 * 12, abs=0.4)


def test_noise_and_silence_have_no_pitch():
    assert len(pitches(0.1 * torch.randn(1, RATE, generator=torch.Generator().manual_seed(1)))) < 5
    assert len(pitches(torch.zeros(1, RATE))) == 0
    assert np.isnan(difference(sound_of(torch.zeros(1, RATE)), sound_of(recording(2)))["pitch"])


def test_a_voice_is_near_itself_and_far_from_another():
    own = sound_of(torch.cat([recording(2), recording(6)], dim=1))
    again = difference(own, sound_of(torch.cat([recording(8), recording(10)], dim=1)))
    # Played slower by a third, pitch falls by 12 log2(4/3) = 5 semitones, and the spectrum moves as well.
    lower = torch.nn.functional.interpolate(recording(8)[None], scale_factor=4 / 3, mode="linear")[0]
    other = difference(own, sound_of(lower))
    assert again["pitch"] < 1
    assert other["pitch"] == pytest.approx(5, abs=1)
    assert other["spectrum"] > 1.5 * again["spectrum"]


def test_how_loud_a_voice_is_does_not_matter():
    apart = difference(sound_of(recording(2)), sound_of(0.3 * recording(2)))
    assert (apart["pitch"], apart["spectrum"]) == (pytest.approx(0, abs=0.2), pytest.approx(0, abs=0.2))
