"""Preparing: the files that must be left behind, and every clip accounted for."""

import json
import shutil
from pathlib import Path

import pytest
import soundfile
import torch

from tests.audio.signals import encode, tone
from tests.dataset.sources import DEMO_VOICE, add_row, config, demo_clips, make_source
from utils.audio.decode import decode, load_audio
from utils.audio.write import write_wav
from utils.config import SAMPLE_RATE
from utils.dataset.build import prepare
from utils.dataset.manifest import read_manifest
from utils.dataset.report import ClipReport, Report
from utils.paths import Project


def _by_name(report: Report) -> dict[str, ClipReport]:
    return {Path(clip.source).name: clip for clip in report.clips}


def test_the_bundled_voice_becomes_a_dataset(tmp_path: Path) -> None:
    report = prepare(config(DEMO_VOICE, tmp_path))
    project = Project(name="voice", output=tmp_path)
    names = {path.name for path in project.dataset.iterdir()}
    assert names == {"wavs", "metadata_train.csv", "metadata_eval.csv", "lang.txt", "report.json"}
    assert project.language() == "en"
    train, held_out = read_manifest(project.train_csv), read_manifest(project.eval_csv)
    assert (len(train), len(held_out)) == (36, 4)
    texts = {clip.text: clip.audio for clip in demo_clips(40)}
    assert {clip.text for clip in train + held_out} == set(texts)
    for clip in train + held_out:
        info = soundfile.info(clip.audio)
        assert (info.samplerate, info.channels, info.subtype) == (SAMPLE_RATE, 1, "PCM_16")
        # 22 050 Hz, mono and 16 bit already: nothing may change.
        assert torch.equal(decode(clip.audio)[0], decode(texts[clip.text])[0])
        assert clip.speaker == "demo"
    assert len(list((project.dataset / "wavs").iterdir())) == 40
    assert Report.load(project.report) == report


def test_the_report_is_json_with_every_clip_by_name(tmp_path: Path) -> None:
    source = make_source(tmp_path / "in", 3)
    add_row(source, "gone.wav", "Not there.")
    prepare(config(source, tmp_path / "out"))
    report = json.loads((tmp_path / "out" / "voice" / "dataset" / "report.json").read_text(encoding="utf-8"))
    assert report["totals"]["clips"] == 4
    assert report["totals"]["used"] == 3
    assert report["totals"]["reasons"] == {"missing file": 1}
    assert report["settings"]["max_audio_length"] == 255_995
    assert [Path(clip["source"]).name for clip in report["clips"]][3] == "gone.wav"
    assert report["clips"][3] | {"status": "dropped", "reason": "missing file"} == report["clips"][3]


def test_every_fault_drops_its_clip_with_the_reason(tmp_path: Path) -> None:
    source = make_source(tmp_path / "in", 3)
    good = source / "wavs" / "demo-03.flac"
    write_wav(source / "short.wav", tone(0.3, SAMPLE_RATE), SAMPLE_RATE)
    write_wav(source / "long.wav", tone(12, SAMPLE_RATE), SAMPLE_RATE)
    write_wav(source / "silent.wav", torch.zeros(1, SAMPLE_RATE), SAMPLE_RATE)
    write_wav(source / "tone1.wav", tone(1, SAMPLE_RATE), SAMPLE_RATE)
    write_wav(source / "tone2.wav", tone(2, SAMPLE_RATE), SAMPLE_RATE)
    write_wav(source / "tone3.wav", tone(3, SAMPLE_RATE), SAMPLE_RATE)
    write_wav(source / "same.wav", load_audio(good, SAMPLE_RATE), SAMPLE_RATE)
    (source / "text.wav").write_text("no sound")
    (source / "empty.wav").touch()
    for name in ("short", "long", "silent", "same", "text", "empty", "gone"):
        add_row(source, f"{name}.wav", f"The file {name}.")
    add_row(source, "tone1.wav", "...")
    add_row(source, "tone2.wav", "Hello 🙂 and ⵣ.")
    add_row(source, "tone3.wav", "word " * 400)
    add_row(source, "../in/../../secret.wav", "Outside.")
    write_wav(source / "unlisted.wav", tone(4, SAMPLE_RATE), SAMPLE_RATE)
    report = prepare(config(source, tmp_path / "out"))
    found = {name: (clip.reason, clip.detail) for name, clip in _by_name(report).items() if clip.status == "dropped"}
    assert {name: reason for name, (reason, _) in found.items()} == {
        "short.wav": "too short",
        "long.wav": "too long",
        "silent.wav": "silent",
        "same.wav": "duplicate audio",
        "text.wav": "unreadable audio",
        "empty.wav": "unreadable audio",
        "gone.wav": "missing file",
        "tone1.wav": "empty text",
        "tone2.wav": "unknown characters",
        "tone3.wav": "text too long",
        "secret.wav": "outside the folder",
        "unlisted.wav": "no transcript",
    }
    assert found["short.wav"][1] == "0.30 s, the shortest clip is 0.5 s"
    assert found["long.wav"][1] == "longer than 11.6 s, the longest clip"
    assert found["same.wav"][1] == "the same sound as demo-03.flac"
    assert "🙂 (U+1F642 slightly smiling face)" in found["tone2.wav"][1]
    assert "ⵣ (U+2D63 tifinagh letter yaz)" in found["tone2.wav"][1]
    assert found["tone3.wav"][1].endswith("tokens, the limit is 200")
    assert report.totals["used"] == 3
    table = report.table()
    assert all(f"{name}: {reason}: {detail}" in table for name, (reason, detail) in found.items())


def test_any_format_rate_and_channels_become_22_050_hz_mono(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    stereo = torch.cat([tone(1, 44_100), tone(1, 44_100, hertz=300)])
    soundfile.write(source / "a.aiff", stereo.T.numpy(), 44_100)
    encode(source / "b.m4a", tone(1, 48_000), 48_000, codec="aac", container="ipod")
    for name in "ab":
        (source / f"{name}.txt").write_text("Hello there.")
    prepare(config(source, tmp_path / "out"))
    for wav in (tmp_path / "out" / "voice" / "dataset" / "wavs").iterdir():
        info = soundfile.info(wav)
        assert (info.samplerate, info.channels, info.subtype) == (SAMPLE_RATE, 1, "PCM_16")
        assert abs(info.frames - SAMPLE_RATE) < 0.1 * SAMPLE_RATE


def test_clips_of_the_same_name_in_different_folders_are_both_kept(tmp_path: Path) -> None:
    for folder, clip in zip(("one", "two"), demo_clips(2), strict=True):
        (tmp_path / "in" / folder).mkdir(parents=True)
        shutil.copy(clip.audio, tmp_path / "in" / folder / "take.flac")
        (tmp_path / "in" / folder / "take.txt").write_text(clip.text)
    assert len(prepare(config(tmp_path / "in", tmp_path / "out")).used) == 2


def test_the_limits_of_the_settings_are_the_limits(tmp_path: Path) -> None:
    source = make_source(tmp_path / "in", 4)
    longest = max(soundfile.info(clip.audio).frames for clip in demo_clips(4))
    report = prepare(config(source, tmp_path / "out", max_audio_length=longest))
    assert len(report.used) == 4
    shorter = prepare(config(source, tmp_path / "out", project="other", max_audio_length=longest - 1))
    assert [clip.reason for clip in shorter.dropped] == ["too long"]


def test_the_same_input_gives_the_same_files(tmp_path: Path) -> None:
    source = make_source(tmp_path / "in", 5)
    for name in ("one", "two"):
        prepare(config(source, tmp_path / name))
    for file in ("metadata_train.csv", "metadata_eval.csv"):
        one, two = (tmp_path / name / "voice" / "dataset" / file for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_progress_counts_every_clip(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    prepare(config(make_source(tmp_path / "in", 3), tmp_path), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("language", ["en", "EN", "en-us"])
def test_the_language_file_holds_the_plain_code(tmp_path: Path, language: str) -> None:
    prepare(config(make_source(tmp_path / "in", 2), tmp_path, language=language))
    assert Project(name="voice", output=tmp_path).language() == "en"
