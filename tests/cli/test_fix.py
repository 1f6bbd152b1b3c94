"""python -m utils.cli.fix: each fix does what it says and prints the table; a fault is told with status 2."""

from pathlib import Path

import pytest

from tests.dataset.recordings import config, make_source, snapshot
from utils.cli.fix import main
from utils.dataset.build import prepare
from utils.dataset.storage.manifest import read_manifest
from utils.dataset.storage.report import ClipReport, Report
from utils.project.paths import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    prepare(config(make_source(tmp_path / "in", 6), tmp_path / "out", eval_fraction=0.4))
    return Project(name="voice", output=tmp_path / "out")


def _clip(project: Project, number: int) -> ClipReport:
    clips = Report.load(project.report).clips
    return next(clip for clip in clips if f"demo-{number:02}" in clip.source and not clip.made_from)


def _fix(project: Project, fix: str, clip: str, *more: str) -> None:
    main([fix, "--project", project.name, "--output", str(project.output), "--clip", clip, *more])


def _texts(project: Project) -> set[str]:
    return {clip.text for csv in (project.train_csv, project.eval_csv) for clip in read_manifest(csv)}


def test_a_clip_is_excluded_and_restored(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    clip = _clip(project, 2)
    _fix(project, "exclude", clip.id)
    assert clip.text not in _texts(project)
    table = capsys.readouterr().out
    assert "used" in table and "demo-02.flac: excluded" in table
    _fix(project, "restore", clip.id)
    assert clip.text in _texts(project)


def test_a_clip_is_accepted(project: Project) -> None:
    _fix(project, "accept", Path(_clip(project, 3).clip).name)
    assert _clip(project, 3).accepted


def test_a_transcript_and_its_speaker_are_written_anew(project: Project) -> None:
    _fix(project, "text", _clip(project, 2).id, "--text", "What is really said.", "--speaker", "anna")
    assert (_clip(project, 2).text, _clip(project, 2).speaker) == ("What is really said.", "anna")
    assert "What is really said." in _texts(project)


def test_the_edges_of_a_clip_are_moved_and_restored(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    clip = _clip(project, 2)
    _fix(project, "recut", clip.id, "--start", "0.25", "--end", "2.0")
    (made,) = (found for found in Report.load(project.report).used if found.made_from == (clip.id,))
    assert (made.start_s, made.end_s, made.text) == (0.25, 2.0, clip.text)
    with pytest.raises(SystemExit, match="2"):
        _fix(project, "recut", made.id, "--start", "2", "--end", "1")
    assert "is not a part of demo-02" in capsys.readouterr().err
    _fix(project, "restore", clip.id)
    assert _clip(project, 2).status == "used"


def test_a_clip_is_trimmed(project: Project) -> None:
    clip = _clip(project, 2)
    _fix(project, "trim", clip.id, "--start", "0.5", "--end", "2.0")
    (made,) = (found for found in Report.load(project.report).used if found.made_from == (clip.id,))
    assert made.seconds == pytest.approx(1.5, abs=0.001) and made.text == clip.text
    assert _clip(project, 2).reason == "replaced"


def test_a_clip_is_split(project: Project) -> None:
    clip = _clip(project, 2)
    _fix(project, "split", clip.id, "--at", "1.2", "--texts", "The first half.", "The second half.")
    made = [found for found in Report.load(project.report).used if found.made_from == (clip.id,)]
    assert [found.text for found in made] == ["The first half.", "The second half."]
    assert made[0].seconds == pytest.approx(1.2, abs=0.001)
    assert clip.text not in _texts(project)


def test_a_clip_is_merged_with_the_next(project: Project) -> None:
    first, second = _clip(project, 1), _clip(project, 2)
    _fix(project, "merge", first.id)
    assert f"{first.text} {second.text}" in _texts(project)
    assert not {first.text, second.text} & _texts(project)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["exclude", "nothing"], "the dataset has no clip 'nothing'"),
        (["trim", "demo-02", "--start", "1", "--end", "99"], "is not within demo-02"),
        (["split", "demo-02", "--at", "1", "--texts", "One.", "..."], "would be dropped"),
        (["text", "demo-02", "--text", "..."], "would be dropped"),
    ],
)
def test_a_fix_that_cannot_be_made_is_told_and_changes_nothing(
    project: Project, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    before = snapshot(project)
    fix, clip, *more = arguments
    with pytest.raises(SystemExit) as caught:
        _fix(project, fix, _clip(project, 2).id if clip == "demo-02" else clip, *more)
    assert caught.value.code == 2
    reported = capsys.readouterr().err
    assert reported.startswith("error: ") and message in reported
    assert snapshot(project) == before


def test_a_project_without_a_dataset_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        _fix(Project(name="none", output=tmp_path), "exclude", "x")
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")
