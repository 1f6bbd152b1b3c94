"""Noise is removed from a clip, in time with it; without the package that is a clear fault."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.dataset.recordings import config, make_source
from utils.audio import clean as module
from utils.audio.clean import denoise, has_denoiser, require_denoiser
from utils.audio.decode import load_audio
from utils.audio.measure import estimate_snr
from utils.dataset.build import prepare
from utils.dataset.storage.report import Report
from utils.errors import UserError
from utils.options import DATASET_RATE
from utils.project.paths import Project

VOICE = Path(__file__).resolve().parents[2] / "assets" / "demo_voice" / "wavs" / "demo-02.flac"
needs_package = pytest.mark.skipif(not has_denoiser(), reason="not a requirement: requirements-denoise.txt")


def noisy(level: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A clip of the bundled voice, [1, N], and the same in white noise."""
    voice = load_audio(VOICE, DATASET_RATE).reshape(1, -1)
    noise = torch.randn(voice.shape, generator=torch.Generator().manual_seed(1))
    return voice, voice + level * noise


@needs_package
def test_noise_falls_and_the_voice_stays_in_its_place():
    voice, given = noisy(0.02)
    cleaned = denoise(given, DATASET_RATE)
    assert cleaned.shape == given.shape and cleaned.dtype == torch.float32
    assert torch.equal(cleaned, denoise(given, DATASET_RATE))
    assert estimate_snr(cleaned, DATASET_RATE) > estimate_snr(given, DATASET_RATE) + 6
    likeness = np.correlate(cleaned[0].numpy(), voice[0, 200:-200].numpy())
    assert abs(int(likeness.argmax()) - 200) <= 2
    assert (cleaned - voice).square().mean() < 0.9 * (given - voice).square().mean()


@needs_package
@pytest.mark.parametrize("length", [1, 100, 479, 22_050])
def test_every_length_comes_back_and_silence_stays_silent(length):
    assert torch.equal(denoise(torch.zeros(1, length), DATASET_RATE), torch.zeros(1, length))


@needs_package
def test_a_dataset_is_denoised_and_says_by_how_much(tmp_path):
    source = make_source(tmp_path / "in", 3)
    plain = prepare(config(source, tmp_path / "out"))
    cleaned = prepare(config(source, tmp_path / "out", denoise=True, quality=True, check_speakers=False))
    assert {clip.wav_hash for clip in plain.used}.isdisjoint(clip.wav_hash for clip in cleaned.used)
    assert all("snr_before" in clip.measures for clip in cleaned.used)
    report = Report.load(Project(name="voice", output=tmp_path / "out").report)
    assert "noise removed: signal-to-noise ratio" in report.table()
    again = prepare(config(source, tmp_path / "out"))
    assert [clip.wav_hash for clip in again.used] == [clip.wav_hash for clip in plain.used]


def test_without_the_package_nothing_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pyrnnoise, which is not installed"):
        require_denoiser()
    with pytest.raises(UserError, match=r"requirements-denoise\.txt"):
        prepare(config(make_source(tmp_path / "in", 2), tmp_path / "out", denoise=True))
    assert not (tmp_path / "out" / "voice" / "dataset" / "report.json").exists()
