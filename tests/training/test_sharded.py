"""Sharded weights train like whole ones, resume exactly, and leave the same model."""

import math
import os
import signal
import socket
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from tests.training.test_processes import (
    RATE,
    STEPS_PER_EPOCH,
    WORLD,
    assert_same_weights,
    begin,
    events_of,
    launch,
    logs,
    start,
)
from tests.training.test_run import config_of
from utils.config import TrainConfig
from utils.errors import UserError
from utils.model.weights import read_weights
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints, verify
from utils.runs.layout import MODEL_FILE, OPTIMIZER_PARTS
from utils.training.optimizer.sharding import part_of, read_parts, save_parts
from utils.training.run import fine_tune

RATES = ("--learning-rate", str(RATE))


def folder_of(project: Project):
    return project.runs / "shared"


def losses_of(folder) -> list[float]:
    return [event["loss"] for event in events_of(folder, "step")]


@pytest.mark.parametrize(
    "more",
    [
        ("--batch-size", "1"),
        # Six clips, three a micro-batch: in the last step of an epoch the second process has nothing of its own.
        pytest.param(("--batch-size", "4", "--gradient-checkpointing", "full"), marks=pytest.mark.slow),
        pytest.param(
            ("--batch-size", "1", "--freeze-conditioning", "--mixed-precision", "bf16"), marks=pytest.mark.slow
        ),
    ],
)
def test_sharded_weights_train_like_whole_ones(processes: ForkServerContext, project: Project, more) -> None:
    flags = ("--dropout", "0", "--eval-batch-size", "1", *RATES)
    assert begin(processes, project, *flags, *more, "--shard") == [0, 0], logs(project)
    cut = folder_of(project).rename(project.runs / "cut")
    assert begin(processes, project, *flags, *more) == [0, 0], logs(project)
    whole = folder_of(project)
    for kind, limit in (("step", 1e-5), ("eval", 1e-5)):
        mine, theirs = ([event["loss"] for event in events_of(run, kind)] for run in (cut, whole))
        assert mine == pytest.approx(theirs, rel=0, abs=limit if "bf16" not in more else 1e-3)
    assert [event["buckets"] for event in events_of(cut, "started")] == ["gradients are sharded among the processes"]
    if "bf16" not in more:
        assert_same_weights(cut, whole)

    proof = events_of(cut, "optimizations")[-1]["switches"]["shard"]
    assert (proof["state"], proof["asked"]) == ("on", True)
    # "7.6 of 15.1 MB of weights and 15.1 of 30.3 MB of moments in the first process"
    words = proof["observed"].split()
    halves = [(float(words[at]), float(words[at + 2])) for at in (0, words.index("and") + 1)]
    assert all(own == pytest.approx(whole / 2, rel=0.05) for own, whole in halves), proof["observed"]
    assert events_of(whole, "optimizations")[-1]["switches"]["shard"]["state"] == "off"


@pytest.mark.slow
def test_a_run_goes_on_exactly_and_with_fewer_processes_and_whole_weights(
    processes: ForkServerContext, project: Project
) -> None:
    """Cut in two; then stopped, whole in one process; then cut again: the clips of an undisturbed run, in its order."""
    settings = {"num_epochs": 3, "batch_size": 1, "dropout": 0.1, "learning_rate": RATE, "device": "cpu"}
    whole = fine_tune(config_of(project, **settings, grad_accumulation=WORLD))
    resume, folder = ("--resume", str(folder_of(project))), folder_of(project)
    assert begin(processes, project, "--dropout", "0.1", *RATES, "--shard", fault="signalled", step=2) == [0, 143]
    last = Checkpoints(folder / "checkpoints").last()
    verify(last)
    parts = sorted(path.name for path in (last / OPTIMIZER_PARTS).iterdir())
    assert len(parts) == WORLD and all(name.endswith(".safetensors") for name in parts), (
        "no pickle, one of each process"
    )
    assert launch(processes, project, *resume, world=1, fault="signalled", step=4) == [143], logs(project)
    assert (Checkpoints(folder / "checkpoints").last() / "optimizer.safetensors").is_file()
    assert launch(processes, project, *resume, fault="signalled", step=6) == [0, 143], logs(project)
    assert launch(processes, project, *resume) == [0, 0], logs(project)
    assert not [event["message"] for event in events_of(folder, "warning") if "begins anew" in event["message"]]
    assert losses_of(folder) == pytest.approx(losses_of(whole.folder), rel=0, abs=1e-5)
    assert_same_weights(folder, whole.folder)


@pytest.mark.slow
def test_a_cut_and_resumed_run_is_bit_for_bit_the_undisturbed_one(
    processes: ForkServerContext, project: Project
) -> None:
    flags = ("--dropout", "0.1", *RATES, "--shard")
    assert begin(processes, project, *flags) == [0, 0], logs(project)
    whole = folder_of(project).rename(project.runs / "whole")
    assert begin(processes, project, *flags, fault="signalled", step=STEPS_PER_EPOCH + 1) == [0, 143], logs(project)
    assert launch(processes, project, "--resume", "shared") == [0, 0], logs(project)
    assert losses_of(folder_of(project)) == losses_of(whole)
    mine, theirs = (Checkpoints(run / "checkpoints").last() for run in (folder_of(project), whole))
    one, other = saved(mine), saved(theirs)
    assert one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in other)


def saved(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Weights, and the moments by part; which process writes the counts of steps is chosen anew each time."""
    found = read_weights(checkpoint / MODEL_FILE)
    for part in (checkpoint / OPTIMIZER_PARTS).iterdir():
        moments = read_weights(part)
        found |= {key if key.endswith("/step") else f"{part.name}/{key}": one for key, one in moments.items()}
    return found


@pytest.mark.slow
def test_a_damaged_part_is_found_before_the_run_goes_on(processes: ForkServerContext, project: Project) -> None:
    flags = ("--num-epochs", "2", "--keep-checkpoints", "1", "--shard")
    assert begin(processes, project, *flags) == [0, 0], logs(project)
    newest = Checkpoints(folder_of(project) / "checkpoints").last()
    part = next((newest / OPTIMIZER_PARTS).iterdir())
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(content)
    with pytest.raises(UserError, match="is damaged"):
        verify(newest)
    assert launch(processes, project, "--resume", "shared", "--num-epochs", "3") == [0, 0], logs(project)
    told = [event["message"] for event in events_of(folder_of(project), "warning")]
    assert any("a newer checkpoint is damaged and was skipped" in message for message in told)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_killed_process_ends_the_run_with_its_newest_checkpoint_whole(
    processes: ForkServerContext, project: Project
) -> None:
    flags = ("--base", "tiny", "--num-epochs", "200", "--batch-size", "1", "--run-id", "shared", "--shard")
    children = start(processes, project, *flags, "--checkpoint-every", "2", "--rank-timeout", "0.2")
    checkpoints = Checkpoints(folder_of(project) / "checkpoints")
    while checkpoints.last() is None and all(child.is_alive() for child in children):
        children[0].join(0.1)
    os.kill(children[1].pid, signal.SIGKILL)
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [2, -signal.SIGKILL], logs(project)
    verify(checkpoints.last())
    error = events_of(folder_of(project))[-1]["error"]
    assert "process 1 of 2 does not answer" in error and "--resume" in error


@pytest.mark.parametrize(
    "also",
    [{"lora_rank": 8}, {"eight_bit_optimizer": True}, {"compile": "default"}],
)
def test_what_cut_weights_rule_out_is_said(also) -> None:
    with pytest.raises(UserError, match=f"rules out.*{next(iter(also))}"):
        TrainConfig(project="a", device="cpu", shard=True, **also).validate(where="test")


def test_one_process_keeps_everything_and_says_so(project: Project) -> None:
    run = fine_tune(config_of(project, num_epochs=1, shard=True, device="cpu"))
    proof = events_of(run.folder, "optimizations")[-1]["switches"]["shard"]
    assert (proof["state"], proof["reason"]) == ("off", "one process keeps everything")


PARTS = {"one_row": (1, 4), "two_rows": (2, 3), "bias": (5,), "uneven": (7, 2), "even": (64, 8)}
"""Shapes of moments, of which some have fewer rows than there are processes."""


def write_or_read(rank: int, world: int, port: int, folder: Path, is_reading: bool) -> None:
    """In a process of its own."""
    store = dist.TCPStore("127.0.0.1", port, world, is_master=rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    whole = {name: torch.arange(math.prod(shape) * 1.0).reshape(shape) for name, shape in PARTS.items()}
    placed = {
        name: distribute_tensor(torch.zeros(tensor.shape), mesh, [Shard(0)], src_data_rank=None)
        for name, tensor in whole.items()
    }
    if is_reading:
        found = read_parts(folder, placed.get)
        assert found.keys() == PARTS.keys()
        for name, tensor in whole.items():
            assert torch.equal(found[name].full_tensor(), tensor), name
    else:
        save_parts(folder, {name: part_of(tensor, placed[name]) for name, tensor in whole.items()})
    dist.destroy_process_group()


@pytest.mark.slow
def test_parts_of_three_processes_are_read_by_any_number(processes: ForkServerContext, tmp_path: Path) -> None:
    for world, is_reading in ((3, False), (1, True), (2, True), (4, True)):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        arguments = (world, port, tmp_path / "optimizer", is_reading)
        children = [processes.Process(target=write_or_read, args=(rank, *arguments)) for rank in range(world)]
        for child in children:
            child.start()
        for child in children:
            child.join(120)
        assert [child.exitcode for child in children] == [0] * world
