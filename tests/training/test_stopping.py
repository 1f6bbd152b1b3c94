"""A stopped run loses nothing: a real child gets a real signal."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.configs import tiny_run
from tests.run_logs import events_of
from tests.saving import same
from tests.sounds import make_project
from utils.config import TrainConfig
from utils.jobs import child as stopping
from utils.jobs.child import StopRequest
from utils.model.weights import read_weights
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints
from utils.training.train import fine_tune

NUM_EPOCHS = 4


def start(project: Project) -> tuple[subprocess.Popen, Path]:
    """The command, training in processes of a group of their own; and its run folder once the third step is logged."""
    values = {
        "base": "tiny",
        "num-epochs": NUM_EPOCHS,
        "batch-size": 2,
        "run-id": "signalled",
        "dropout": 0.1,
        "num-workers": 2,
    }
    flags = [word for name, value in values.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "utils.cli.train", "--project", project.name, "--output", str(project.output)]
    child = subprocess.Popen(
        [*command, "--device", "cpu", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    folder = project.runs / "signalled"
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and child.poll() is None:
        if len(events_of(folder, "step")) >= 3:
            break
        time.sleep(0.05)
    return child, folder


def settings_of(project: Project) -> TrainConfig:
    return tiny_run(project, num_epochs=NUM_EPOCHS, device="cpu")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """The folder of a run without a signal."""
    project = make_project(tmp_path_factory.mktemp("whole"))
    return fine_tune(replace(settings_of(project), batch_size=2, dropout=0.1)).folder


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_signal_ends_the_step_writes_a_checkpoint_and_the_run_goes_on_as_if_undisturbed(
    project: Project, undisturbed: Path, number: int, status: int
) -> None:
    """To every process of the group, loaders too, as schedulers, systemd and Ctrl-C send it."""
    child, folder = start(project)
    loaders = psutil.Process(child.pid).children()
    assert len(loaders) >= 2
    os.killpg(child.pid, number)
    output, _ = child.communicate(timeout=240)
    assert child.returncode == status, output
    assert not psutil.wait_procs(loaders, timeout=15)[1], "no loader is left behind"
    assert f"--resume {folder}" in output
    events = events_of(folder)
    last = Checkpoints(folder).last()
    assert events[-1]["kind"] == "stopped" and last is not None
    step = events[-1]["step"]
    assert last.name == f"step-{step:08d}" and step < NUM_EPOCHS * 3

    fine_tune(replace(settings_of(project), resume=folder))
    mine, theirs = (
        read_weights(next(run.glob("checkpoints/step-*")) / "optimizer.safetensors") for run in (folder, undisturbed)
    )
    assert same(mine, theirs)


def test_a_request_that_comes_twice_is_one_and_a_later_one_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert stop.number == signal.SIGINT
        monkeypatch.setattr(stopping, "ECHO_S", 0.0)
        with pytest.raises(SystemExit) as end:
            signal.raise_signal(signal.SIGTERM)
        assert end.value.code == 143


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows closes consoles otherwise")
def test_a_lost_terminal_is_a_request_to_stop_unless_the_run_was_begun_to_outlive_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may have been begun with nohup
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGHUP)
            monkeypatch.setattr(stopping, "ECHO_S", 0.0)
            signal.raise_signal(signal.SIGHUP)
        assert stop.number == signal.SIGHUP
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGHUP)
        assert stop.number is None
    finally:
        signal.signal(signal.SIGHUP, former)
