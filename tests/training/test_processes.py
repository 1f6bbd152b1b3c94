"""Several processes share one run: they train like one that accumulates, go on after a cut, and none waits for another.

Each process reads clips of its own, so that only one of them meets a recording that is gone, and a signal may reach
only one of them, too. The others must hear of it, or they would wait for it in the next sum over all processes.
"""

import os
import re
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch

from tests.sounds import make_project
from tests.training.test_run import config_of
from utils.cli.train import main
from utils.errors import UserError
from utils.model.gpt import GptLosses, XttsGpt
from utils.model.packing import PackedBatch
from utils.model.weights import read_weights
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints, verify
from utils.runs.layout import MODEL_FILE
from utils.runs.log import Event, read_events
from utils.training import loop as loop_module
from utils.training import setup
from utils.training.data import batches as batches_module
from utils.training.optimizer import gradient_sum
from utils.training.plan import micro_batches_of, plan_run
from utils.training.run import fine_tune
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
    """In the second process: in step 1 the forward pass of more than two clips fails, and in step 4 once the last
    backward pass, half-way, when some buckets are being summed already. In the first: evaluating two clips."""
    forward, gather, sums = XttsGpt.forward, Trainer._backward, []
    step, pending = 0, [4]

    def watched(trainer: Trainer, batches: list) -> Gathered:
        nonlocal step
        step, sums[:] = trainer.num_steps + 1, [trainer.gradient_sum]
        return gather(trainer, batches)

    def fail(*_: object) -> None:
        os.write(1, f"{sums[0]._num_summed} of {len(sums[0]._sizes)} buckets\n".encode())
        raise torch.OutOfMemoryError("CUDA out of memory")

    def limited(self: XttsGpt, batch: PackedBatch, cond_mels: torch.Tensor) -> GptLosses:
        clips = len(cond_mels)
        if not self.training and rank == 0 and clips > 1:
            raise MemoryError  # without a message, as Python raises it
        if self.training and rank == 1 and step == 1 and clips > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        is_second_fault = self.training and rank == 1 and step in pending and clips == 1
        hook = self.conditioning_perceiver.register_full_backward_hook(fail) if is_second_fault else None
        losses = forward(self, batch, cond_mels)
        if hook is not None:
            hook.remove()  # from later passes; this one has it
            pending.clear()
        return losses

    Trainer._backward, XttsGpt.forward = watched, limited
    # As many buckets of a tiny model as of a large one.
    gradient_sum.DistributedDataParallel = partial(gradient_sum.DistributedDataParallel, bucket_cap_mb=0.5)


def hang() -> None:
    """Until the other process has written the run's end."""
    (events,) = Path().glob("*/runs/shared/events.jsonl")
    while not list(read_events(events, kind="failed")):
        time.sleep(0.2)


def hang_inside_a_step(rank: int) -> None:
    """The second process hangs in the forward pass of step 3, when the first one waits for its gradients."""
    gather = Trainer._backward

    def hung(trainer: Trainer, batches: list) -> Gathered:
        if rank == 1 and trainer.num_steps == 2:
            hang()
        return gather(trainer, batches)

    Trainer._backward = hung


FAULTS = {
    "lost": lambda: setattr(batches_module, "_read", unreadable),
    "hung": hang,
    "signalled": lambda: os.kill(os.getpid(), signal.SIGTERM),
}
"""What befalls one process and not the other, after a step."""


def differ(name: str) -> Callable[[int], None]:
    """The second process has another checkout or dataset."""

    def change(rank: int) -> None:
        if rank == 1:
            require = setup.require_alike
            setup.require_alike = lambda facts: require(facts | {name: "another"})

    return change


MODEL_FAULTS = {
    "memory": run_out_of_memory,
    "hung inside": hang_inside_a_step,
    "other code": differ("code"),
    "other clips": differ("clips"),
}
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
    log_step = loop_module.log_step

    def then_fault(state, services, *args, **kwargs) -> None:
        log_step(state, services, *args, **kwargs)
        if rank == world - 1 and services.trainer.num_steps == fault_step:
            FAULTS[fault]()

    if not isinstance(fault, str):
        fault(rank)
    elif fault in MODEL_FAULTS:
        MODEL_FAULTS[fault](rank)
    else:
        loop_module.log_step = then_fault
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


def events_of(folder: Path, kind: str | None = None) -> list[Event]:
    return list(read_events(folder / "events.jsonl", kind=kind))


def begin(processes: ForkServerContext, project: Project, *flags: str, **fault) -> list[int]:
    settings = ("--base", "tiny", "--num-epochs", "3", "--batch-size", "1", "--run-id", "shared", *flags)
    return launch(processes, project, *settings, **fault)


def assert_saved(folder: Path, *, step: int, end: str) -> None:
    last, event = Checkpoints(folder / "checkpoints").last(), events_of(folder)[-1]
    assert last is not None and last.name == f"step-{step:08d}"
    verify(last)
    assert (event["kind"], event["step"]) == (end, step)


def assert_same_weights(run: Path, other: Path) -> None:
    mine, theirs = (read_weights(next(folder.glob("checkpoints/step-*")) / MODEL_FILE) for folder in (run, other))
    for name, tensor in theirs.items():
        torch.testing.assert_close(mine[name], tensor, rtol=0, atol=1e-5, msg=name)


def test_two_processes_train_like_one_that_accumulates(processes: ForkServerContext, project: Project) -> None:
    flags = ("--dropout", "0", "--eval-batch-size", "1", "--learning-rate", str(RATE))
    assert begin(processes, project, *flags) == [0, 0], logs(project)
    settings = {"num_epochs": 3, "batch_size": 1, "dropout": 0.0, "learning_rate": RATE, "device": "cpu"}
    one = fine_tune(config_of(project, **settings, grad_accumulation=WORLD))
    shared = project.runs / "shared"
    started = [events_of(folder, "started")[0] for folder in (shared, one.folder)]
    assert [event["processes"] for event in started] == [WORLD, 1]
    assert [event["global_batch"] for event in started] == [WORLD, WORLD]
    assert [event["buckets"] for event in started] == ["gradients lie in them", None]
    for kind, keys, limit in (("step", ("step", "epoch", "lr"), 1e-5), ("eval", ("step",), 1e-6)):
        mine, theirs = events_of(shared, kind), events_of(one.folder, kind)
        assert [[event[key] for key in keys] for event in mine] == [[event[key] for key in keys] for event in theirs]
        losses = [event["loss"] for event in theirs]
        assert [event["loss"] for event in mine] == pytest.approx(losses, rel=0, abs=limit)
    assert_same_weights(shared, one.folder)
    told = [[share["rank"] for share in event["ranks"]] for event in events_of(shared, "ranks")]
    assert told == [[0, 1]] * 3, "each epoch's"
    for event in events_of(shared, "ranks"):
        assert all(share["audio_per_second"] > 0 and 0 <= share["data_share"] < 1 for share in event["ranks"])


def test_out_of_memory_in_one_process_is_answered_by_both(processes: ForkServerContext, project: Project) -> None:
    """Before the buckets are known and after, and while evaluating: the run is that of one that had enough memory."""
    settings = {"batch_size": 3, "eval_batch_size": 2, "dropout": 0.0, "learning_rate": RATE}
    flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert begin(processes, project, *flags, "--num-epochs", "5", fault="memory") == [0, 0], logs(project)
    shared = project.runs / "shared"
    told = [event for event in events_of(shared, "warning") if event["source"] == "memory"]
    assert [(event.get("micro_batch"), event.get("eval_batch"), event["ranks"]) for event in told] == [
        (2, None, [1]),
        (None, 1, [0]),
        (1, None, [1]),
    ]
    assert "out of memory at step 4 in process 1 of 2: micro-batches have at most 1 clips" in told[-1]["message"]
    begun, whole = re.findall(r"(\d+) of (\d+) buckets", (project.output / "process-1.log").read_text())[0]
    assert 0 < int(begun) < int(whole), "the others wait for the rest"

    one = fine_tune(config_of(project, **settings, num_epochs=5, grad_accumulation=WORLD, device="cpu"))
    for kind, count in (("step", 5), ("eval", 5)):
        mine, theirs = ([event["loss"] for event in events_of(run, kind)] for run in (shared, one.folder))
        assert len(mine) == count and mine == pytest.approx(theirs, rel=0, abs=1e-5)
    assert_same_weights(shared, one.folder)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["hung inside", "hung"])
def test_a_process_that_hangs_is_named_and_what_was_trained_is_saved(
    processes: ForkServerContext, project: Project, fault: str
) -> None:
    assert begin(processes, project, "--rank-timeout", "0.1", fault=fault, step=2) == [2, 2], logs(project)
    assert_saved(project.runs / "shared", step=2, end="failed")
    error = events_of(project.runs / "shared")[-1]["error"]
    assert "process 1 of 2 does not answer: it hangs (the others waited up to 0.1 min" in error and "--resume" in error


@pytest.mark.parametrize("fault", ["other code", "other clips"])
def test_processes_that_differ_are_refused_before_they_train(
    processes: ForkServerContext, project: Project, fault: str
) -> None:
    assert begin(processes, project, fault=fault) == [2, 2], logs(project)
    assert f"process 1 of 2 has {fault} than process 0" in logs(project)
    assert not list(project.runs.glob("*"))


def test_a_run_goes_on_with_fewer_processes_and_with_more_again(processes: ForkServerContext, project: Project) -> None:
    """Three micro-batches an epoch, two a step: in each epoch's last step the second process has nothing of its own."""
    settings = {"num_epochs": 3, "batch_size": 2, "dropout": 0.1, "learning_rate": RATE, "device": "cpu"}
    whole = fine_tune(config_of(project, **settings, grad_accumulation=WORLD))
    folder, resume = project.runs / "shared", ("--resume", str(project.runs / "shared"))
    flags = ("--batch-size", "2", "--dropout", "0.1", "--learning-rate", str(RATE))
    assert begin(processes, project, *flags, fault="signalled", step=1) == [0, 143], logs(project)
    assert launch(processes, project, *resume, world=1, fault="signalled", step=4) == [143], logs(project)
    assert launch(processes, project, *resume) == [0, 0], logs(project)

    assert [event["processes"] for event in events_of(folder, "started")] == [WORLD, 1, WORLD]
    assert {event["global_batch"] for event in events_of(folder, "started")} == {2 * WORLD}
    assert not [event["message"] for event in events_of(folder, "warning") if "begins anew" in event["message"]]
    for key in ("loss", "lr", "audio_s"):
        mine, theirs = ([event[key] for event in events_of(run, "step")] for run in (folder, whole.folder))
        assert mine == pytest.approx(theirs, rel=0, abs=1e-5), key
    assert_same_weights(folder, whole.folder)

    plan = plan_run(config_of(project, resume=folder, device="cpu"))
    assert micro_batches_of(plan, 1) == WORLD
    with pytest.raises(UserError, match=r"(?s)2 micro-batches, which 3 processes cannot share.*continue with 1 or 2"):
        micro_batches_of(plan, 3)
    plan.resumed.state.pop("global_micro_batches")
    assert micro_batches_of(plan, 3) == 0


@pytest.mark.slow
def test_what_befalls_one_process_ends_both_saves_and_is_gone_on_from_exactly(
    processes: ForkServerContext, project: Project, tmp_path_factory
) -> None:
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

    told = [event["message"] for event in events_of(folder, "warning")]
    assert not [message for message in told if "begins anew" in message]
    for name in ("model.safetensors", "optimizer.safetensors"):
        runs = (folder, undisturbed.runs / "shared")
        mine, theirs = (read_weights(next(run.glob("checkpoints/step-*")) / name) for run in runs)
        assert mine.keys() == theirs.keys() and all(torch.equal(mine[key], theirs[key]) for key in theirs), name
