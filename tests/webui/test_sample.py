"""The first minute: a sample voice is offered while there is nothing; one click does the whole job with it."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from utils import jobs
from utils.cli.job import COMMANDS
from utils.config import STARTER, DemoConfig
from utils.errors import UserError
from utils.project.paths import AFTER, BEFORE
from utils.project.projects import ProjectSettings, create_project, list_projects
from webui import text
from webui.handlers import live, sample
from webui.studio import Studio


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(output=tmp_path)


@pytest.fixture
def started(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> list[DemoConfig]:
    """Settings of the jobs that would be started."""
    found: list[DemoConfig] = []
    monkeypatch.setattr(Studio, "start_alone", lambda self, kind, config: found.append(config) or "")
    return found


def test_an_empty_app_offers_the_sample_voice_and_one_with_a_project_does_not(studio):
    values = {"project.project": None, "project.base": STARTER, "train.run": ""}
    assert live.poll(studio, values)["project.welcome"]["visible"]
    create_project("maria", studio.output, ProjectSettings(language="en", base="tiny"))
    assert not live.poll(studio, values)["project.welcome"]["visible"]
    shown = live.poll(studio, values | {"project.project": "maria"})
    assert not shown["project.welcome"]["visible"] and shown["project.sample"] == ""


def test_one_click_makes_a_project_and_starts_the_whole_job(studio, started):
    updates = sample.try_sample(studio, {})
    assert updates["project.project"]["value"] == "sample"
    assert updates["toast"] == text.SAMPLE_STARTED
    assert (started[0].project, started[0].base, started[0].output) == ("sample", STARTER, studio.output)
    # Once more is another project: nothing of the first is lost.
    sample.try_sample(studio, {})
    assert [project.name for project in list_projects(studio.output)] == ["sample", "sample-2"]
    assert COMMANDS["demo"][0] is DemoConfig


def test_beside_a_training_it_is_refused(studio, started, monkeypatch):
    job = SimpleNamespace(kind="train", alive=True)
    monkeypatch.setattr(jobs, "running", lambda output: [job])
    with pytest.raises(UserError, match=text.TRAINING_NOW):
        sample.try_sample(studio, {})
    assert started == [] and list_projects(studio.output) == []


@pytest.mark.slow
def test_the_job_ends_with_two_recordings_to_compare(studio):
    sample.try_sample(studio, {})
    (project,) = list_projects(studio.output)
    values = {"project.project": project.name, "project.base": STARTER, "train.run": ""}
    deadline, seen = time.monotonic() + 900, set()
    while "<audio" not in (shown := live.poll(studio, values)["project.sample"]):
        (job,) = jobs.list(project, kind="demo")
        seen.add(json.dumps(job.message) if job.state == "failed" else job.state)
        assert job.state in ("starting", "running", "finished"), job.message
        assert time.monotonic() < deadline, seen
        time.sleep(1)
    assert shown.count("<audio") == 3 and text.REAL_VOICE in shown and "The library opens at eight" in shown
    assert text.SPOKEN_BEFORE in shown and text.SPOKEN_AFTER in shown
    assert all((project.folder / name).stat().st_size > 10_000 for name in (BEFORE, AFTER))
    assert (project.ready / "model.pth").is_file()
