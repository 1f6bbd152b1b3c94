"""Flags: each fault that people make is found, clean clips are left alone, and cleaning is recorded and redone."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from tests.dataset.recordings import add_row, config, demo_clips, make_source
from utils.audio.clean import loudness
from utils.audio.decode import load_audio
from utils.audio.write import write_wav
from utils.dataset.build import prepare
from utils.dataset.quality.measures import outliers
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.report import Report
from utils.options import DATASET_RATE

_WITH = {"quality": True, "check_speakers": False}


def _settings(source: Path, output: Path, **more: object) -> PrepareConfig:
    clean: dict[str, object] = {"loudness": -23.0, "trim": True, "remove_dc": True}
    return config(source, output, **(clean | _WITH | more))


def _flags(report: Report) -> dict[str, set[str]]:
    return {Path(c.source).stem: {flag.measure for flag in c.flags} for c in report.used if c.flags}


def test_each_fault_is_flagged_by_name_and_clean_clips_are_not(tmp_path):
    source = make_source(tmp_path / "in", 12)
    voice = [load_audio(clip.audio, DATASET_RATE) for clip in demo_clips(18)[12:]]
    noise = 0.1 * torch.randn(voice[0].shape, generator=torch.Generator().manual_seed(1))
    made = {
        "noisy": (voice[0] + noise, "One."),
        "clipped": ((8 * voice[1]).clamp(-1, 1), "Two."),
        "silent": (torch.cat([voice[2][:, : 2 * DATASET_RATE], torch.zeros(1, 8 * DATASET_RATE)], 1), "Three."),
        "copy": (0.5 * load_audio(demo_clips(4)[3].audio, DATASET_RATE) + 0.0003, "Four."),
    }
    for name, (wav, text) in made.items():
        write_wav(source / f"{name}.wav", wav, DATASET_RATE)
        add_row(source, f"{name}.wav", text)
    add_row(source, "wavs/demo-01.flac", "ignored, the same file twice")
    report = prepare(_settings(source, tmp_path / "out", trim=False))
    found = _flags(report)
    assert "noise" in found["noisy"]
    assert "clipping" in found["clipped"]
    assert "little speech" in found["silent"]
    assert "nearly the same sound" in found["copy"]
    assert not {
        name: flags & {"noise", "clipping", "little speech"}
        for name, flags in found.items()
        if name.startswith("demo") and flags & {"noise", "clipping", "little speech"}
    }


def test_a_wrong_text_stands_out_by_its_rate():
    values = np.array([2.5, 2.6, 2.4, 2.55, 2.45, 2.5, 2.6, 2.4, 0.5])
    assert outliers(values).tolist() == [False] * 8 + [True]
    assert not outliers(values[2:])[:-1].any()
    assert not outliers(values[-3:]).any(), "three clips are too few to say"


def test_cleaning_is_recorded_and_redone_when_it_changes(tmp_path):
    source = make_source(tmp_path / "in", 4)
    first = prepare(_settings(source, tmp_path / "out"))
    wavs = tmp_path / "out" / "voice" / "dataset"
    assert all(
        loudness(load_audio(wavs / c.clip, DATASET_RATE), DATASET_RATE) == pytest.approx(-23, abs=0.3) or c.flags
        for c in first.used
    )
    assert {clip.cleaning for clip in first.used} == {first.settings["cleaning"]} != {""}
    again = prepare(_settings(source, tmp_path / "out", loudness=-30.0))
    assert {clip.cleaning for clip in again.used} == {again.settings["cleaning"]} != {first.settings["cleaning"]}
    assert [clip.split for clip in again.used] == [clip.split for clip in first.used], "nothing moves"
    for clip in again.used:
        assert loudness(load_audio(wavs / clip.clip, DATASET_RATE), DATASET_RATE) == pytest.approx(-30, abs=0.3)


def test_sounds_that_cleaning_makes_the_same_are_duplicates(tmp_path):
    source = make_source(tmp_path / "in", 3)
    pcm, rate = soundfile.read(demo_clips(3)[2].audio, dtype="int16")
    soundfile.write(source / "shifted.wav", np.concatenate([np.zeros(9_000, np.int16), pcm]), rate)
    add_row(source, "shifted.wav", "The same with more silence before it.")
    report = prepare(_settings(source, tmp_path / "out", remove_dc=False, loudness=None, keep_before=0.0))
    assert len({clip.wav_hash for clip in report.used}) == len(report.used)


@pytest.mark.parametrize("channel", ["left", "right", "louder"])
def test_the_channel_asked_for_is_used(tmp_path, channel):
    source = tmp_path / "in"
    source.mkdir()
    for number, clip in enumerate(demo_clips(2)):
        pcm, rate = soundfile.read(clip.audio, dtype="int16")
        quiet = (pcm // 4).astype(np.int16)
        left, right = (quiet, pcm) if channel == "right" else (pcm, quiet)
        soundfile.write(source / f"{number}.wav", np.stack([left, right], axis=1), rate)
        (source / f"{number}.txt").write_text(clip.text)
    report = prepare(config(source, tmp_path / "out", channel=channel))
    for clip, expected in zip(report.used, demo_clips(2), strict=True):
        sound = load_audio(tmp_path / "out" / "voice" / "dataset" / clip.clip, DATASET_RATE)
        assert torch.equal(sound, load_audio(expected.audio, DATASET_RATE))
