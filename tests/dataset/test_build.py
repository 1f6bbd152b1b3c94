"""Preparing: the files that must be left behind, and every clip accounted for."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile
import torch

from tests.audio.signals import encode, tone
from tests.dataset.recordings import DEMO_VOICE, add_row, config, copy_of_tiny, demo_clips, make_source
from utils.audio.decode import decode, load_audio
from utils.audio.write import write_wav
from utils.bases.find import find_base
from utils.dataset.build import prepare
from utils.dataset.storage.manifest import read_manifest
from utils.dataset.storage.report import ClipReport, Report
from utils.errors import UserError
from utils.options import CODE_SAMPLES, DATASET_RATE
from utils.project.paths import Project


def _by_name(report: Report) -> dict[str, ClipReport]:
    return {Path(clip.source).name: clip for clip in report.clips}


def test_the_bundled_voice_becomes_a_dataset(tmp_path):
    report = prepare(config(DEMO_VOICE, tmp_path))
    project = Project(name="voice", output=tmp_path)
    names = {path.name for path in project.dataset.iterdir() if not path.name.startswith(".")}
    assert names == {"wavs", "metadata_train.csv", "metadata_eval.csv", "lang.txt", "report.json", "report.html"}
    assert project.language() == "en"
    train, held_out = read_manifest(project.train_csv), read_manifest(project.eval_csv)
    assert (len(train), len(held_out)) == (36, 4)
    texts = {clip.text: clip.audio for clip in demo_clips(40)}
    assert {clip.text for clip in train + held_out} == set(texts)
    for clip in train + held_out:
        info = soundfile.info(clip.audio)
        assert (info.samplerate, info.channels, info.subtype) == (DATASET_RATE, 1, "PCM_16")
        # 22 050 Hz, mono and 16 bit already: nothing may change.
        assert torch.equal(decode(clip.audio)[0], decode(texts[clip.text])[0])
        assert clip.speaker == "demo"
    assert len(list((project.dataset / "wavs").iterdir())) == 40
    assert Report.load(project.report) == report


def test_the_report_is_json_with_every_clip_by_name(tmp_path):
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


def test_every_fault_drops_its_clip_with_the_reason(tmp_path):
    source = make_source(tmp_path / "in", 3)
    good = source / "wavs" / "demo-03.flac"
    write_wav(source / "short.wav", tone(0.3, DATASET_RATE), DATASET_RATE)
    write_wav(source / "long.wav", tone(12, DATASET_RATE), DATASET_RATE)
    write_wav(source / "silent.wav", torch.zeros(1, DATASET_RATE), DATASET_RATE)
    write_wav(source / "tone1.wav", tone(1, DATASET_RATE), DATASET_RATE)
    write_wav(source / "tone2.wav", tone(2, DATASET_RATE), DATASET_RATE)
    write_wav(source / "tone3.wav", tone(3, DATASET_RATE), DATASET_RATE)
    write_wav(source / "same.wav", load_audio(good, DATASET_RATE), DATASET_RATE)
    (source / "text.wav").write_text("no sound")
    (source / "empty.wav").touch()
    for name in ("short", "long", "silent", "same", "text", "empty", "gone"):
        add_row(source, f"{name}.wav", f"The file {name}.")
    add_row(source, "tone1.wav", "...")
    add_row(source, "tone2.wav", "Hello 🙂 and ⵣ.")
    add_row(source, "tone3.wav", "word " * 400)
    add_row(source, "../in/../../secret.wav", "Outside.")
    write_wav(source / "unlisted.wav", tone(4, DATASET_RATE), DATASET_RATE)
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
    assert found["same.wav"][1] == "same audio as demo-03.flac"
    assert "🙂 (U+1F642 slightly smiling face)" in found["tone2.wav"][1]
    assert "ⵣ (U+2D63 tifinagh letter yaz)" in found["tone2.wav"][1]
    assert found["tone3.wav"][1].endswith("tokens, the limit is 200")
    assert report.totals["used"] == 3
    table = report.table()
    assert all(f"{name}: {reason}: {detail}" in table for name, (reason, detail) in found.items())


def test_any_format_rate_and_channels_become_22_050_hz_mono(tmp_path):
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
        assert (info.samplerate, info.channels, info.subtype) == (DATASET_RATE, 1, "PCM_16")
        assert abs(info.frames - DATASET_RATE) < 0.1 * DATASET_RATE


def test_clips_of_the_same_name_in_different_folders_are_both_kept(tmp_path):
    for folder, clip in zip(("one", "two"), demo_clips(2), strict=True):
        (tmp_path / "in" / folder).mkdir(parents=True)
        shutil.copy(clip.audio, tmp_path / "in" / folder / "take.flac")
        (tmp_path / "in" / folder / "take.txt").write_text(clip.text)
    assert len(prepare(config(tmp_path / "in", tmp_path / "out")).used) == 2


def test_the_base_sets_the_limits_that_the_settings_leave_open(tmp_path):
    base = copy_of_tiny(tmp_path / "base", max_audio_length=100_000, max_text_length=80)
    settings = config(make_source(tmp_path / "in", 12), tmp_path / "out", base=str(base))  # type: ignore[arg-type]
    settings = replace(settings, max_audio_length=None, max_text_length=None)
    report = prepare(settings)
    assert report.settings["max_audio_length"] == 100_000 and report.settings["max_text_length"] == 80
    assert {clip.reason for clip in report.dropped} == {"too long", "text too long"}
    assert all(clip.num_samples <= 100_000 and clip.num_tokens <= 80 for clip in report.used)
    more = replace(settings, project="more", max_audio_length=200_000, max_text_length=100)
    assert not prepare(more).dropped


@pytest.mark.parametrize("name", ["max_audio_length", "max_text_length"])
def test_limits_beyond_what_the_base_takes_are_refused(tmp_path, name):
    shape = find_base("tiny").gpt_shape()
    longest = {
        "max_audio_length": (shape.max_audio_tokens - 1) * CODE_SAMPLES,
        "max_text_length": shape.max_text_tokens,
    }[name]
    source = make_source(tmp_path / "in", 3)
    prepare(config(source, tmp_path / "out", **{name: longest}))
    with pytest.raises(UserError, match=f"{name} is {longest + 1} .*takes at most {longest}"):
        prepare(config(source, tmp_path / "out", project="other", **{name: longest + 1}))


def test_names_that_are_not_utf8_and_endless_links_cost_only_their_clips(tmp_path):
    source = make_source(tmp_path / "in", 3)
    shutil.copy(source / "wavs" / "demo-01.flac", source / os.fsdecode(b"caf\xe9.flac"))
    (source / "loop.wav").symlink_to(source / "loop.wav")
    add_row(source, "loop.wav", "Not there.")
    report = prepare(config(source, tmp_path / "out"))
    assert {name: clip.reason for name, clip in _by_name(report).items() if clip.status == "dropped"} == {
        "loop.wav": "missing file",
        "caf\\xe9.flac": "unreadable audio",
    }
    assert Report.load(Project(name="voice", output=tmp_path / "out").report) == report
    assert "caf\\xe9.flac" in report.table()


def test_progress_counts_every_clip(tmp_path):
    seen: list[tuple[int, int]] = []
    prepare(config(make_source(tmp_path / "in", 3), tmp_path), progress=lambda _, *done: seen.append(done))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_language_file_holds_the_plain_code(tmp_path):
    prepare(config(make_source(tmp_path / "in", 2), tmp_path, language="EN-us"))
    assert Project(name="voice", output=tmp_path).language() == "en"
