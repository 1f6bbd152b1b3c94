"""Sharded weights when memory runs out, the disk is full or a process ends: all processes end or go on together."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.fsdp import FSDPModule

from tests.training.test_processes import begin, ended, events_of, logs, start
from utils.model.gpt import GptLosses, XttsGpt
from utils.project.paths import Project
from utils.runs import checkpoints as store
from utils.runs import saver as async_saver
from utils.runs.checkpoints import Checkpoints, verify
from utils.training import loop, peers, saving
from utils.training.optimizer import agreement, sharding
from utils.training.optimizer.agreement import AgreedError
from utils.training.trainer import Trainer

WRITE_S = 2.0
"""So long a checkpoint is being written where a test needs one that is under way."""
SETTINGS = ("--base", "tiny", "--num-epochs", "3", "--batch-size", "1", "--run-id", "shared", "--shard")


def checkpoints_of(project: Project) -> Checkpoints:
    return Checkpoints(project.runs / "shared" / "checkpoints")


def said_by(project: Project, rank: int) -> str:
    return (project.output / f"process-{rank}.log").read_text()


def out_of_memory(*_: object, **__: object) -> Any:
    raise torch.OutOfMemoryError("CUDA out of memory")


def write_slowly(rank: int) -> None:
    """Also: who misses a process does not wait long for it."""
    peers.GRACE_S = 0.5
    write = store.Checkpoints.write_last

    def slow(*args: Any, **kwargs: Any) -> Any:
        time.sleep(WRITE_S)
        return write(*args, **kwargs)

    store.Checkpoints.write_last = slow  # type: ignore[method-assign]


def no_room_for_whole_weights(rank: int) -> None:
    """In the second process, for evaluation alone: a checkpoint gathers one tensor at a time."""
    write_slowly(rank)
    reserve = agreement._reserve
    if rank == 1:
        agreement._reserve = lambda sizes, device: (out_of_memory if len(sizes) > 2 else reserve)(sizes, device)


def gathering_fails(rank: int) -> None:
    """In the second process, though there was room; a training pass does not gather the whole model at once."""
    unshard = FSDPModule.unshard
    peers.GRACE_S = 0.5
    if rank == 1:
        FSDPModule.unshard = lambda part: out_of_memory() if isinstance(part, XttsGpt) else unshard(part)


def pass_fails(rank: int) -> None:
    """In the second process, in the forward pass of step 3."""
    gather, forward, step = Trainer._gather, XttsGpt.forward, [0]
    peers.GRACE_S = 0.5

    def counted(trainer: Trainer, batches: list) -> Any:
        step[0] = trainer.num_steps + 1
        return gather(trainer, batches)

    def failing(gpt: XttsGpt, *args: Any) -> GptLosses:
        return out_of_memory() if rank == 1 and step[0] == 3 and gpt.training else forward(gpt, *args)

    Trainer._gather, XttsGpt.forward = counted, failing


def killed(rank: int) -> None:
    """The last of three processes, in step 3: the checkpoint of step 2, an epoch's last, is being written."""
    write_slowly(rank)
    gather = Trainer._gather

    def then_killed(trainer: Trainer, batches: list) -> Any:
        if rank == 2 and trainer.num_steps == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return gather(trainer, batches)

    def noted(self: peers.Peers) -> None:
        found = [path.parent.name for path in Path().glob("*/runs/shared/checkpoints/step-*/complete.json")]
        os.write(1, f"parts after {found}\n".encode())
        part(self)

    part, peers.Peers.part = peers.Peers.part, noted  # type: ignore[method-assign]
    Trainer._gather = then_killed


def killed_after_a_step(rank: int) -> None:
    """The others sum two numbers then. The first process waits for the second one in that sum, not for the third."""
    peers.GRACE_S = 0.5
    log_step = loop.log_step

    def then_killed(state: Any, services: Any, *args: Any, **kwargs: Any) -> None:
        log_step(state, services, *args, **kwargs)
        if rank == 2 and services.trainer.num_steps == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    loop.log_step = then_killed


def first_hangs(rank: int) -> None:
    """Before step 2, until the test ends it."""
    peers.GRACE_S = 0.5
    meet = peers.Peers.meet

    def hung(self: peers.Peers) -> None:
        if rank == 0 and self._meetings == 1:
            time.sleep(600)
        meet(self)

    peers.Peers.meet = hung  # type: ignore[method-assign]


def test_memory_for_evaluation_is_agreed_on_before_it_is_taken(processes: ForkServerContext, project: Project) -> None:
    """And no process ends before the first one has written the checkpoint: a launcher would end it as well."""
    children = start(processes, project, *SETTINGS, fault=no_room_for_whole_weights)
    children[1].join(60)
    last = checkpoints_of(project).last()
    assert last is not None and last.name == "step-00000003", "while the first process is still there"
    assert ended(children, project) == [2, 2], logs(project)
    verify(last)
    for rank in (0, 1):
        assert "out of memory in process 1 of 2 while gathering the weights for evaluation" in said_by(project, rank)
        assert "a smaller --batch-size" in said_by(project, rank) and "Traceback" not in said_by(project, rank)


@pytest.mark.parametrize(
    ("fault", "doing"),
    [
        (gathering_fails, "gathering the weights for evaluation"),
        pytest.param(pass_fails, "training on sharded weights", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_runs_out_of_memory_is_named_by_all(
    processes: ForkServerContext, project: Project, fault: Callable[[int], None], doing: str
) -> None:
    assert begin(processes, project, "--shard", fault=fault) == [2, 2], logs(project)
    for rank in (0, 1):
        assert f"out of memory in process 1 of 2 while {doing}" in said_by(project, rank)
        assert "a smaller --batch-size" in said_by(project, rank) and "Traceback" not in said_by(project, rank)
    assert "process 1 of 2 has ended" in events_of(project.runs / "shared")[-1]["error"]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_save_under_way_ends_before_the_processes_that_lost_one(
    processes: ForkServerContext, project: Project
) -> None:
    children = start(processes, project, *SETTINGS, fault=killed, world=3)
    children[1].join(60)
    last = checkpoints_of(project).last()
    assert last is not None and last.name == "step-00000002", logs(project)
    assert ended(children, project) == [2, 2, -signal.SIGKILL], logs(project)
    verify(last)
    assert "parts after ['step-00000002']" in said_by(project, 0), "the others wait for that"
    assert "process 2 of 3 does not answer" in events_of(project.runs / "shared")[-1]["error"]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_each_of_the_others_learns_of_a_process_that_is_killed(processes: ForkServerContext, project: Project) -> None:
    begun = time.monotonic()
    children = start(processes, project, *SETTINGS, fault=killed_after_a_step, world=3)
    assert ended(children, project) == [2, 2, -signal.SIGKILL], logs(project)
    assert time.monotonic() - begun < 60, "not after --rank-timeout"
    verify(checkpoints_of(project).last())


@pytest.mark.slow
def test_the_first_process_is_named_when_it_hangs(processes: ForkServerContext, project: Project) -> None:
    children = start(processes, project, *SETTINGS, "--rank-timeout", "0.1", fault=first_hangs)
    children[1].join(60)
    found = children[1].exitcode
    children[0].kill()
    assert (found, *ended(children, project)) == (2, -signal.SIGKILL, 2), logs(project)
    assert "process 0 of 2 does not answer" in said_by(project, 1)


GATHER_S = 0.2
FULL, TWICE, SHORT = (2, 8), 4, 6
"""Steps: the disk is full; the first of two saves is slow; the second process has no memory to gather weights."""


def trouble(rank: int) -> None:
    """Saves that fail and are tried again at the next step; others that are slow. The log says what was done."""
    step, late, written = [0], [TWICE], set[int]()
    log_step, usage, write = loop.log_step, store.shutil.disk_usage, store.write_weights
    gathered, save_parts, reserve = saving.gathered, saving.save_parts, agreement._reserve
    async_saver.RETRY_S = 0.0

    def noted(state: Any, services: Any, *args: Any, **kwargs: Any) -> None:
        log_step(state, services, *args, **kwargs)
        step[0] = services.trainer.num_steps

    def gathered_slowly(*args: Any, **kwargs: Any) -> Any:
        found = gathered(*args, **kwargs)
        written.update(tensor.data_ptr() for tensor in found.values())
        time.sleep(GATHER_S)
        return found

    def written_slowly(path: Any, tensors: Any) -> None:
        is_same = {tensor.data_ptr() for tensor in tensors.values()} <= written
        os.write(1, f"{path.name}: {'the gathered ones' if is_same else 'copies'}\n".encode())
        write(path, tensors)

    def taken_late(checkpoints: Checkpoints, number: int, *args: Any, **kwargs: Any) -> Any:
        if number in late:
            late.remove(number)
            time.sleep(1.5)  # until the next save of the same step has begun
        return write_last(checkpoints, number, *args, **kwargs)

    def parts_noted(*args: Any) -> None:
        os.write(1, f"parts of step {step[0]}\n".encode())
        save_parts(*args)

    def reserved(sizes: Sequence[int], device: torch.device) -> Any:
        # A checkpoint takes two blocks, an evaluation more.
        is_short = (rank, step[0], len(sizes)) == (1, SHORT, 2)
        return out_of_memory() if is_short else reserve(sizes, device)

    write_last, agreement._reserve = store.Checkpoints.write_last, reserved
    store.Checkpoints.write_last = taken_late  # type: ignore[method-assign]
    store.shutil.disk_usage = lambda path: usage(path)._replace(**({"free": 2**20} if step[0] in FULL else {}))
    loop.log_step, store.write_weights, saving.save_parts = noted, written_slowly, parts_noted
    saving.gathered = gathered_slowly


def test_saves_that_fail_are_reported_and_tried_again_by_all(processes: ForkServerContext, project: Project) -> None:
    """Each epoch saves its last step twice: for --checkpoint-every, then with the evaluation."""
    flags = ("--num-epochs", "4", "--batch-size", "2", "--checkpoint-every", "2", "--shard")
    assert begin(processes, project, *flags, fault=trouble) == [2, 2], logs(project)
    folder = project.runs / "shared"
    warned = [(event["source"], event["step"], event["message"]) for event in events_of(folder, "warning")]
    expected = [
        ("disk", 2, "the disk is full"),
        ("disk", 3, "saving works again"),
        ("memory", SHORT, "out of memory in process 1 of 2 while gathering the weights for a checkpoint"),
        ("memory", SHORT + 1, "saving works again"),
        ("disk", 8, "the disk is full"),
    ]
    assert [one[:2] for one in warned] == [one[:2] for one in expected], warned
    assert all(said.startswith(start_of) for (*_, said), (*_, start_of) in zip(warned, expected, strict=True)), warned
    saved = [event for event in events_of(folder, "checkpoint") if event["what"] == "last"]
    assert [event["step"] for event in saved] == [3, TWICE, TWICE, SHORT + 1]
    assert all(event["waited_s"] >= GATHER_S for event in saved), "gathering counts"
    verify(checkpoints_of(project).last())
    assert not list(checkpoints_of(project).folder.glob(".*")), "parts of saves that failed"
    for rank in (0, 1):
        said = said_by(project, rank)
        written = [line for line in said.splitlines() if line.startswith("parts of step")]
        assert written == [f"parts of step {step}" for step in (3, TWICE, TWICE, SHORT + 1)], "only where there is room"
        assert "training has come to step 8, but only what it was at step 7 is saved: the disk is full" in said
        assert "Traceback" not in said
    assert "copies" not in said_by(project, 0) and "the gathered ones" in said_by(project, 0)


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (OSError(28, "No space left on device"), OSError, "No space left"),
        (MemoryError(), AgreedError, "out of memory in process 1 of 2 while writing a checkpoint"),
        (ValueError("unknown dtype"), OSError, "process 1 cannot write: unknown dtype"),
        (SystemExit(130), SystemExit, "130"),
    ],
)
def test_what_torch_reports_of_a_write_that_failed(monkeypatch, fault, kind, words) -> None:
    monkeypatch.setattr(agreement.dist, "get_world_size", lambda: 2)
    found = sharding._fault_of(CheckpointException("write", {1: (fault, None)}))
    assert type(found) is kind and words in str(found)
