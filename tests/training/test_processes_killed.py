"""kill -9 of one of two processes, again and again; then one alone, and two again: as if nothing had happened."""

import logging
import random
import time
from multiprocessing.context import ForkServerContext

import pytest

from tests.sounds import make_project
from tests.training.test_processes import RATE, assert_same_weights, begin, ended, events_of, launch, logs, start
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints, verify

log = logging.getLogger(__name__)

WAIT_S = 240


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.timeout(3_600))])
def test_a_process_killed_at_random_moments_costs_nothing(
    processes: ForkServerContext, project: Project, tmp_path_factory: pytest.TempPathFactory, kills: int
) -> None:
    """The other one ends by itself, also where the killed one is the first. Clips have lengths of their own, so that
    the seconds of a step tell which clips it had."""
    chance, epochs = random.Random(kills), 3 + kills
    flags = ("--num-epochs", str(epochs), "--dropout", "0.1", "--learning-rate", str(RATE))
    whole = make_project(tmp_path_factory.mktemp("whole"))
    assert begin(processes, whole, *flags) == [0, 0], logs(whole)

    settings = ("--base", "tiny", "--batch-size", "1", "--run-id", "shared", "--checkpoint-every", "1", *flags)
    folder, resume, first = project.runs / "shared", ("--resume", str(project.runs / "shared")), 0
    checkpoints = Checkpoints(folder / "checkpoints")
    for number in range(kills):
        before, deadline = num_steps(project), time.monotonic() + WAIT_S
        children = start(processes, project, *(resume if number else settings))
        while num_steps(project) == before or checkpoints.last() is None:
            assert all(child.is_alive() for child in children) and time.monotonic() < deadline, logs(project)
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.5))
        victim = chance.randrange(2)
        children[victim].kill()
        statuses = ended(children, project)
        assert statuses[victim] == -9 and statuses[1 - victim] != 0, logs(project)
        if victim == 1:
            assert "process 1 of 2 does not answer" in events_of(folder)[-1]["error"], "and so it saved"
        first += victim == 0
        newest = checkpoints.last()
        assert newest is not None
        verify(newest)
    log.info("kill -9: survived %d of %d, %d of the first process", kills, kills, first)

    step = num_steps(project)
    assert launch(processes, project, *resume, fault="signalled", step=step + 2) == [0, 143], logs(project)
    assert launch(processes, project, *resume, world=1, fault="signalled", step=step + 4) == [143], logs(project)
    assert launch(processes, project, *resume) == [0, 0], logs(project)
    told = [event["message"] for event in events_of(folder, "warning")]
    assert not [message for message in told if "begins anew" in message]
    mine, theirs = (
        {event["step"]: event for event in events_of(run, "step")} for run in (folder, whole.runs / "shared")
    )
    assert sorted(mine) == sorted(theirs) == list(range(1, 3 * epochs + 1))
    for key in ("audio_s", "loss", "lr"):
        expected = [theirs[step][key] for step in theirs]
        assert [mine[step][key] for step in theirs] == pytest.approx(expected, rel=0, abs=1e-5), key
    assert_same_weights(folder, whole.runs / "shared")


def num_steps(project: Project) -> int:
    """The newest step that was logged."""
    return max((event["step"] for event in events_of(project.runs / "shared", "step")), default=0)
