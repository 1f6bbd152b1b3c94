"""Several processes share one run: they train like one that accumulates, and what ends one of them ends all.

Each process reads clips of its own, so only one of them meets a recording that is missing, and a signal may reach only
one of them, too.
"""

import os
import signal
import socket
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch

from tests.configs import tiny_run
from tests.run_logs import events_of, warnings_of
from tests.saving import same
from tests.sounds import make_project
from tests.training.test_run import config_of
from utils.cli.train import main
from utils.errors import UserError
from utils.model.weights import read_weights
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints, verify
from utils.runs.layout import MODEL_FILE
from utils.training import distributed, train
from utils.training.data import batches as batches_module
from utils.training.plan import micro_batches_of, plan_run
from utils.training.train import Progresses, fine_tune
from utils.training.trainer import Gathered, Trainer

WORLD = 2
STEPS_PER_EPOCH = 3
"""Six clips, one for each process in a step."""
RATE = 1e-4
"""Learning rate where runs are compared: at the tiny base's own, AdamW's first steps magnify rounded gradients."""
TIMEOUT_S = 240
"""Processes that have not ended by then wait for each other."""


def unreadable(*_: object) -> torch.Tensor:
    raise UserError(what="a drive of this process is gone")


def run_out_of_memory(rank: int) -> None:
    """In the second process the forward pass of step 3 fails."""
    gather = Trainer._backward

    def limited(trainer: Trainer, batches: list) -> Gathered:
        if rank == 1 and trainer.num_steps == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return gather(trainer, batches)

    Trainer._backward = limited


FAULTS = {
    "lost": lambda: setattr(batches_module, "_read", unreadable),
    "signalled": lambda: os.kill(os.getpid(), signal.SIGTERM),
}
"""What befalls one process and not the other, after a step."""


def have_other_clips(rank: int) -> None:
    """The second process has another dataset."""
    if rank == 1:
        require = train.require_alike
        train.require_alike = lambda facts: require(facts | {"clips": "another"})


MODEL_FAULTS = {"memory": run_out_of_memory, "other clips": have_other_clips}
"""What befalls the model of one process, or what it was made from."""


Fault = str | Callable[[int], None]
"""Name of a fault, or a function of the test's module that gets the number of the process."""


def take_part(rank: int, world: int, port: int, flags: list[str], fault: Fault, fault_step: int, output: Path) -> None:
    """In a process of its own: the real command as a launcher starts it, with a fault in one of them."""
    os.chdir(output)
    log_file = os.open(output / f"process-{rank}.log", os.O_WRONLY | os.O_TRUNC | os.O_CREAT)
    os.dup2(log_file, 1)
    os.dup2(log_file, 2)
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in places.items()}, MASTER_ADDR="127.0.0.1")
    log_step = train.log_step

    def then_fault(state, services, *args, **kwargs) -> None:
        log_step(state, services, *args, **kwargs)
        if rank == world - 1 and services.trainer.num_steps == fault_step:
            FAULTS[fault]()

    if not isinstance(fault, str):
        fault(rank)
    elif fault in MODEL_FAULTS:
        MODEL_FAULTS[fault](rank)
    else:
        train.log_step = then_fault
    main(flags)


def start(
    processes: ForkServerContext, project: Project, *flags: str, fault: Fault = "", step: int = 0, world: int = WORLD
) -> list[BaseProcess]:
    """Begin to train in two processes, or another number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = ["--project", project.name, "--output", str(project.output), "--device", "cpu", "--num-workers", "0"]
    arguments = (world, port, [*place, *flags], fault, step, project.output)
    children = [processes.Process(target=take_part, args=(rank, *arguments)) for rank in range(world)]
    for child in children:
        child.start()
    return children


def ended(children: list[BaseProcess], project: Project) -> list[int]:
    """Exit statuses of processes that end by themselves."""
    for child in children:
        child.join(TIMEOUT_S)
    waiting = [child for child in children if child.exitcode is None]
    for child in waiting:
        child.kill()
    assert not waiting, f"one process waits for the other: {logs(project)}"
    return [child.exitcode for child in children]


def launch(processes: ForkServerContext, project: Project, *flags: str, **how) -> list[int]:
    """Train in two processes, or another number; returns their exit statuses."""
    return ended(start(processes, project, *flags, **how), project)


def logs(project: Project) -> str:
    return "\n".join((project.output / f"process-{rank}.log").read_text()[-2_000:] for rank in range(WORLD))


def begin(processes: ForkServerContext, project: Project, *flags: str, **fault) -> list[int]:
    settings = ("--base", "tiny", "--num-epochs", "3", "--batch-size", "1", "--run-id", "shared", *flags)
    return launch(processes, project, *settings, **fault)


def assert_saved(folder: Path, *, step: int, end: str) -> None:
    last, event = Checkpoints(folder).last(), events_of(folder)[-1]
    assert last is not None and last.name == f"step-{step:08d}"
    verify(last)
    assert (event["kind"], event["step"]) == (end, step)


def assert_same_weights(run: Path, other: Path) -> None:
    mine, theirs = (read_weights(next(folder.glob("checkpoints/step-*")) / MODEL_FILE) for folder in (run, other))
    for name, tensor in theirs.items():
        torch.testing.assert_close(mine[name], tensor, rtol=0, atol=1e-5, msg=name)


@pytest.mark.slow
def test_out_of_memory_in_one_process_ends_both_and_the_newest_checkpoint_resumes(processes, project):
    assert begin(processes, project, "--checkpoint-every", "1", fault="memory") == [2, 2], logs(project)
    assert "out of memory in process 1 of 2 at step 3" in logs(project)
    assert_saved(project.runs / "shared", step=2, end="failed")
    error = events_of(project.runs / "shared")[-1]["error"]
    assert "another process of this run has ended" in error and "--resume" in error
    assert fine_tune(tiny_run(project, resume=Path("last"))).num_steps == 3 * STEPS_PER_EPOCH


def test_processes_that_differ_are_refused_before_they_train(processes, project):
    assert begin(processes, project, fault="other clips") == [2, 2], logs(project)
    assert "process 1 of 2 has other clips than process 0" in logs(project)
    assert not list(project.runs.glob("*"))


def test_another_checkout_is_a_difference(monkeypatch):
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(distributed, "gather_object", lambda facts: seen.extend(facts) or seen)
    for _ in range(2):
        distributed.require_alike({"clips": "the same"})
    monkeypatch.setattr(distributed, "PACKAGE", Path(__file__).parent)
    with pytest.raises(UserError, match="process 2 of 3 has other code than process 0"):
        distributed.require_alike({"clips": "the same"})


@pytest.mark.slow
def test_two_processes_train_like_one_that_accumulates(processes, project):
    """Also where one process does a part of the run.

    Three micro-batches an epoch, two a step: in each epoch's last step the second process has nothing of its own.
    """
    settings = {"num_epochs": 3, "batch_size": 2, "dropout": 0.1, "learning_rate": RATE, "device": "cpu"}
    whole = fine_tune(config_of(project, **settings, grad_accumulation=WORLD))
    folder = project.runs / "shared"
    flags = ("--batch-size", "2", "--dropout", "0.1", "--learning-rate", str(RATE), "--eval-batch-size", "1")
    assert begin(processes, project, *flags, fault="signalled", step=1) == [0, 143], logs(project)
    stop = Progresses(steps=lambda done, *_: signal.raise_signal(signal.SIGTERM) if done == 4 else None)
    assert fine_tune(tiny_run(project, resume=folder), progress=stop).ended == "signal"
    assert launch(processes, project, "--resume", str(folder)) == [0, 0], logs(project)

    started = [*events_of(folder, "started"), *events_of(whole.folder, "started")]
    assert [event["processes"] for event in started] == [WORLD, 1, WORLD, 1]
    assert {event["global_batch"] for event in started} == {2 * WORLD}
    assert not [event["message"] for event in events_of(folder, "warning") if "begins again" in event["message"]]
    for kind, keys in (("step", ("step", "epoch", "loss", "lr", "audio_s")), ("eval", ("step", "loss"))):
        for key in keys:
            mine, theirs = ([event[key] for event in events_of(run, kind)] for run in (folder, whole.folder))
            assert mine == pytest.approx(theirs, rel=0, abs=1e-5), key
    assert_same_weights(folder, whole.folder)

    plan = plan_run(config_of(project, resume=folder, device="cpu"))
    assert micro_batches_of(plan, 1) == WORLD
    with pytest.raises(UserError, match=r"(?s)2 micro-batches, which 3 processes cannot share.*continue with 1 or 2"):
        micro_batches_of(plan, 3)
    plan.resumed.state.pop("global_micro_batches")
    assert micro_batches_of(plan, 3) == 0


@pytest.mark.slow
def test_what_befalls_one_process_ends_both_saves_and_is_gone_on_from_exactly(processes, project, tmp_path_factory):
    """A clip lost in training, one lost while evaluating, and a signal, each in the second process only."""
    dropout = ("--dropout", "0.1")
    undisturbed = make_project(tmp_path_factory.mktemp("whole"))
    assert begin(processes, undisturbed, *dropout) == [0, 0], logs(undisturbed)
    folder, resume = project.runs / "shared", ("--resume", "last")

    assert begin(processes, project, *dropout, fault="lost", step=1) == [2, 2], logs(project)
    assert_saved(folder, step=1, end="failed")
    assert "a drive of this process is gone" in events_of(folder)[-1]["error"], "the first tells what the second met"
    assert launch(processes, project, *resume, fault="lost", step=STEPS_PER_EPOCH) == [2, 2], logs(project)
    assert_saved(folder, step=STEPS_PER_EPOCH, end="failed")
    assert launch(processes, project, *resume, fault="signalled", step=5) == [0, 143], logs(project)
    assert_saved(folder, step=5, end="stopped")
    assert launch(processes, project, *resume) == [0, 0], logs(project)

    reported = warnings_of(folder)
    assert not [message for message in reported if "begins again" in message]
    for name in ("model.safetensors", "optimizer.safetensors"):
        runs = (folder, undisturbed.runs / "shared")
        mine, theirs = (read_weights(next(run.glob("checkpoints/step-*")) / name) for run in runs)
        assert same(mine, theirs), name
