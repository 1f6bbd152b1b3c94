"""`--processes`: how many there are, what is refused, and a job of two that is stopped, killed and resumed."""

import os
import signal
import time
from dataclasses import replace

import psutil
import pytest

from tests.hardware.machines import make_gpu
from tests.training.test_run import config_of
from utils import jobs
from utils.config import TrainConfig
from utils.errors import UserError
from utils.hardware.processor import usable_cpus
from utils.runs.checkpoints import Checkpoints
from utils.runs.log import read_events
from utils.training import distributed as launch_module
from utils.training.distributed import num_processes
from utils.training.train import fine_tune

LIMIT_S = 240


def test_a_cpu_has_one_process_unless_more_are_requested():
    config = TrainConfig(project="a", device="cpu")
    assert num_processes(config) == 1 and num_processes(replace(config, processes=0)) == 1
    if usable_cpus() > 1:
        assert num_processes(replace(config, processes=2)) == 2


def test_each_gpu_has_one_process_when_as_many_as_there_are_were_requested(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(
        launch_module, "find_gpus", lambda: ([make_gpu(8, (8, 6), uuid=f"GPU-{n}") for n in range(4)], "")
    )
    monkeypatch.setattr(launch_module, "wanted_device", lambda device: "cuda:0")
    config = TrainConfig(project="a")
    assert num_processes(config) == 1 and num_processes(replace(config, processes=0)) == 4
    with pytest.raises(UserError, match="processes is 5, but this computer has 4 GPUs"):
        num_processes(replace(config, processes=5))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    assert num_processes(replace(config, processes=0)) == 2, "hidden GPUs do not count"


def test_a_process_that_a_launcher_started_starts_no_others(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert num_processes(TrainConfig(project="a", device="cpu", processes=64)) == 1


def test_more_processes_than_cores_and_fewer_than_none_are_refused():
    with pytest.raises(UserError, match="CPU cores"):
        num_processes(TrainConfig(project="a", device="cpu", processes=4_096))
    with pytest.raises(UserError, match="processes is -1; use 0 or more"):
        TrainConfig(project="a", processes=-1).validate(where="test")


@pytest.mark.skipif(usable_cpus() < 2, reason="needs two cores")
def test_a_call_that_trains_in_its_own_process_does_not_pretend_to_have_more(project):
    with pytest.raises(UserError, match="processes is 2, and this call trains in one process"):
        fine_tune(config_of(project, device="cpu", processes=2))
    assert not project.runs.exists()


def steps_of(job: jobs.Job) -> int:
    return len(list(read_events(job.events, kind="step")))


def wait_until(job: jobs.Job, steps: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while steps_of(job) < steps:
        assert time.monotonic() < deadline and jobs.status(job.folder).alive, job.log.read_text()[-2000:]
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.skipif(usable_cpus() < 2 or os.name != "posix", reason="needs two cores, and ends processes by signal")
def test_a_job_of_two_processes_stops_saves_and_goes_on_also_after_one_was_killed(project):
    settings = {"device": "cpu", "processes": 2, "batch_size": 1, "num_epochs": 5_000, "sample_text": ""}
    job = jobs.start("train", config_of(project, **settings))
    wait_until(job, 2)
    jobs.stop(job.folder)
    stopped = jobs.wait(job.folder, LIMIT_S)
    assert stopped.state == "stopped"
    last = Checkpoints(job.folder).last()
    assert last is not None and last.name == f"step-{steps_of(job):08d}"

    done = steps_of(job)
    again = jobs.start("train", config_of(project, **settings, resume=job.folder))
    wait_until(again, done + 4)
    (rank,) = [
        child
        for child in psutil.Process(jobs.status(again.folder).pid).children()
        if child.environ().get("RANK") == "1"
    ]
    os.kill(rank.pid, signal.SIGKILL)
    ended = jobs.wait(again.folder, LIMIT_S)
    assert ended.state == "failed" and not [p for p in (rank.pid, ended.pid) if p and psutil.pid_exists(p)]
    assert "process 1 of 2 ended with signal 9" in again.log.read_text()
