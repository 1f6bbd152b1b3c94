"""A stopped run loses nothing: a real child gets a real signal."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from utils.config import TrainConfig
from utils.errors import UserError
from utils.events import read_events
from utils.model.weights import read_weights
from utils.paths import Project
from utils.training.run import fine_tune
from utils.training.state import Checkpoints

NUM_EPOCHS = 12


def start(project: Project) -> tuple[subprocess.Popen, Path]:
    """The command, training; and its run folder once the third step is logged."""
    command = [
        *(
            sys.executable,
            "-m",
            "utils.cli.train",
            "--base",
            "tiny",
            "--project",
            project.name,
            "--output",
            str(project.output),
        ),
        *(
            "--num-epochs",
            str(NUM_EPOCHS),
            "--batch-size",
            "2",
            "--run-id",
            "signalled",
            "--dropout",
            "0.1",
            "--device",
            "cpu",
        ),
    ]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    folder = project.runs / "signalled"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and child.poll() is None:
        if len(list(read_events(folder / "events.jsonl", kind="step"))) >= 3:
            break
        time.sleep(0.05)
    return child, folder


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_step_writes_a_checkpoint_and_the_run_goes_on_as_if_undisturbed(
    project: Project, number: int, status: int
) -> None:
    child, folder = start(project)
    child.send_signal(number)
    output, _ = child.communicate(timeout=120)
    assert child.returncode == status, output
    assert f"--resume {folder}" in output
    events = list(read_events(folder / "events.jsonl"))
    last = Checkpoints(folder / "checkpoints").last()
    assert events[-1]["kind"] == "stopped" and last is not None
    step = events[-1]["step"]
    assert last.name == f"step-{step:08d}" and step < NUM_EPOCHS * 3

    settings = TrainConfig(
        base="tiny", project=project.name, output=project.output, num_epochs=NUM_EPOCHS, device="cpu"
    )
    fine_tune(replace(settings, resume=folder))
    whole = fine_tune(replace(settings, batch_size=2, dropout=0.1))
    mine, theirs = (
        read_weights(next(run.glob("checkpoints/step-*")) / "optimizer.safetensors") for run in (folder, whole.folder)
    )
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


def test_a_second_training_on_the_same_device_is_refused_by_name(project: Project) -> None:
    child, folder = start(project)
    try:
        with pytest.raises(UserError, match="signalled"):
            fine_tune(TrainConfig(base="tiny", project=project.name, output=project.output, num_epochs=1, device="cpu"))
    finally:
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=120)
    assert [run.name for run in project.runs.iterdir()] == ["signalled"], folder
