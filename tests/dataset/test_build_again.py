"""Preparing again: what is new comes in, and nothing that was there is lost, moved or decoded twice."""

import shutil
from pathlib import Path

import pytest
import torch

from tests.dataset.recordings import add_row, config, make_source, snapshot
from utils.audio.decode import load_audio
from utils.audio.write import write_wav
from utils.dataset.build import prepare
from utils.dataset.clips import sound
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.dataset.storage.report import Report
from utils.options import DATASET_RATE
from utils.project.paths import Project


@pytest.fixture
def source(tmp_path) -> Path:
    return make_source(tmp_path / "in", 6)


def _splits(project: Project) -> dict[str, str]:
    rows = [(clip.text, "train") for clip in read_manifest(project.train_csv)]
    rows += [(clip.text, "eval") for clip in read_manifest(project.eval_csv)]
    assert len(dict(rows)) == len(rows), "a clip in both sets"
    return dict(rows)


def _again(project: Project, source: Path, **more: int) -> Report:
    return prepare(config(source, project.output, **more))


def test_nothing_new_changes_nothing_and_decodes_nothing(project, source, monkeypatch):
    before = snapshot(project)
    times = {path: path.stat().st_mtime_ns for path in (project.dataset / "wavs").iterdir()}
    monkeypatch.setattr(sound, "decode", None)
    report = _again(project, source)
    assert (report.added, report.unchanged) == (0, 6)
    after = snapshot(project)
    # Only the counts of the run differ.
    assert {k: v for k, v in after.items() if k != "dataset/report.json"} == {
        k: v for k, v in before.items() if k != "dataset/report.json"
    }
    assert {path: path.stat().st_mtime_ns for path in (project.dataset / "wavs").iterdir()} == times


def test_a_moved_or_converted_source_is_recognised(project, source, tmp_path):
    rows = read_manifest(project.train_csv)
    write_manifest(project.train_csv, [Clip(audio=rows[0].audio, text="Edited by hand.", speaker="x"), *rows[1:]])
    before = snapshot(project)
    moved = shutil.move(source, tmp_path / "moved")
    assert _again(project, Path(moved)).unchanged == 6
    for clip in read_manifest(Path(moved) / "metadata.csv"):
        write_wav(clip.audio.with_suffix(".wav"), load_audio(clip.audio, DATASET_RATE), DATASET_RATE)
        clip.audio.unlink()
    table = (Path(moved) / "metadata.csv").read_text().replace(".flac", ".wav")
    (Path(moved) / "metadata.csv").write_text(table)
    assert _again(project, Path(moved)).unchanged == 6
    after = snapshot(project)
    assert set(after) == set(before)
    assert after["dataset/metadata_train.csv"] == before["dataset/metadata_train.csv"]


def test_a_source_that_is_gone_does_not_take_its_clip_along(project, source):
    before = _splits(project)
    (source / "wavs" / "demo-02.flac").unlink()
    assert len(_again(project, source).used) == 6
    assert _splits(project) == before


def test_the_next_batch_in_the_same_folder_keeps_the_clips_of_the_last(project, source):
    rows = read_manifest(project.train_csv)
    write_manifest(project.train_csv, [Clip(audio=rows[0].audio, text="Edited by hand.", speaker="x"), *rows[1:]])
    before = _splits(project)
    old_files = list((source / "wavs").iterdir())
    make_source(source, 4, first=6)
    assert all(path.exists() for path in old_files)
    report = _again(project, source)
    assert (report.added, report.unchanged, len(report.dropped)) == (4, 6, 0)
    assert {text: split for text, split in _splits(project).items() if text in before} == before
    assert {clip.speaker for clip in report.used if clip.text == "Edited by hand."} == {"x"}
    assert _again(project, source).totals == report.totals | {"added": 0, "unchanged": 10}


@pytest.mark.parametrize("limit", [{"max_text_length": 12}, {"max_audio_length": 30_000}])
def test_an_edit_outlives_a_drop(project, source, limit):
    rows = read_manifest(project.train_csv)
    edited = max(rows, key=lambda clip: len(clip.text))
    text = edited.text.replace(".", ", edited by hand.")
    where = rows.index(edited)
    rows[where] = Clip(audio=edited.audio, text=text, speaker="someone")
    write_manifest(project.train_csv, rows)
    make_source(source, 12)
    for number in range(2):
        write_wav(source / f"short{number}.wav", (number + 1) * 0.1 * torch.rand(1, 20_000), DATASET_RATE)
        add_row(source, f"short{number}.wav", "Yes.")
    for _ in range(2):
        assert text not in {clip.text for clip in _again(project, source, **limit).used}
    report = _again(project, source)
    assert len(report.used) == 14 and not report.dropped
    assert {clip.speaker for clip in report.used if clip.text == text} == {"someone"}
    assert rows[where] in read_manifest(project.train_csv)


def test_a_drop_does_not_take_the_row_of_the_same_sound_in_another_file(project, source):
    take = source / "wavs" / "demo-02.flac"
    copy = source / "copy.wav"
    write_wav(copy, load_audio(take, DATASET_RATE), DATASET_RATE)
    table = source / "metadata.csv"
    row = next(line for line in table.read_text().splitlines() if "demo-02" in line)
    table.write_text(table.read_text().replace(row, f"wavs/demo-02.flac|{'word ' * 300}|demo"))
    add_row(source, "copy.wav", "The copy is used.")
    for _ in range(2):
        report = _again(project, source)
        assert {clip.reason for clip in report.dropped} == {"text too long"}
        assert "The copy is used." in _splits(project)


def test_a_new_take_replaces_the_old_one(project, source):
    take = source / "wavs" / "demo-02.flac"
    write_wav(take, 0.5 * load_audio(take, DATASET_RATE), DATASET_RATE)
    report = _again(project, source)
    assert (report.added, len(report.used)) == (1, 6)
    rows = read_manifest(project.train_csv) + read_manifest(project.eval_csv)
    (clip,) = (row for row in rows if row.text.startswith("The train"))
    assert torch.equal(load_audio(clip.audio, DATASET_RATE), load_audio(take, DATASET_RATE))


def test_a_new_transcript_replaces_the_old_one(project, source):
    table = source / "metadata.csv"
    table.write_text(table.read_text().replace("Good morning, everyone!", "Good evening, everyone!"))
    _again(project, source)
    assert "Good evening, everyone!" in _splits(project)
    assert "Good morning, everyone!" not in _splits(project)


def test_edits_of_the_dataset_by_hand_are_kept(project, source):
    rows = read_manifest(project.train_csv)
    edited = [Clip(audio=rows[0].audio, text="Edited by hand.", speaker="someone"), *rows[2:]]
    write_manifest(project.train_csv, edited)
    report = _again(project, source)
    assert read_manifest(project.train_csv) == edited
    assert [clip.reason for clip in report.dropped] == ["excluded"]
    write_manifest(project.train_csv, [*edited, rows[1]])
    assert len(_again(project, source).used) == 6


def test_rows_moved_or_added_by_hand_are_kept(project, source):
    train, held_out = read_manifest(project.train_csv), read_manifest(project.eval_csv)
    own = project.dataset / "wavs" / "own.wav"
    write_wav(own, 0.3 * load_audio(train[0].audio, DATASET_RATE), DATASET_RATE)
    write_manifest(project.eval_csv, [*held_out, train[0]])
    write_manifest(project.train_csv, [*train[1:], Clip(audio=own, text="My own row.", speaker="me")])
    before = _splits(project)
    assert len(_again(project, source).used) == 7
    assert _splits(project) == before


def test_a_clip_that_comes_back_goes_where_it_was(source, tmp_path):
    project = Project(name="half", output=tmp_path / "out")
    prepare(config(source, project.output, project="half", eval_fraction=0.5))
    before = _splits(project)
    table = source / "metadata.csv"
    whole = table.read_text()
    for text in before:
        row = next(line for line in whole.splitlines() if text in line)
        table.write_text(whole.replace(row, row.replace(text, "🙂")))
        prepare(config(source, project.output, project="half"))
        assert text not in _splits(project)
    table.write_text(whole)
    prepare(config(source, project.output, project="half"))
    assert _splits(project) == before


def test_other_files_in_the_dataset_folder_stay(project, source):
    (project.dataset / "codes").mkdir()
    (project.dataset / "codes" / "codes.bin").write_bytes(b"cache")
    make_source(source, 8)
    _again(project, source)
    assert (project.dataset / "codes" / "codes.bin").read_bytes() == b"cache"


def test_the_reasons_of_earlier_inputs_are_kept(project, source, tmp_path):
    add_row(source, "gone.wav", "Never there.")
    _again(project, source)
    report = _again(project, make_source(tmp_path / "more", 2, first=6))
    assert [Path(clip.source).name for clip in report.dropped] == ["gone.wav"]
    assert (report.added, report.unchanged, len(report.used)) == (2, 0, 8)
