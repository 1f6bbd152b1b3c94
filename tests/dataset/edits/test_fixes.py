"""Fixes do what they say, are refused when they would lose a clip, and outlive every later preparation."""

from pathlib import Path

import pytest

from tests.dataset import recordings
from tests.dataset.recordings import clip_of, fix_clip, make_source
from utils.dataset.build import prepare
from utils.dataset.edits.edit import FixKind
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.manifest import read_manifest
from utils.dataset.storage.report import Report
from utils.errors import UserError
from utils.project.paths import Project


def config(source: Path, output: Path, **more: object) -> PrepareConfig:
    """Settings that hold two clips out, so that one of them can be excluded."""
    return recordings.config(source, output, eval_fraction=0.4, **more)


@pytest.fixture
def source(tmp_path) -> Path:
    return make_source(tmp_path / "in", 5)


@pytest.fixture
def project(tmp_path, source) -> Project:
    prepare(config(source, tmp_path / "out"))
    return Project(name="voice", output=tmp_path / "out")


def _rows(project: Project) -> dict[str, str]:
    """Text and split of every row."""
    files = ((project.train_csv, "train"), (project.eval_csv, "eval"))
    return {clip.text: split for csv, split in files for clip in read_manifest(csv)}


FIXES: dict[FixKind, dict[str, object]] = {
    "exclude": {},
    "text": {"text": "Another text.", "speaker": "x"},
    "trim": {"start_s": 0.5, "end_s": 2.0},
    "recut": {"start_s": 0.3, "end_s": 2.2},
    "split": {"at_s": 1.2, "text_before": "The first half.", "text_after": "The second half."},
    "merge": {},
}


def _fix(project: Project, fix: FixKind) -> Report:
    return fix_clip(project, fix, clip_of(project, 1 if fix == "merge" else 2).id, **FIXES[fix])


@pytest.mark.parametrize("fix", FIXES)
def test_a_fix_outlives_every_later_preparation(project, source, fix):
    before = _rows(project)
    _fix(project, fix)
    fixed = _rows(project)
    assert fixed != before or fix in ("trim", "recut")
    for _ in range(2):
        prepare(config(source, project.output))
        assert _rows(project) == fixed
    make_source(source, 7)
    prepare(config(source, project.output))
    after = _rows(project)
    assert {text: after[text] for text in fixed} == fixed
    # Other cleaning makes all clips again, those that a fix made too.
    prepare(config(source, project.output, loudness=-20.0))
    assert {text: split for text, split in _rows(project).items() if text in fixed} == fixed


def test_a_split_makes_two_clips_of_the_whole_sound(project):
    clip, side = clip_of(project, 2), _rows(project)[clip_of(project, 2).text]
    report = _fix(project, "split")
    halves = [made for made in report.used if made.made_from == (clip.id,)]
    assert sum(half.num_samples for half in halves) == pytest.approx(clip.num_samples, abs=2)
    assert [half.text for half in halves] == ["The first half.", "The second half."]
    assert {half.split for half in halves} == {side}, "parts stay on the side of the whole"
    (whole,) = (old for old in report.dropped if old.id == clip.id)
    assert whole.reason == "replaced" and "split at" in whole.detail


def test_merging_joins_sound_and_text(project):
    first, second = clip_of(project, 1), clip_of(project, 2)
    report = _fix(project, "merge")
    (made,) = (clip for clip in report.used if clip.made_from)
    assert made.text == f"{first.text} {second.text}"
    assert made.num_samples == first.num_samples + second.num_samples


def test_halves_of_a_split_joined_again_are_the_clip_that_was_split(project, source):
    clip = clip_of(project, 2)
    (first, _) = [made for made in _fix(project, "split").used if made.made_from == (clip.id,)]
    report = fix_clip(project, "merge", first.id)
    (whole,) = (again for again in report.used if again.id == clip.id)
    assert whole.text == "The first half. The second half." and whole.num_samples == clip.num_samples
    assert not [made for made in report.clips if made.made_from]
    rows = _rows(project)
    prepare(config(source, project.output))
    assert _rows(project) == rows


@pytest.mark.parametrize("fix", ["exclude", "trim", "recut", "split", "merge"])
def test_restoring_takes_a_fix_back(project, source, fix):
    before = _rows(project)
    _fix(project, fix)
    fix_clip(project, "restore", clip_of(project, 1 if fix == "merge" else 2).id)
    assert _rows(project) == before
    prepare(config(source, project.output))
    assert _rows(project) == before


@pytest.mark.parametrize(
    ("fix", "values", "message"),
    [
        ("trim", {"start_s": 1, "end_s": 1.2}, "would be dropped.*too short"),
        ("trim", {"start_s": 1, "end_s": 99}, "is not within demo-02"),
        ("recut", {"start_s": 1, "end_s": 99}, "is not a part of demo-02"),
        ("recut", {"start_s": 2, "end_s": 1}, "is not a part of demo-02"),
        ("recut", {"start_s": -1, "end_s": 1}, "is not a part of demo-02"),
        ("recut", {"start_s": 0, "end_s": float("nan")}, "is not a part of demo-02"),
        ("recut", {"start_s": 0}, "has these edges already"),
        ("recut", {"start_s": 1, "end_s": 1.2}, "would be dropped.*too short"),
        ("text", {"text": "..."}, "would be dropped.*empty text"),
        ("split", {"at_s": 1, "text_before": "One.", "text_after": "🙂"}, "would be dropped"),
        ("exclude", {"clip": "nothing"}, "the dataset has no clip 'nothing'"),
    ],
)
def test_a_fix_that_would_lose_a_clip_is_refused(project, fix, values, message):
    before, clip = (project.report.read_bytes(), _rows(project)), clip_of(project, 2)
    with pytest.raises(UserError, match=message):
        fix_clip(project, fix, **({"clip": clip.id, "end_s": clip.seconds} | values))
    assert (project.report.read_bytes(), _rows(project)) == before


def test_an_edit_outlives_a_wav_that_is_deleted_by_hand(project, source):
    fix_clip(project, "text", clip_of(project, 2).id, text="Edited, then the wav was lost.")
    rows = _rows(project)
    (project.dataset / clip_of(project, 2).clip).unlink()
    prepare(config(source, project.output))
    assert _rows(project) == rows
    assert (project.dataset / clip_of(project, 2).clip).is_file()


def test_accepting_uses_a_clip_whatever_its_flags(tmp_path, source):
    table = source / "metadata.csv"
    rows = table.read_text().splitlines()
    # The same words twice: the later one is flagged.
    rows[3] = "|".join([rows[3].split("|")[0], rows[2].split("|")[1], "demo"])
    table.write_text("\n".join(rows) + "\n")
    settings = config(source, tmp_path / "out", quality=True, check_speakers=False, drop_flagged=True)
    report = prepare(settings)
    (flagged,) = (clip for clip in report.dropped if clip.reason == "flagged")
    assert "same text" in flagged.detail
    project = Project(name="voice", output=tmp_path / "out")
    assert len(fix_clip(project, "accept", flagged.id).used) == 5
    assert len(prepare(settings).used) == 5
