"""kill -9, again and again, most of all inside a save: what is whole loads, and the run ends as if undisturbed.

The long form's figures: python -m pytest tests/training/test_kill.py -k 25 --log-cli-level=INFO
"""

import logging
import multiprocessing.process
import os
import random
import signal
import time
from collections.abc import Callable
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.run_logs import events_of, warnings_of
from tests.saving import same
from tests.training.test_run import config_of
from utils.cli.train import main
from utils.errors import UserError
from utils.jobs import child as stopping
from utils.model.weights import read_weights
from utils.project.paths import Project
from utils.runs import checkpoints as state_module
from utils.runs.checkpoints import Checkpoints, verify
from utils.runs.layout import ASIDE, is_complete
from utils.training.train import fine_tune

log = logging.getLogger(__name__)

SAVE_S = 0.15
"""Of each sync."""
EPOCHS, FEW_EPOCHS = 10, 5
"""Of 3 steps each; few are enough for a kill or two."""


def train_slowly(sync_s: float, flags: list[str], log_file: Path) -> None:
    """In a process of its own: the real command, with saves that are slowed down."""
    sync, output = state_module.sync, os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def slow(path: Path) -> None:
        # A save syncs three files and two folders, and so takes five times this and more.
        time.sleep(sync_s)
        sync(path)

    state_module.sync = slow
    stopping.ECHO_S = 0.0
    os.dup2(output, 1)
    os.dup2(output, 2)
    main(flags)


def child(
    processes: ForkServerContext, project: Project, *flags: str, sync_s: float = SAVE_S
) -> multiprocessing.process.BaseProcess:
    place = ["--base", "tiny", "--project", project.name, "--output", str(project.output), "--device", "cpu"]
    process = processes.Process(target=train_slowly, args=(sync_s, [*place, *flags], project.output / "child.log"))
    process.start()
    return process


def begin(
    processes: ForkServerContext, project: Project, *, epochs: int, sync_s: float = SAVE_S
) -> multiprocessing.process.BaseProcess:
    flags = ("--num-epochs", str(epochs), "--batch-size", "2", "--dropout", "0.1", "--checkpoint-every", "1")
    return child(processes, project, *flags, "--run-id", "killed", sync_s=sync_s)


def asides(folder: Path) -> list[Path]:
    return list((folder / "checkpoints").glob(f"{ASIDE}*"))


def wait_until(condition, process, *, timeout_s: float = 240) -> bool:
    """Whether it became so while the process lived."""
    deadline = time.monotonic() + timeout_s
    while process.is_alive():
        if condition():
            return True
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return False


def ended(process, project: Project) -> int:
    """Exit status of a process that ends by itself."""
    process.join(600)
    assert process.exitcode is not None, (project.output / "child.log").read_text()[-3_000:]
    return process.exitcode


def num_steps(folder: Path) -> int:
    return sum(1 for _ in events_of(folder, "step"))


def assert_same_end(folder: Path, whole: Path) -> None:
    for name in ("model.safetensors", "optimizer.safetensors"):
        mine, theirs = (read_weights(next(run.glob("checkpoints/step-*")) / name) for run in (folder, whole))
        assert same(mine, theirs), name
    mine, theirs = (next(run.glob("checkpoints/best-*")) for run in (folder, whole))
    assert mine.name == theirs.name
    mine, theirs = (read_weights(best / "model.safetensors") for best in (mine, theirs))
    assert same(mine, theirs), "the best"


def step_of(checkpoint: Path | None) -> int:
    """A checkpoint that is whole counts even when the kill came before it got its name."""
    return -1 if checkpoint is None else int(checkpoint.name[-8:])


@pytest.fixture(scope="module")
def undisturbed(file_project: Project) -> Callable[[int], Path]:
    """Folder of a run of this many epochs that was not killed."""

    @cache
    def run(epochs: int) -> Path:
        return fine_tune(config_of(file_project, num_epochs=epochs, dropout=0.1, device="cpu")).folder

    return run


@pytest.mark.parametrize("kills", [2, pytest.param(25, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])])
def test_a_run_that_is_killed_at_random_moments_ends_like_an_undisturbed_one(processes, project, undisturbed, kills):
    chance, epochs = random.Random(kills), EPOCHS if kills > 2 else FEW_EPOCHS
    folder = project.runs / "killed"
    checkpoints, inside, unfinished, survived = Checkpoints(folder), 0, 0, 0
    process = begin(processes, project, epochs=epochs)
    while survived < kills:
        steps, before = num_steps(folder), checkpoints.last()
        ready = wait_until(lambda n=steps: num_steps(folder) > n and checkpoints.last() is not None, process)
        assert ready, (project.output / "child.log").read_text()[-3_000:]
        time.sleep(chance.uniform(0, 9 * SAVE_S))
        process.kill()
        process.join()
        inside += bool(asides(folder))
        # One that is whole and has no name yet gets it; only the others are removed.
        unfinished += not all(is_complete(aside) for aside in asides(folder))
        newest = checkpoints.last()
        assert newest is not None and step_of(newest) >= step_of(before), "never behind what was saved"
        verify(newest)
        survived += 1
        process = child(processes, project, "--resume", "last", sync_s=SAVE_S if survived < kills else 0.0)
    assert ended(process, project) == 0, (project.output / "child.log").read_text()[-3_000:]
    reported = warnings_of(folder)
    tidied = sum("unfinished save was removed" in message for message in reported)
    log.info("kill -9: survived %d of %d, %d inside a save, %d leftovers tidied", survived, kills, inside, tidied)
    assert inside >= kills * 15 // 25 and not asides(folder)
    assert tidied == unfinished
    assert_same_end(folder, undisturbed(epochs))


def test_a_second_training_is_refused_and_a_second_signal_ends_a_save_at_once_and_spoils_nothing(processes, project):
    process = begin(processes, project, epochs=FEW_EPOCHS, sync_s=3 * SAVE_S)
    folder = project.runs / "killed"
    checkpoints = Checkpoints(folder)
    assert wait_until(lambda: checkpoints.last() is not None, process)
    with pytest.raises(UserError, match="the CPU is in use by the train job 'killed'"):
        fine_tune(config_of(project, device="cpu"))
    assert [run.name for run in project.runs.iterdir()] == ["killed"]
    # At the beginning of a save, so that both signals arrive before its end on a busy machine, too.
    assert wait_until(lambda: not asides(folder), process) and wait_until(lambda: bool(asides(folder)), process)
    os.kill(process.pid, signal.SIGTERM)
    time.sleep(2 * SAVE_S)  # two at once are one
    os.kill(process.pid, signal.SIGTERM)
    assert ended(process, project) == 143
    assert asides(folder), "it did not wait for the save"
    newest = checkpoints.last()
    assert newest is not None
    # From such a folder the runs above go on.
    verify(newest)
    assert events_of(folder)[-1]["kind"] == "stopped"
