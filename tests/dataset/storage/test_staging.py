"""A change is all there or not there at all, also after a kill, and two at once are refused."""

import pytest

from tests.dataset.recordings import snapshot
from utils.dataset.storage.work import Staging, staged
from utils.errors import UserError
from utils.project.paths import Project


def _fill(staging: Staging, project: Project, content: str) -> None:
    (staging.wavs / f"{content}.wav").write_text(content)
    for path in (project.train_csv, project.eval_csv, project.report, project.language_file):
        staging.file(path).write_text(content)


@pytest.fixture
def project(tmp_path) -> Project:
    project = Project(name="voice", output=tmp_path)
    with staged(project) as staging:
        _fill(staging, project, "old")
        staging.commit()
    return project


def test_a_change_that_was_complete_when_the_process_died_is_finished(project):
    staging = Staging(project)
    staging.begin()
    _fill(staging, project, "new")
    (staging.folder / "complete").touch()
    # As after a kill in mid-move: the wav and one file are in place already.
    (staging.wavs / "new.wav").rename(project.dataset / "wavs" / "new.wav")
    staging.file(project.eval_csv).rename(project.eval_csv)
    with staged(project):
        pass
    after = snapshot(project)
    assert {name for name, content in after.items() if content == b"new"} == {
        "dataset/wavs/new.wav",
        "dataset/metadata_train.csv",
        "dataset/metadata_eval.csv",
        "dataset/report.json",
        "dataset/lang.txt",
    }
    assert not (project.dataset / ".new").exists()


def test_what_an_interrupted_preparation_left_is_discarded(project):
    before = snapshot(project)
    staging = Staging(project)
    staging.begin()
    _fill(staging, project, "torn")
    with staged(project):
        pass
    assert snapshot(project) == before


def test_two_preparations_of_one_project_at_once_are_refused(project):
    before = snapshot(project)
    with staged(project) as first:
        _fill(first, project, "first")
        with pytest.raises(UserError, match="already being prepared"), staged(project):
            pass
        first.commit()
    assert snapshot(project) != before
