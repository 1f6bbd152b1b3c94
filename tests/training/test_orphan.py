"""A queued run trains; who started it may die: the training continues, and who looks in later sees every event."""

import os
import signal
import time

from tests.run_logs import events_of
from utils import jobs
from utils.config import TrainConfig
from utils.jobs import run_queue
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints, verify
from utils.runs.log import read_events

NUM_STEPS = 18
"""3 epochs of 6 clips, one a step."""


def begin_and_die(project: Project) -> None:
    """In a process of its own: start the only run of the queue and, once it trains, be killed."""
    run_queue.EVERY_S = 0.05
    config = TrainConfig(
        project=project.name,
        output=project.output,
        base="tiny",
        num_epochs=3,
        batch_size=1,
        device="cpu",
        num_workers=0,
    )
    folder = project.runs / run_queue.enqueue(project, config).name
    run_queue.watch_queues(project.output, lambda config: jobs.start("train", config))
    while not any(read_events(folder / "events.jsonl", kind="step")):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_training_whose_parent_is_killed_goes_on_and_another_sees_every_event(processes, project):
    parent = processes.Process(target=begin_and_die, args=(project,))
    parent.start()
    parent.join(240)
    assert parent.exitcode == -signal.SIGKILL
    (folder,) = project.runs.iterdir()

    job = jobs.status(folder)
    assert job.alive and job.process_alive
    assert len(events_of(folder, "step")) < NUM_STEPS, "it is still training"
    assert not run_queue.read_queue(project)
    end = jobs.wait(folder, 240)

    assert (end.state, end.process_alive) == ("finished", False), job.log.read_text()
    events = events_of(folder)
    assert [event["step"] for event in events if event["kind"] == "step"] == list(range(1, NUM_STEPS + 1))
    kinds = [event["kind"] for event in events]
    assert kinds.count("started") == 1 and kinds.count("eval") == 3 and kinds[-1] == "finished"
    last = Checkpoints(folder).last()
    assert last is not None and last.name == f"step-{NUM_STEPS:08d}"
    verify(last)
