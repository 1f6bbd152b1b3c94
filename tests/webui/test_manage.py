"""Rename, duplicate and delete from the bar: the bar follows, and a deletion must be confirmed."""

import os
from types import SimpleNamespace

import pytest

from utils import jobs
from utils.errors import UserError
from utils.project.paths import Project
from utils.project.projects import list_projects
from webui import text
from webui.change import TOAST
from webui.handlers import live, manage
from webui.views import project as view


def names(studio) -> list[str]:
    return [project.name for project in list_projects(studio.output)]


def entered(name: object) -> dict[str, object]:
    return {"project.project": "maria", "project.new_name": name}


def test_the_box_says_what_the_project_takes(studio, project):
    (project.dataset / "large.bin").write_bytes(b"x" * 3_000_000)
    shown = manage.manage(studio, entered(""))
    assert shown["project.manage_box"] == {"visible": True} and "3 MB" in shown["project.contents"]
    hidden = manage.manage(studio, entered("") | shown)
    assert hidden["project.manage_box"] == {"visible": False}


def test_the_bar_follows(studio, project):
    renamed = manage.rename(studio, entered(" anna "))
    assert renamed["project.project"] == {"choices": ["anna"], "value": "anna"}
    copied = manage.duplicate(studio, {"project.project": "anna", "project.new_name": "berta"})
    assert copied["project.project"] == {"choices": ["anna", "berta"], "value": "berta"}
    deleted = manage.delete(studio, {"project.project": "berta", "project.new_name": "berta"})
    assert deleted["project.project"] == {"choices": ["anna"], "value": "anna"} and "berta" in deleted[TOAST]
    last = manage.delete(studio, {"project.project": "anna", "project.new_name": "anna"})
    assert last["project.project"] == {"choices": [], "value": None}
    assert last["project.manage_box"] == {"visible": True}, "a new one can be named at once"


@pytest.mark.parametrize("name", ["", None, "Maria", "mari", ["maria"], 5])
def test_nothing_is_deleted_without_the_name(studio, project, name):
    with pytest.raises(UserError):
        manage.delete(studio, entered(name))
    assert names(studio) == ["maria"]


@pytest.mark.parametrize("project_name", [None, "gone", "../x"])
def test_a_project_that_another_tab_deleted_is_reported(studio, project_name):
    for act in (manage.manage, manage.rename, manage.duplicate, manage.delete):
        with pytest.raises(UserError):
            act(studio, {"project.project": project_name, "project.new_name": "b"})


def test_the_steps_follow_the_project_folder(studio, project):
    def shown() -> tuple[str, str]:
        found = str(view.stepper(project))
        return found, found.partition('aria-current="step"')[2]

    found, after = shown()
    assert text.STEPS["data"] + "<span" in found and text.STEPS["train"] in after.partition("</li>")[0]
    (project.runs / "one" / "checkpoints" / "step-1").mkdir(parents=True)
    assert text.STEP_NEEDS["export"] in shown()[0] and text.export_takes("") in shown()[0]
    assert text.export_takes("2 min 40 s") in view.stepper(project, 160)
    training = [SimpleNamespace(kind="train", alive=True)]
    assert not view.steps_done(project, training)["train"], "it is done when it has ended"
    assert not any(words in view.stepper(project, jobs=training) for words in text.STEP_NEEDS.values())
    project.ready.mkdir()
    (project.ready / "model.pth").write_bytes(b"weights")
    assert text.STEP_NEEDS["listen"] in shown()[0]
    assert view.steps_done(project) == {"data": True, "train": True, "export": True, "listen": False}
    (project.ready / "model.pth").rename(project.ready / "voice.safetensors")
    assert view.steps_done(project)["export"], "a LoRA voice alone can be listened to"
    assert "aria-current" in view.stepper(None)


def test_before_an_export_the_bar_says_how_long_the_last_one_took(studio, project, monkeypatch):
    other = Project(name="other", output=studio.output)
    other.ready.mkdir(parents=True)
    (other.ready / "model.pth").write_bytes(b"weights")
    os.utime(other.ready / "model.pth", (255, 255))

    def jobs_of(project: Project, *, kind: str, read: object) -> list[SimpleNamespace]:
        # The one after the model's made a LoRA voice's file alone.
        times = [
            ("finished", 10.0, 40.0),
            ("finished", 100.0, 260.0),
            ("finished", 270.0, 272.0),
            ("failed", 300.0, 305.0),
        ]
        return [
            SimpleNamespace(kind="export", state=state, started=started, ended=ended, alive=False)
            for state, started, ended in times
        ]

    monkeypatch.setattr(jobs, "list", jobs_of)
    assert live.last_export_s(studio, project) is None, "the next step is another one"
    (project.runs / "one" / "checkpoints" / "step-1").mkdir(parents=True)
    assert live.last_export_s(studio, project) == 160
