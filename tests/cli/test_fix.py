"""python -m utils.cli.fix: each fix does what it says and prints the table; a fault ends it with status 2."""

from pathlib import Path

import pytest

from tests.dataset.recordings import clip_of, config, make_source, snapshot
from utils.cli import fix as command
from utils.cli.fix import main
from utils.dataset.build import prepare
from utils.dataset.edits.edit import FixConfig
from utils.dataset.storage.manifest import read_manifest
from utils.project.paths import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    prepare(config(make_source(tmp_path / "in", 6), tmp_path / "out", eval_fraction=0.4))
    return Project(name="voice", output=tmp_path / "out")


def _fix(project: Project, fix: str, clip: str, *more: str) -> None:
    main([fix, "--project", project.name, "--output", str(project.output), "--clip", clip, *more])


def _texts(project: Project) -> set[str]:
    return {clip.text for csv in (project.train_csv, project.eval_csv) for clip in read_manifest(csv)}


def test_a_clip_is_excluded_and_restored(project, capsys):
    clip = clip_of(project, 2)
    _fix(project, "exclude", clip.id)
    assert clip.text not in _texts(project)
    table = capsys.readouterr().out
    assert "used" in table and "demo-02.flac: excluded" in table
    _fix(project, "restore", clip.id)
    assert clip.text in _texts(project)


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["accept"], {}),
        (["merge"], {}),
        (["text", "--text", "Said.", "--speaker", "anna"], {"text": "Said.", "speaker": "anna"}),
        (["trim", "--start", "0.5", "--end", "2"], {"start_s": 0.5, "end_s": 2.0}),
        (["recut", "--start", "0.5", "--end", "2"], {"start_s": 0.5, "end_s": 2.0}),
        (["split", "--at", "1", "--texts", "A.", "B."], {"at_s": 1.0, "text_before": "A.", "text_after": "B."}),
    ],
)
def test_flags_become_the_fix(monkeypatch, arguments, values):
    seen: list[FixConfig] = []
    monkeypatch.setattr(command, "fix_clip", seen.append)
    main([*arguments, "--project", "voice", "--clip", "id"])
    assert seen == [FixConfig(project="voice", clip="id", fix=arguments[0], **values)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["exclude", "nothing"], "the dataset has no clip 'nothing'"),
        (["trim", "demo-02", "--start", "1", "--end", "99"], "is not within demo-02"),
        (["split", "demo-02", "--at", "1", "--texts", "One.", "..."], "would be dropped"),
        (["text", "demo-02", "--text", "..."], "would be dropped"),
        (["text", "demo-02"], "text is empty"),
        (["trim", "demo-02", "--start", "1", "--end", "2", "--text", "Said."], "trim takes no text; omit it"),
        (["merge", "demo-02", "--at", "1", "--speaker", "ben"], "merge takes no speaker or at; omit"),
        (["text", "demo-02", "--text", "Said.", "--start", "1"], "text takes no start; omit it"),
    ],
)
def test_a_fix_that_cannot_be_made_is_told_and_changes_nothing(project, capsys, arguments, message):
    before = snapshot(project)
    fix, clip, *more = arguments
    with pytest.raises(SystemExit, match="2"):
        _fix(project, fix, clip_of(project, 2).id if clip == "demo-02" else clip, *more)
    reported = capsys.readouterr().err
    assert reported.startswith("error: ") and message in reported
    assert snapshot(project) == before


def test_another_speaker_keeps_the_words(project):
    before = clip_of(project, 2)
    _fix(project, "text", before.id, "--speaker", "ben")
    after = clip_of(project, 2)
    assert (after.text, after.speaker) == (before.text, "ben") != (before.text, before.speaker)
