"""Pauses are found by level in clean and in noisy speech, and the length of the parts read does not matter."""

import numpy as np
import pytest
import torch

from tests.audio.signals import tone
from utils.audio.voice_activity import find_pauses, stream_levels

RATE = 8_000


def _talk(*seconds: float, noise: float = 0.0) -> torch.Tensor:
    """Tone and silence in turns, [1, N]."""
    parts = [
        tone(length, RATE) if index % 2 == 0 else torch.zeros(1, round(length * RATE))
        for index, length in enumerate(seconds)
    ]
    wav = torch.cat(parts, dim=1)
    return wav + noise * torch.randn(wav.shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.03])
def test_a_pause_is_found_where_it_is(noise):
    (pause,) = find_pauses(stream_levels([_talk(3.0, 0.5, 4.0, noise=noise)], RATE))
    assert pause.start_s == pytest.approx(3.0, abs=0.04) and pause.end_s == pytest.approx(3.5, abs=0.04)


def test_the_closure_of_a_consonant_is_no_pause():
    assert find_pauses(stream_levels([_talk(2.0, 0.1, 2.0)], RATE)) == []


def test_a_click_does_not_divide_a_pause():
    (pause,) = find_pauses(stream_levels([_talk(2.0, 0.3, 0.005, 0.3, 2.0)], RATE))
    assert pause.seconds == pytest.approx(0.6, abs=0.1)


def test_steady_noise_has_no_pauses_and_silence_is_one():
    noise = 0.1 * torch.randn(1, 10 * RATE, generator=torch.Generator().manual_seed(1))
    assert find_pauses(stream_levels([noise], RATE)) == []
    (pause,) = find_pauses(stream_levels([torch.zeros(1, 10 * RATE)], RATE))
    assert (pause.start_s, pause.end_s) == (0.0, 10.0)


def test_a_constant_offset_counts_as_silence():
    levels = stream_levels([torch.full((1, 2 * RATE), 0.4)], RATE)
    assert levels.max() < -100


@pytest.mark.parametrize("size", [1_000, 7_919, 100_000])
@pytest.mark.parametrize("rate", [8_000, 11_025, 44_100])
def test_levels_do_not_depend_on_how_the_recording_is_read(size, rate):
    wav = torch.randn(1, 3 * rate + 17, generator=torch.Generator().manual_seed(1)) * 0.1
    whole = stream_levels([wav], rate)
    assert np.array_equal(stream_levels(wav.split(size, dim=1), rate), whole)
    assert len(whole) == 301


def test_nothing_has_no_levels_and_no_pauses():
    assert find_pauses(stream_levels([], RATE)) == []
