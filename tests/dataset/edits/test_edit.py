"""Clips are edited in the metadata files: text changed, rows taken out and put back, and preparing again keeps it."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.dataset.recordings import config, fix_clip, make_source
from utils.dataset.build import prepare
from utils.dataset.edits.edit import (
    can_be_restored,
    current_clips,
    current_report,
    exclude,
    num_undoable,
    restore,
    save_text,
    undo,
)
from utils.dataset.storage.manifest import read_manifest
from utils.dataset.storage.report import EXCLUDED, Report
from utils.errors import UserError
from utils.project.paths import Project


@pytest.fixture
def source(tmp_path) -> Path:
    return make_source(tmp_path / "in", 5)


def test_a_new_transcript_is_trained_on_and_outlives_a_preparation(project, source):
    clip = current_clips(project)[0].clip
    save_text(project, clip, '  "Good\n evening" | all, ቡና! ')
    wanted = '"Good evening" | all, ቡና!'
    manifest = {c.audio.name: c.text for c in read_manifest(project.train_csv) + read_manifest(project.eval_csv)}
    assert manifest[Path(clip).name] == wanted
    prepare(config(source, project.output))
    assert current_clips(project)[0].text == wanted


def test_a_saved_transcript_survives_exclude_and_restore(project):
    clip = next(clip for clip in current_clips(project) if clip.split == "train").clip
    for words in ("Corrected words", "Corrected again"):
        save_text(project, clip, words)
        exclude(project, clip)
        restore(project, clip)
        assert next(item for item in current_clips(project) if item.clip == clip).text == words


def test_a_clip_that_the_command_excluded_is_restored_at_once(project):
    before = current_clips(project)
    clip = next(clip for clip in before if clip.split == "train")
    fix_clip(project, "exclude", clip.id)
    now = next(item for item in current_clips(project) if item.id == clip.id)
    assert can_be_restored(now) and (now.reason, now.detail) == EXCLUDED
    restore(project, clip.clip)
    assert current_clips(project) == before


def test_the_reason_of_earlier_versions_is_still_read(project):
    clip = next(clip for clip in current_clips(project) if clip.split == "train")
    fix_clip(project, "exclude", clip.id)
    text = project.report.read_text(encoding="utf-8")
    project.report.write_text(text.replace('"excluded"', '"removed by hand"'), encoding="utf-8")
    assert next(item for item in current_clips(project) if item.id == clip.id).reason == "excluded"
    restore(project, clip.clip)
    assert all(item.status == "used" for item in current_clips(project))


def test_a_set_is_never_emptied(project):
    (only,) = (clip for clip in current_clips(project) if clip.split == "eval")
    with pytest.raises(UserError, match="last clip"):
        exclude(project, only.clip)
    assert current_clips(project)[0].status == "used"


@pytest.mark.parametrize("text", ["", " \n ", "x" * 3000])
def test_a_transcript_that_cannot_be_is_refused(project, text):
    clip = current_clips(project)[0]
    with pytest.raises(UserError, match="transcript"):
        save_text(project, clip.clip, text)
    assert current_clips(project)[0] == clip


@pytest.mark.parametrize("clip", ["", "../../secret.wav", "wavs/none.wav"])
def test_clips_that_are_not_in_the_dataset_are_refused(project, clip):
    for edit in (exclude, restore, lambda p, c: save_text(p, c, "text")):
        with pytest.raises(UserError):
            edit(project, clip)


def test_editing_loads_no_torch():
    code = "import sys, utils.dataset.edits.edit; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_last_edits_are_undone_one_by_one(project):
    before = current_clips(project)
    first, second = [clip.clip for clip in before if clip.split == "train"][:2]
    save_text(project, first, "Other words")
    exclude(project, first, second)
    restore(project, second)
    assert num_undoable(project) == 3
    assert [undo(project)[0] for _ in range(3)] == ["restored", "excluded", "text"]
    after = {clip.clip: clip for clip in current_clips(project)}
    # How the base read the words of the first one is known again after the next preparation.
    assert after == {clip.clip: replace(clip, read="") if clip.clip == first else clip for clip in before}
    with pytest.raises(UserError, match="no edit to undo"):
        undo(project)


def test_only_the_last_twenty_can_be_undone(project):
    clip = current_clips(project)[0].clip
    for number in range(25):
        save_text(project, clip, f"Words {number}")
    assert num_undoable(project) == 20
    for _ in range(20):
        undo(project)
    assert current_clips(project)[0].text == "Words 4"


def test_what_another_process_changed_since_is_not_undone(project):
    clip = current_clips(project)[0]
    save_text(project, clip.clip, "My words")
    manifest = project.train_csv if clip.split == "train" else project.eval_csv
    manifest.write_text(manifest.read_text(encoding="utf-8").replace("My words", "Theirs"), encoding="utf-8")
    with pytest.raises(UserError, match="changed in another way since"):
        undo(project)
    assert current_clips(project)[0].text == "Theirs"
    assert num_undoable(project) == 0


@pytest.mark.parametrize("content", ["[", '[{"kind": "text"}]', '[{"kind": "x", "clips": {}}]', "[1]", "null"])
def test_a_damaged_history_holds_nothing(project, content):
    (project.dataset / ".edits.json").write_text(content, encoding="utf-8")
    assert num_undoable(project) == 0
    save_text(project, current_clips(project)[0].clip, "Words")
    assert num_undoable(project) == 1


def test_several_clips_are_excluded_together_or_not_at_all(project):
    clips = [clip.clip for clip in current_clips(project)]
    with pytest.raises(UserError, match="last"):
        exclude(project, *clips)
    assert all(clip.status == "used" for clip in current_clips(project))
    train = next(clip.clip for clip in current_clips(project) if clip.split == "train")
    exclude(project, train)
    with pytest.raises(UserError, match="no recording"):
        restore(project, train, "wavs/none.wav")
    with pytest.raises(UserError, match="already in use"):
        restore(project, train, next(clip for clip in clips if clip != train))
    assert [clip.clip for clip in current_clips(project) if clip.status != "used"] == [train]


def test_edits_do_not_read_the_report_again(project, monkeypatch):
    current_clips(project)
    loads = []
    monkeypatch.setattr(Report, "load", lambda path: loads.append(path))
    clip = next(clip.clip for clip in current_clips(project) if clip.split == "train")
    save_text(project, clip, "Corrected words")
    exclude(project, clip)
    restore(project, clip)
    undo(project)
    now = current_clips(project)
    assert loads == []
    monkeypatch.undo()
    assert now != (as_prepared := Report.load(project.report).clips), "the clip is excluded"
    assert next(item for item in as_prepared if item.clip == clip).text == "Corrected words"


def test_only_the_newest_reports_are_kept(project):
    for number in range(4):
        other = Project(name=f"copy-{number}", output=project.output)
        shutil.copytree(project.folder, other.folder)
        assert current_clips(other) == current_clips(project)
    report = current_report(project)
    replace(report, clips=report.clips[:1]).save(project.report)
    assert len(current_clips(project)) == 1, "a report that another process replaced is read"
