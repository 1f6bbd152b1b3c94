"""A project is renamed, duplicated and deleted with all that names it, and never while a job of it runs."""

import json
from pathlib import Path

import pytest

from tests.dataset.recordings import config, make_source
from utils.config import TrainConfig
from utils.dataset.build import prepare
from utils.dataset.edits.edit import current_clips
from utils.errors import UserError
from utils.jobs.projects import delete_project, duplicate_project, rename_project
from utils.project.paths import Project
from utils.project.projects import ProjectSettings, list_projects
from utils.text.pronunciations import read_pronunciations
from utils.training.train import fine_tune


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose recordings lie in its own uploads."""
    output = tmp_path / "out"
    made = Project(name="maria", output=output)
    ProjectSettings(language="en", base="tiny").save(made)
    make_source(made.folder / "uploads" / "dataset", 4)
    prepare(config(made.folder / "uploads" / "dataset", output, project="maria"))
    return made


def clips_of(project: Project) -> list[tuple[str, str]]:
    return [(clip.wav_hash, clip.text) for clip in current_clips(project)]


def test_a_renamed_project_finds_its_recordings_and_resumes_its_runs(project):
    plain = TrainConfig(project="maria", output=project.output, base="tiny", num_epochs=1, batch_size=2, device="cpu")
    run = fine_tune(plain).folder
    before = clips_of(project)
    renamed = rename_project(project, "María")
    assert [other.name for other in list_projects(project.output)] == ["María"]
    assert clips_of(renamed) == before and all(Path(clip.source).is_file() for clip in current_clips(renamed))
    again = prepare(config(renamed.folder / "uploads" / "dataset", project.output, project="María"))
    assert (again.added, len(again.used)) == (0, 4)
    resumed = fine_tune(TrainConfig(project="María", output=project.output, resume=Path(run.name), num_epochs=2))
    assert resumed.folder == renamed.runs / run.name and len(resumed.epoch_losses) == 2
    assert TrainConfig.load(resumed.folder / "config.yaml").project == "María"


def test_a_copy_has_its_own_recordings_and_dataset_and_no_runs(project):
    (project.runs / "one").mkdir(parents=True)
    (project.folder / "pronunciations.csv").write_text("word,say,language\nDr,Doctor,\n", encoding="utf-8")
    copy = duplicate_project(project, "copy")
    assert clips_of(copy) == clips_of(project) and not copy.runs.exists()
    assert read_pronunciations(copy.folder / "pronunciations.csv") == [("Dr", "Doctor", "")]
    assert ProjectSettings.load(copy) == ProjectSettings.load(project)
    delete_project(project)
    assert all(Path(clip.source).is_relative_to(copy.folder.absolute()) for clip in current_clips(copy))
    assert all(Path(clip.source).is_file() for clip in current_clips(copy))


def test_deleting_says_what_it_freed_and_leaves_nothing(project):
    assert delete_project(project) > 100_000
    assert list(project.output.iterdir()) == []
    with pytest.raises(UserError, match="there is no project"):
        delete_project(project)


@pytest.mark.parametrize("name", ["", "..", "a/b", "con", "x" * 65, "other", "OTHER", "maria"])
def test_names_that_cannot_be_are_refused_and_nothing_is_touched(project, name):
    ProjectSettings().save(Project(name="other", output=project.output))
    before = clips_of(project)
    for act in (rename_project, duplicate_project):
        with pytest.raises(UserError):
            act(project, name)
    assert clips_of(project) == before
    assert sorted(path.name for path in project.output.iterdir()) == ["maria", "other"]


def test_nothing_is_done_while_a_job_runs(project, monkeypatch):
    class Busy:
        kind, alive, process_alive, folder = "train", True, True, project.runs / "one"

    monkeypatch.setattr("utils.jobs.projects.jobs.list", lambda project: [Busy()])
    for act in (
        lambda: rename_project(project, "b"),
        lambda: duplicate_project(project, "b"),
        lambda: delete_project(project),
    ):
        with pytest.raises(UserError, match="train is running"):
            act()
    assert clips_of(project)


def test_a_damaged_report_does_not_stop_a_rename(project):
    project.report.write_text("[", encoding="utf-8")
    settings = json.dumps({"language": "en", "base": str(project.dataset.absolute() / "base")})
    (project.folder / "project.json").write_text(settings, encoding="utf-8")
    renamed = rename_project(project, "b")
    assert ProjectSettings.load(renamed).base == str(renamed.dataset.absolute() / "base")
