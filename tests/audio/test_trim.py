"""Trimming: silence goes, endings stay, and where speech does not stand out nothing is cut."""

import pytest
import torch

from tests.audio.signals import tone
from tests.sounds import speech
from utils.audio.clean import sound_bounds

RATE = 22_050


def _noise(seconds: float, level: float) -> torch.Tensor:
    return level * torch.randn(1, round(seconds * RATE), generator=torch.Generator().manual_seed(1))


def _bounds(wav: torch.Tensor) -> tuple[float, float]:
    start, stop = sound_bounds(wav, RATE, lead_s=0.1, tail_s=0.25)
    return start / RATE, stop / RATE


@pytest.mark.parametrize("level", [0.0, 0.0003])
def test_silence_goes_and_the_kept_edges_stay(level):
    wav = torch.cat([_noise(1, level), tone(2, RATE), _noise(1.5, level)], dim=1)
    start, stop = _bounds(wav)
    assert start == pytest.approx(0.9, abs=0.03)
    assert stop == pytest.approx(3.25, abs=0.05)


def test_a_weak_ending_is_not_cut_into():
    # A last consonant 28 dB below the vowels, then a pause at -70 dB.
    wav = torch.cat([tone(1, RATE), tone(0.3, RATE, amplitude=0.02), _noise(1, 0.0003)], dim=1)
    assert _bounds(wav)[1] == pytest.approx(1.55, abs=0.05)


def test_a_click_in_the_silence_is_not_the_beginning():
    wav = torch.cat([torch.zeros(1, RATE), tone(2, RATE), torch.zeros(1, RATE)], dim=1)
    wav[0, 2000:2010] = 0.5
    assert _bounds(wav)[0] == pytest.approx(0.9, abs=0.03)


def test_in_loud_noise_nothing_is_cut():
    wav = torch.cat([_noise(1, 0.05), tone(2, RATE) + _noise(2, 0.05), _noise(1, 0.05)], dim=1)
    assert _bounds(wav) == (0, wav.shape[1] / RATE)


def test_speech_without_edges_is_left_whole():
    wav = speech(2.0)
    start, stop = sound_bounds(wav, RATE, lead_s=0.1, tail_s=0.25)
    assert start < 0.2 * RATE and stop > 1.8 * RATE


@pytest.mark.parametrize("count", [1, 100, 700])
def test_the_shortest_and_silent_clips_are_left_whole(count):
    assert sound_bounds(torch.zeros(1, count), RATE, lead_s=0.1, tail_s=0.25) == (0, count)
