"""Measures: known offsets, known clipping, known noise, and fingerprints that tell copies from others."""

import pytest
import torch

from tests.audio.signals import tone
from tests.sounds import speech
from utils.audio.decode import load_audio
from utils.audio.measure import clipped_share, dc_offset, estimate_snr, fingerprint, speech_share
from utils.audio.resample import resample
from utils.audio.voice_activity import VAD_RATE, load_voice_activity
from utils.paths import assets_folder

RATE = 22_050


def _voice(count: int) -> list[torch.Tensor]:
    """The first clips of the bundled voice, [1, T] each."""
    return [load_audio(path, RATE) for path in sorted((assets_folder() / "demo_voice" / "wavs").iterdir())[:count]]


def _noise_like(wav: torch.Tensor, level: float) -> torch.Tensor:
    return level * torch.randn(wav.shape, generator=torch.Generator().manual_seed(3))


def test_the_offset_is_the_mean() -> None:
    assert dc_offset(tone(1, RATE) + 0.02) == pytest.approx(0.02, abs=1e-4)


@pytest.mark.parametrize("volume", [1.0, 0.3])
def test_flat_tops_are_clipping_also_when_made_quieter(volume: float) -> None:
    clipped = (1.5 * tone(1, RATE, amplitude=1.0)).clamp(-1, 1) * volume
    # A sine of 1.5 is beyond 1 for acos(1 / 1.5) * 2 / pi of its time.
    assert clipped_share(clipped) == pytest.approx(0.535, abs=0.03)


@pytest.mark.parametrize("wav", [tone(1, RATE), tone(1, RATE, hertz=60, amplitude=0.9), speech(2.0), torch.zeros(1, 9)])
def test_what_is_not_clipped_has_no_share(wav: torch.Tensor) -> None:
    pcm = (wav * 32768).round() / 32768
    assert clipped_share(pcm) < 0.001


@pytest.mark.parametrize("snr", [5, 10, 20, 30])
def test_known_noise_is_estimated(snr: int) -> None:
    silence = torch.zeros(1, RATE)
    model = load_voice_activity()
    for wav in _voice(3):
        padded = torch.cat([silence, wav, silence], dim=1)
        level = float(wav.square().mean()) ** 0.5 * 10 ** (-snr / 20)
        noisy = padded + _noise_like(padded, level)
        heard, _ = model(resample(noisy, RATE, VAD_RATE))
        assert estimate_snr(noisy, RATE, heard) == pytest.approx(snr, abs=3)
        assert estimate_snr(noisy, RATE) == pytest.approx(snr, abs=4)


def test_the_share_of_speech_is_that_of_the_clip() -> None:
    wav = _voice(1)[0]
    padded = torch.cat([wav, torch.zeros(1, wav.shape[1])], dim=1)
    model = load_voice_activity()
    whole, half = (speech_share(model(resample(part, RATE, VAD_RATE))[0]) for part in (wav, padded))
    assert whole > 0.8
    assert half == pytest.approx(whole / 2, abs=0.1)


def test_copies_share_a_fingerprint_and_other_clips_do_not() -> None:
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
def test_a_fingerprint_of_next_to_nothing_is_still_one(count: int) -> None:
    assert fingerprint(torch.zeros(1, count), RATE).isfinite().all()
