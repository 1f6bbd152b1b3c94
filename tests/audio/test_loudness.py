"""Loudness: BS.1770's own reference signal, targets that are met, and peaks that are never clipped."""

import math

import numpy as np
import pyloudnorm
import pytest
import torch

from tests.audio.signals import tone
from utils.audio.clean import CEILING, loudness, normalize_loudness


def test_the_reference_tone_has_its_reference_loudness():
    # BS.1770-4: 0 dBFS at 997 Hz in one channel reads -3.01 LKFS.
    wav = tone(5, 48_000, hertz=997, amplitude=1.0)
    assert loudness(wav, 48_000) == pytest.approx(-3.01, abs=0.1)


@pytest.mark.parametrize("rate", [11_025, 22_050, 44_100])
@pytest.mark.parametrize("seconds", [0.05, 0.4, 0.47, 3.0])
def test_the_loudness_is_that_of_pyloudnorm(rate, seconds):
    wav = torch.randn(2, round(seconds * rate), generator=torch.Generator().manual_seed(1))
    wav *= torch.linspace(-5, 0, wav.shape[1]).exp() * 0.1
    whole = wav.repeat(1, 1 + round(0.4 * rate) // wav.shape[1])[:, : max(wav.shape[1], round(0.4 * rate))]
    expected = pyloudnorm.Meter(rate).integrated_loudness(whole.numpy().T.astype(np.float64))
    assert loudness(whole, rate) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("target", [-60.0, -23.0])
def test_the_loudness_after_is_what_the_amplified_sound_measures(target):
    # Quiet enough that its second half passes the gate of -70 LUFS only when it is amplified.
    wav = torch.cat([tone(2, 22_050, amplitude=0.0009), tone(2, 22_050, amplitude=0.0004)], dim=1)
    done, _, level = normalize_loudness(wav, 22_050, target)
    assert level == pytest.approx(loudness(done, 22_050), abs=1e-5)


@pytest.mark.parametrize("target", [-30.0, -23.0, -16.0])
def test_the_target_is_met(target):
    wav, gain, _ = normalize_loudness(tone(2, 22_050, amplitude=0.05), 22_050, target)
    assert loudness(wav, 22_050) == pytest.approx(target, abs=0.1)
    assert gain == pytest.approx(target - loudness(tone(2, 22_050, amplitude=0.05), 22_050), abs=0.1)


def test_peaks_hold_the_gain_back():
    wav = tone(2, 22_050, amplitude=0.01)
    wav[0, 1000] = 0.5
    loud, gain, _ = normalize_loudness(wav, 22_050, -16.0)
    assert float(loud.abs().max()) == pytest.approx(CEILING)
    assert gain == pytest.approx(20 * math.log10(CEILING / 0.5), abs=0.01)


def test_silence_stays_silence():
    wav = torch.zeros(1, 22_050)
    assert loudness(wav, 22_050) == -math.inf
    same, gain, level = normalize_loudness(wav, 22_050, -23.0)
    assert same is wav and gain == 0 and level == -math.inf


def test_a_clip_shorter_than_a_gating_block_has_a_loudness_too():
    short, longer = tone(0.1, 22_050, hertz=1000), tone(2, 22_050, hertz=1000)
    assert loudness(short, 22_050) == pytest.approx(loudness(longer, 22_050), abs=0.3)
