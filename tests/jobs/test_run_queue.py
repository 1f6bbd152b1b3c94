"""Queued runs start one after another, survive a restart, and are skipped with a reason where they cannot start."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.configs import tiny_run
from tests.jobs.children import POLITE, child, eventually
from tests.webui.small_project import make_project
from utils import jobs
from utils.config import TrainConfig
from utils.errors import UserError
from utils.jobs.run_queue import QUEUE_FILE, dequeue, enqueue, move, read_queue, start_due, start_next, watch_queues
from utils.project.paths import Project

QUICK = 'tell("started", total_steps=1)\ntell("step", step=1, loss=1.0)\ntell("finished", step=1)\n'


@pytest.fixture
def project(output: Path) -> Project:
    return make_project(output, "maria")


def config(project: Project, seed: int = 1) -> TrainConfig:
    return tiny_run(project, device="cpu", seed=seed)


def fake(program: str) -> Callable[[TrainConfig], jobs.Job]:
    return lambda config: jobs.start("train", config, command=child(program))


def wait_for_end(project: Project) -> jobs.Job:
    return jobs.wait(jobs.list(project, kind="train")[0].folder, 60)


def test_runs_start_in_order_and_only_when_the_device_is_free(project):
    first, second = (enqueue(project, config(project, seed)) for seed in (1, 2))
    assert start_next(project, fake(POLITE)) == first.name
    assert start_next(project, fake(POLITE)) is None, "the first one has the device"
    assert [run.name for run in read_queue(project)] == [second.name]
    jobs.stop(project.runs / first.name)
    wait_for_end(project)
    assert start_next(project, fake(QUICK)) == second.name
    assert wait_for_end(project).state == "finished" and read_queue(project) == []
    assert TrainConfig.load(project.runs / second.name / "config.yaml").seed == 2
    assert start_next(project, fake(QUICK)) is None


def test_a_queue_is_ordered_and_thinned_by_its_user(project):
    one, two, three = (enqueue(project, config(project, seed)).name for seed in (1, 2, 3))
    move(project, three, -1)
    move(project, one, 1)
    assert [run.name for run in read_queue(project)] == [three, one, two]
    move(project, three, -1)
    move(project, two, 1)
    assert [run.name for run in read_queue(project)] == [three, one, two], "the ends stay where they are"
    for _ in range(2):
        dequeue(project, one)
        move(project, one, 1)
    assert [run.config.seed for run in read_queue(project)] == [3, 2]


def test_a_run_whose_dataset_is_gone_is_reported_and_skipped(project, output, monkeypatch):
    monkeypatch.setattr("utils.jobs.run_queue.EVERY_S", 0.05)
    other = make_project(output, "bert")
    gone, well = enqueue(project, config(project)), enqueue(other, config(other))
    project.train_csv.unlink()
    has_ended = watch_queues(output, fake(QUICK))
    eventually(lambda: jobs.list(other, kind="train"))
    has_ended.set()
    (skipped,) = read_queue(project)
    assert skipped.name == gone.name and "the dataset is gone" in skipped.fault
    assert wait_for_end(other).name == well.name
    start_due(output, fake(QUICK))
    assert read_queue(project) == [skipped], "it stays until its user removes it"


def test_a_run_that_cannot_start_does_not_keep_the_next_one(project):
    def refuse(config: TrainConfig) -> None:
        if config.seed == 1:
            raise UserError(what="the base is gone", where="bases", fix="download it")
        fake(QUICK)(config)

    enqueue(project, config(project, 1))
    second = enqueue(project, config(project, 2))
    assert start_next(project, refuse) == second.name
    assert ["the base is gone" in run.fault for run in read_queue(project)] == [True]
    wait_for_end(project)


def test_a_run_is_started_once_even_if_the_starter_was_killed_before_it_noted_so(project):
    run = enqueue(project, config(project))
    before = (project.folder / QUEUE_FILE).read_text(encoding="utf-8")
    assert start_next(project, fake(QUICK)) == run.name
    wait_for_end(project)
    (project.folder / QUEUE_FILE).write_text(before, encoding="utf-8")
    assert start_next(project, lambda config: pytest.fail("it was started before")) == run.name
    assert read_queue(project) == []


@pytest.mark.parametrize("content", ["", "[]", '{"runs": 1}', '{"runs": [1, {"name": 2}]}', "[" * 9_000])
def test_a_spoiled_file_is_an_empty_queue(project, content):
    (project.folder / QUEUE_FILE).write_text(content, encoding="utf-8")
    assert read_queue(project) == [] and start_next(project, fake(QUICK)) is None
    enqueue(project, config(project))
    assert len(read_queue(project)) == 1


def test_settings_of_another_version_are_a_fault_and_no_crash(project):
    enqueue(project, config(project))
    file = project.folder / QUEUE_FILE
    values = json.loads(file.read_text(encoding="utf-8"))
    values["runs"][0]["settings"]["warp"] = True
    file.write_text(json.dumps(values), encoding="utf-8")
    (run,) = read_queue(project)
    assert "unknown settings: warp" in run.fault and start_next(project, fake(QUICK)) is None
