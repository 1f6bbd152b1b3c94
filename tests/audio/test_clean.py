"""Cleaning: what is requested is done, all else stays bit-identical, and both are reported."""

import pytest
import torch

from tests.audio.signals import tone
from tests.sounds import speech
from utils.audio.clean import Cleaning, clean, high_pass, loudness

RATE = 22_050


def test_without_settings_nothing_changes():
    wav = speech(1.5) + 0.01
    done = clean(wav, RATE, Cleaning())
    assert done.wav is wav and (done.start, done.gain_db) == (0, 0.0)


def test_everything_at_once_is_done_in_order():
    wav = torch.cat([torch.zeros(1, RATE), speech(2.0), torch.zeros(1, RATE)], dim=1) + 0.05
    done = clean(wav, RATE, Cleaning(loudness=-23.0, trim=True, remove_dc=True, highpass=60.0))
    assert abs(float(done.wav.mean())) < 1e-3
    assert done.wav.shape[1] < 2.6 * RATE
    assert done.start == pytest.approx(0.9 * RATE, abs=0.1 * RATE)
    assert loudness(done.wav, RATE) == pytest.approx(-23.0, abs=0.2)


def test_a_high_pass_takes_rumble_and_leaves_the_voice():
    voice, rumble = tone(2, RATE, hertz=300), tone(2, RATE, hertz=20)
    filtered = high_pass(voice + rumble, RATE, 80.0)
    inner = slice(RATE // 2, -RATE // 2)
    difference = (filtered - voice)[:, inner]
    assert float(difference.abs().max()) < 0.02, "in phase, and the rumble 48 dB down"
    assert float(high_pass(tone(2, RATE, hertz=80), RATE, 80.0)[:, inner].abs().max()) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("count", [1, 2, 50])
def test_a_high_pass_takes_clips_of_a_few_samples(count):
    assert high_pass(torch.ones(1, count), RATE, 80.0).shape == (1, count)
