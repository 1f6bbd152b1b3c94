"""Scores of voices and quality: another voice stands out, each clip is scored once, DNSMOS is used where installed."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.dataset.recordings import config, demo_clips, make_source
from utils.audio.decode import load_audio
from utils.audio.resample import resample
from utils.bases import speaker_encoder
from utils.bases.find import find_base
from utils.dataset.build import prepare
from utils.dataset.quality import scorers as judges_module
from utils.dataset.quality.measures import flag_clips
from utils.dataset.quality.scorers import CROP_S, FastSpeakerEncoder, Scorers, crops, has_dnsmos, packed
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.report import ClipReport, Report
from utils.options import DATASET_RATE, SPEAKER_RATE
from utils.project.paths import Project

STAND_IN = """
def run(sample, sr):
    assert sr == 16_000 and sample.ndim == 1 and abs(sample).max() <= 1
    return {"ovrl_mos": 1.25 if len(sample) > 2.5 * sr else 3.5, "sig_mos": 4.0, "bak_mos": 4.0}
"""


def _clip(number: int, speaker: str) -> ClipReport:
    return ClipReport(
        source=f"/in/{speaker}{number}.wav",
        status="used",
        # As long as the others, and not the same.
        text=f"{speaker[0]}bcde {chr(97 + number)} words",
        speaker=speaker,
        num_samples=DATASET_RATE,
        wav_hash=f"{speaker}{number}",
    )


def _voices(clips: list[ClipReport], said_by: dict[str, str]) -> dict[str, str]:
    """Embeddings near that of who really speaks."""
    rng = np.random.default_rng(1)
    middles = {name: torch.from_numpy(rng.normal(size=64)) for name in ("anna", "ben")}
    noise = {clip.wav_hash: torch.from_numpy(rng.normal(size=64)) * 0.2 for clip in clips}
    return {
        clip.wav_hash: packed(middles[said_by.get(clip.wav_hash, clip.speaker)] + noise[clip.wav_hash])
        for clip in clips
    }


def test_a_clip_in_another_voice_than_its_speakers_others_is_flagged():
    clips = [_clip(n, speaker) for speaker in ("anna", "ben") for n in range(12)]
    voices = _voices(clips, {"anna5": "ben"})
    found = flag_clips(clips, voices=voices, loudness=None)
    flagged = {clip.wav_hash: [flag.measure for flag in clip.flags] for clip in found if clip.flags}
    assert flagged == {"anna5": ["another voice"]}
    assert "similarity" in found[5].flags[0].detail and "anna" in found[5].flags[0].detail
    assert all(clip.measures["voice"] > 0.9 for clip in found if clip.wav_hash != "anna5")
    assert found[5].measures["voice"] < 0.5


def _measured(source: Path, output: Path, **more: object) -> PrepareConfig:
    return config(source, output, workers=1, **({"quality": True, "check_quality": False} | more))


def test_the_bases_own_speaker_encoder_embeds_each_voice_once(tmp_path, monkeypatch):
    source = make_source(tmp_path / "in", 3)
    report = prepare(_measured(source, tmp_path / "out"))
    encoder = speaker_encoder.load_speaker_encoder(find_base("tiny"))
    embedded = []
    for clip in demo_clips(3):
        wav = load_audio(clip.audio, DATASET_RATE)
        length = round(CROP_S * DATASET_RATE)
        assert wav.shape[1] <= 2 * length, "all of it is embedded in two parts, from its beginning and from its end"
        with torch.inference_mode():
            parts = [
                encoder(resample(part, DATASET_RATE, SPEAKER_RATE), l2_norm=True)[0]
                for part in (wav[:, :length], wav[:, -length:])
            ]
        embedded.append((parts[0] + parts[1]) / (parts[0] + parts[1]).norm())
    for number, clip in enumerate(report.used):
        others = sum(voice for other, voice in enumerate(embedded) if other != number)
        expected = torch.cosine_similarity(embedded[number], others, dim=0)
        assert clip.measures["voice"] == pytest.approx(float(expected), abs=0.02)
    monkeypatch.setattr(speaker_encoder, "load_speaker_encoder", None)
    again = prepare(_measured(source, tmp_path / "out"))
    assert [clip.measures for clip in again.used] == [clip.measures for clip in report.used]


@pytest.mark.slow
@pytest.mark.parametrize("base", ["tiny", "starter"])
def test_the_encoder_for_many_crops_gives_the_embeddings_of_the_bases_own(base):
    wavs = crops(torch.cat([load_audio(clip.audio, DATASET_RATE) for clip in demo_clips(8)], dim=1))
    assert len(wavs) > 8, "more than are embedded at once"
    with torch.inference_mode():
        expected = speaker_encoder.load_speaker_encoder(find_base(base))(wavs.clone(), l2_norm=True)
    found = FastSpeakerEncoder(speaker_encoder.load_speaker_encoder(find_base(base)))(wavs)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def _page_and_report(output: Path) -> tuple[str, Report]:
    project = Project(name="voice", output=output)
    return project.page.read_text(encoding="utf-8"), Report.load(project.report)


@pytest.mark.skipif(has_dnsmos(), reason="speechmos is installed")
def test_without_its_package_dnsmos_is_reported_as_not_asked(tmp_path):
    settings = _measured(make_source(tmp_path / "in", 2), tmp_path / "out", check_quality=True, check_speakers=False)
    prepare(settings)
    page, report = _page_and_report(tmp_path / "out")
    assert report.settings["dnsmos"] == "not asked: the package speechmos is not installed"
    assert "speechmos is not installed" in page
    assert not any("mos" in clip.measures for clip in report.used)


def test_with_its_package_dnsmos_judges_each_clip_and_bad_sound_is_flagged(tmp_path, monkeypatch):
    (tmp_path / "site" / "speechmos").mkdir(parents=True)
    (tmp_path / "site" / "speechmos" / "__init__.py").touch()
    (tmp_path / "site" / "speechmos" / "dnsmos.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path / "site")
    for name in ("speechmos", "speechmos.dnsmos"):
        # Neither the real one is asked here, nor this one in other tests.
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    importlib.invalidate_caches()
    settings = _measured(make_source(tmp_path / "in", 4), tmp_path / "out", check_quality=True, check_speakers=False)
    prepare(settings)
    page, report = _page_and_report(tmp_path / "out")
    assert report.settings["dnsmos"] == "asked"
    assert {clip.measures["mos"] for clip in report.used} == {1.25, 3.5}
    for clip in report.used:
        is_flagged = any(flag.measure == "sound quality" for flag in clip.flags)
        assert is_flagged == (clip.measures["mos"] < 2)
    assert "DNSMOS" in page
    monkeypatch.setattr(judges_module, "import_module", None)
    assert [clip.measures for clip in prepare(settings).used] == [clip.measures for clip in report.used]


def test_the_real_dnsmos_prefers_speech_to_noise():
    pytest.importorskip("speechmos", reason="not a requirement: users who want its score install it")
    scorers, voice = Scorers(dnsmos=True), load_audio(demo_clips(3)[2].audio, DATASET_RATE)
    noise = voice + 0.2 * torch.randn(voice.shape, generator=torch.Generator().manual_seed(1))
    (clean,), (noisy,) = (scorers.score({"one": wav})["one"].values() for wav in (voice, noise.clamp(-1, 1)))
    assert 1 <= noisy < clean <= 5
