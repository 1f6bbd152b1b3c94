"""The pitch of tones, glides and noise is known."""

import math

import pytest
import torch

from utils.audio.pitch import track_pitch

RATE, HOP = 24_000, 256


def tone(hertz: torch.Tensor) -> torch.Tensor:
    """Ten harmonics of a pitch in Hz for each sample, [1, N]."""
    phase = (hertz.double() / RATE).cumsum(0)
    return sum((2 * math.pi * k * phase).sin() / k for k in range(1, 11)).float()[None] * 0.1


@pytest.mark.parametrize("hertz", [75.0, 120.0, 221.0, 400.0])
def test_a_steady_tone_has_its_pitch(hertz):
    found = track_pitch(tone(torch.full((RATE,), hertz)), RATE, HOP)
    assert found.shape == (1, -(-RATE // HOP))
    inner = found[0, 3:-3]
    assert (12 * (inner / hertz).log2()).abs().max() < 0.2


def test_a_glide_is_followed():
    hertz = torch.linspace(100, 200, RATE)
    found = track_pitch(tone(hertz), RATE, HOP)[0, 3:-3]
    truth = hertz[HOP // 2 :: HOP][: found.shape[0] + 6][3 : 3 + len(found)]
    assert (12 * (found / truth).log2()).abs().max() < 0.3


def test_noise_and_silence_are_not_voiced():
    noise = 0.1 * torch.randn(1, RATE, generator=torch.Generator().manual_seed(1))
    assert (track_pitch(noise, RATE, HOP) > 0).float().mean() < 0.05
    assert not track_pitch(torch.zeros(1, RATE), RATE, HOP).any()
    assert not track_pitch(1e-4 * tone(torch.full((RATE,), 150.0)), RATE, HOP).any()


def test_rows_of_a_batch_are_judged_alone_and_the_shortest_sound_has_a_frame():
    both = torch.cat([tone(torch.full((RATE,), 150.0)), torch.zeros(1, RATE)])
    found = track_pitch(both, RATE, HOP)
    assert torch.equal(found[:1], track_pitch(both[:1], RATE, HOP)) and not found[1].any()
    assert track_pitch(torch.zeros(1, 1), RATE, HOP).shape == (1, 1)
