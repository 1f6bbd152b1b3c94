"""kill -9 of one of two processes: both end, start again by themselves, and the run ends as if nothing had happened."""

import logging
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.sounds import make_project
from tests.training.test_processes import RATE, assert_same_weights, events_of
from utils.hardware.processor import usable_cpus
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints

log = logging.getLogger(__name__)

WAIT_S = 240


def train(project: Project, *flags: str) -> subprocess.Popen[bytes]:
    """The command, in two processes."""
    words = ["--project", project.name, "--output", str(project.output), "--device", "cpu", "--processes", "2", *flags]
    output = (project.output / "train.log").open("ab")
    return subprocess.Popen([sys.executable, "-m", "utils.cli.train", *words], stdout=output, stderr=output)


def said(project: Project) -> str:
    return (project.output / "train.log").read_text()[-3_000:]


@pytest.mark.slow
@pytest.mark.skipif(usable_cpus() < 2 or os.name != "posix", reason="needs two cores, and ends processes by signal")
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.timeout(3_600))])
def test_a_run_whose_processes_are_killed_starts_again_and_ends_like_an_undisturbed_one(
    project, tmp_path_factory, kills
):
    """Clips have lengths of their own, so the seconds of a step tell which clips it had."""
    chance, epochs = random.Random(kills), 3 + kills
    flags = (
        "--base",
        "tiny",
        "--batch-size",
        "1",
        "--run-id",
        "shared",
        "--checkpoint-every",
        "1",
        "--num-workers",
        "0",
    )
    flags += ("--num-epochs", str(epochs), "--dropout", "0.1", "--learning-rate", str(RATE), "--sample-text", "")
    whole = make_project(tmp_path_factory.mktemp("whole"))
    assert train(whole, *flags).wait(WAIT_S) == 0, said(whole)

    folder, first = project.runs / "shared", 0
    command = train(project, *flags, "--max-restarts", str(kills))
    for number in range(kills):
        deadline = time.monotonic() + WAIT_S
        while len(events_of(folder, "started")) <= number or Checkpoints(folder).last() is None:
            assert command.poll() is None and time.monotonic() < deadline, said(project)
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 1.0))
        rank = chance.choice("01")
        for child in psutil.Process(command.pid).children():
            if child.environ().get("RANK") == rank:
                child.send_signal(signal.SIGKILL)
                first += rank == "0"
    assert command.wait(WAIT_S) == 0, said(project)
    log.info("kill -9: %d of %d of the first process", first, kills)

    started = events_of(folder, "started")
    assert len(started) == kills + 1 and all(event["resumed_from"] for event in started[1:])
    assert not [event for event in events_of(folder, "warning") if "begins again" in event["message"]]
    mine, theirs = (
        {event["step"]: event for event in events_of(run, "step")} for run in (folder, whole.runs / "shared")
    )
    assert sorted(mine) == sorted(theirs) == list(range(1, 3 * epochs + 1))
    for key in ("audio_s", "loss", "lr"):
        expected = [theirs[step][key] for step in theirs]
        assert [mine[step][key] for step in theirs] == pytest.approx(expected, rel=0, abs=1e-5), key
    assert_same_weights(folder, whole.runs / "shared")


@pytest.mark.slow
@pytest.mark.skipif(usable_cpus() < 2 or os.name != "posix", reason="needs two cores, and ends processes by signal")
def test_a_process_killed_before_the_first_checkpoint_begins_anew(project):
    flags = ("--base", "tiny", "--batch-size", "1", "--run-id", "shared", "--num-epochs", "1", "--num-workers", "0")
    command, folder = train(project, *flags, "--sample-text", "", "--max-restarts", "1"), project.runs / "shared"
    deadline = time.monotonic() + WAIT_S
    while not (folder / "base.json").exists():
        assert command.poll() is None and time.monotonic() < deadline, said(project)
        time.sleep(0.02)
    psutil.Process(command.pid).children()[-1].send_signal(signal.SIGKILL)
    assert command.wait(WAIT_S) == 0, said(project)
    assert [event["step"] for event in events_of(folder, "eval")] == [3]
