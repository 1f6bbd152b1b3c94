"""A stopped run loses nothing: processes get real signals."""

import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.configs import tiny_run
from tests.run_logs import events_of
from tests.saving import same
from tests.sounds import make_project
from tests.training.test_run import config_of
from utils.cli.train import main
from utils.jobs import child as stopping
from utils.jobs.child import StopRequest
from utils.model.weights import read_weights
from utils.runs.checkpoints import Checkpoints
from utils.training import train
from utils.training.checkpointing import RunState, Services
from utils.training.train import fine_tune

SETTINGS: dict[str, Any] = {"num_epochs": 4, "dropout": 0.1, "device": "cpu"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """The folder of a run without a signal."""
    return fine_tune(config_of(make_project(tmp_path_factory.mktemp("whole")), **SETTINGS)).folder


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_signal_ends_the_step_writes_a_checkpoint_and_the_run_goes_on_as_if_undisturbed(
    project, undisturbed, monkeypatch, capsys, number, status
):
    """To every process of the group, loaders too, as schedulers, systemd and Ctrl-C send it."""
    log_step, signalled = train.log_step, list[psutil.Process]()

    def then_signal(state: RunState, services: Services, *rest: Any) -> None:
        log_step(state, services, *rest)
        if services.trainer.num_steps == 3:
            signalled.extend(one for one in psutil.Process().children() if "pt_data_worker" in one.name())
            for process in (psutil.Process(), *signalled):
                process.send_signal(number)

    place = ["--base", "tiny", "--project", project.name, "--output", str(project.output), "--run-id", "signalled"]
    flags = ["--num-epochs", "4", "--batch-size", "2", "--dropout", "0.1", "--device", "cpu", "--num-workers", "2"]
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setattr(train, "log_step", then_signal)
        main([*place, *flags])
    folder, output = project.runs / "signalled", capsys.readouterr()
    assert end.value.code == status and f"--resume {folder}" in output.out + output.err
    assert len(signalled) == 2 and not psutil.wait_procs(signalled, timeout=15)[1], "no loader is left behind"
    last, event = Checkpoints(folder).last(), events_of(folder)[-1]
    assert last is not None and last.name == "step-00000003" and (event["kind"], event["step"]) == ("stopped", 3)

    fine_tune(tiny_run(project, resume=folder))
    mine, theirs = (
        read_weights(next(run.glob("checkpoints/step-*")) / "optimizer.safetensors") for run in (folder, undisturbed)
    )
    assert same(mine, theirs)


def test_a_request_that_comes_twice_is_one_and_a_later_one_ends_at_once(monkeypatch):
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
    monkeypatch,
):
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
