"""Measures: known offsets, known clipping, known noise, and fingerprints that tell copies from others."""

import numpy as np
import pytest
import torch

from tests.audio.signals import tone
from tests.sounds import speech
from utils.audio.clean import frame_levels
from utils.audio.decode import load_audio
from utils.audio.measure import clipped_share, dc_offset, edge_levels, estimate_snr, fingerprint, speech_share
from utils.audio.resample import resample
from utils.audio.voice_activity import VAD_RATE, load_voice_activity
from utils.dataset.quality.measures import EDGE
from utils.project.paths import assets_folder

RATE = 22_050


def _voice(count: int) -> list[torch.Tensor]:
    """The first clips of the bundled voice, [1, T] each."""
    return [load_audio(path, RATE) for path in sorted((assets_folder() / "demo_voice" / "wavs").iterdir())[:count]]


def _noise_like(wav: torch.Tensor, level: float) -> torch.Tensor:
    return level * torch.randn(wav.shape, generator=torch.Generator().manual_seed(3))


def test_the_offset_is_the_mean():
    assert dc_offset(tone(1, RATE) + 0.02) == pytest.approx(0.02, abs=1e-4)


@pytest.mark.parametrize("volume", [1.0, 0.3])
def test_flat_tops_are_clipping_also_when_made_quieter(volume):
    clipped = (1.5 * tone(1, RATE, amplitude=1.0)).clamp(-1, 1) * volume
    # A sine of 1.5 is beyond 1 for acos(1 / 1.5) * 2 / pi of its time.
    assert clipped_share(clipped) == pytest.approx(0.535, abs=0.03)


@pytest.mark.parametrize("wav", [tone(1, RATE), tone(1, RATE, hertz=60, amplitude=0.9), speech(2.0), torch.zeros(1, 9)])
def test_what_is_not_clipped_has_no_share(wav):
    pcm = (wav * 32768).round() / 32768
    assert clipped_share(pcm) < 0.001


@pytest.mark.parametrize("snr", [5, 10, 20, 30])
def test_known_noise_is_estimated(snr):
    silence = torch.zeros(1, RATE)
    model = load_voice_activity()
    for wav in _voice(3):
        padded = torch.cat([silence, wav, silence], dim=1)
        level = float(wav.square().mean()) ** 0.5 * 10 ** (-snr / 20)
        noisy = padded + _noise_like(padded, level)
        speech, _ = model(resample(noisy, RATE, VAD_RATE))
        assert estimate_snr(noisy, RATE, speech) == pytest.approx(snr, abs=3)
        assert estimate_snr(noisy, RATE) == pytest.approx(snr, abs=4)


@pytest.mark.parametrize(("snr", "worst"), [(None, 20), (20, 4), (10, 4), (5, 4)])
def test_noise_is_told_from_speech_without_pauses(snr, worst):
    """Clips that were cut tight: what is quiet in them is speech."""
    model = load_voice_activity()
    for wav in _voice(6):
        spoken = _loudest(wav, seconds=1.2)
        level = 0.0 if snr is None else float(spoken.square().mean()) ** 0.5 * 10 ** (-snr / 20)
        noisy = spoken + _noise_like(spoken, level)
        speech, _ = model(resample(noisy, RATE, VAD_RATE))
        found = estimate_snr(noisy, RATE, speech)
        assert found > worst if snr is None else found == pytest.approx(snr, abs=worst)


def _loudest(wav: torch.Tensor, *, seconds: float) -> torch.Tensor:
    """The part of a clip whose quietest moment is the loudest."""
    level, frames = frame_levels(wav, RATE), round(seconds * 100)
    quietest = [float(np.percentile(level[at : at + frames], 10)) for at in range(len(level) - frames)]
    start = round(int(np.argmax(quietest)) * 0.01 * RATE)
    return wav[:, start : start + round(seconds * RATE)]


def _cuts(wav: torch.Tensor) -> list[int]:
    """Samples within words: half a second apart, at any place of a period."""
    level = frame_levels(wav, RATE)
    within = np.flatnonzero(level > np.percentile(level, 95) - 6)
    return [int(at * 0.01 * RATE) + 37 * number % 220 for number, at in enumerate(within[15:-50:25])]


def test_words_that_were_cut_begin_or_end_loud_and_whole_clips_do_not():
    limit, found = EDGE, []  # (cut beginning, cut end)
    for wav in _voice(20):
        assert max(edge_levels(wav, RATE)) < limit
        for at in _cuts(wav):
            found.append((edge_levels(wav[:, at:], RATE)[0] > limit, edge_levels(wav[:, :at], RATE)[1] > limit))
    beginnings, ends = np.mean(found, axis=0)
    assert len(found) > 50 and beginnings > 0.75 and ends > 0.8


@pytest.mark.parametrize("hertz", [90, 120, 200])
def test_a_vowel_that_sets_in_is_no_cut_wherever_its_first_pulse_lies(hertz):
    """A synthesizer's file begins with a word: pulses of the voice, each louder than the one before."""
    for shift in range(0, RATE // hertz, 20):
        time = (torch.arange(RATE) + shift) / RATE
        pulse = torch.exp(-(time * hertz % 1) * 6) * torch.sin(2 * torch.pi * 600 * time)
        onset = (0.35 * pulse * (0.1 + time / 0.07).clamp(max=1.0))[None]
        assert edge_levels(onset, RATE)[0] < EDGE


def test_the_share_of_speech_is_that_of_the_clip():
    wav = _voice(1)[0]
    padded = torch.cat([wav, torch.zeros(1, wav.shape[1])], dim=1)
    model = load_voice_activity()
    whole, half = (speech_share(model(resample(part, RATE, VAD_RATE))[0]) for part in (wav, padded))
    assert whole > 0.7
    assert half == pytest.approx(whole / 2, abs=0.1)


def test_copies_share_a_fingerprint_and_other_clips_do_not():
    voice = _voice(12)
    prints = torch.stack([fingerprint(wav, RATE) for wav in voice])
    assert torch.allclose(prints.norm(dim=1), torch.ones(12))
    others = prints @ prints.T - torch.eye(12)
    assert float(others.max()) < 0.7
    for wav, own in zip(voice, prints, strict=True):
        quieter = torch.cat([torch.zeros(1, 9_000), 0.3 * wav], dim=1)
        telephone = resample(resample(wav, RATE, 16_000), 16_000, RATE)
        for copy in (quieter, telephone, wav + _noise_like(wav, 0.001)):
            assert float(fingerprint(copy, RATE) @ own) > 0.9


@pytest.mark.parametrize("count", [1, 100, 600])
def test_a_fingerprint_of_next_to_nothing_is_still_one(count):
    assert fingerprint(torch.zeros(1, count), RATE).isfinite().all()
