"""Several processes of one run: torchrun starts them, each with a device and clips of its own, and DDP sums gradients.

A process that is lost ends all of them; the newest checkpoint resumes. With restarts, torchrun begins them again.
"""

import hashlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed as dist
from accelerate.utils import gather_object
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from utils.config import TrainConfig
from utils.errors import UserError
from utils.hardware.gpu import find_gpus, visible_gpus
from utils.hardware.processor import usable_cpus
from utils.jobs.child import SIGNALS
from utils.jobs.device import CPU, wanted_device
from utils.project.paths import Project, new_run_id
from utils.runs.layout import newest_of

STATUS_FILE = "status.json"
"""What the first process leaves: the exit status that the command is to have."""
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK")
"""Variables of torchrun and of MPI's launchers, which accelerate knows as well."""
PACKAGE = Path(__file__).parents[1]


def num_processes(config: TrainConfig) -> int:
    """Processes that a run is to have on this computer; 1 inside of one of them.

    Raises:
        UserError: more were requested than there are GPUs, or CPU cores.
    """
    if "RANK" in os.environ:
        return 1
    on_cpu = wanted_device(config.device) == CPU
    most = usable_cpus() if on_cpu else max(1, len(visible_gpus(find_gpus()[0])))
    if config.processes > most:
        raise UserError(
            what=f"processes is {config.processes}, but this computer has {most} {'CPU cores' if on_cpu else 'GPUs'}",
            where="processes",
            fix=f"use {most} or fewer, or 0 for one process for each GPU",
        )
    # Two processes on one processor train no faster than one with two threads.
    return config.processes or (1 if on_cpu else most)


def local_rank() -> int:
    """The number of this process among those of the run on this computer."""
    return int(next(filter(None, map(os.environ.get, LOCAL_RANKS)), 0))


def launch(config: TrainConfig, count: int, *, job: Path | None = None) -> int:
    """Train in `count` processes of `utils.cli.rank` and wait for them, as torchrun does.

    Args:
        config: checked settings.
        count: of processes.
        job: folder of the job that this process does, whose log the first process writes to.

    Returns:
        The exit status: 0, or 128 plus the number of the signal that stopped the run.

    Raises:
        UserError: a process failed, and the restarts are used up; the others were ended.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, launch_agent

    with tempfile.TemporaryDirectory(prefix="xtts-processes-") as scratch:
        settings = Path(scratch) / "config.yaml"
        # A name by which processes that are started again find their run.
        named = config if config.resume or config.run_id else replace(config, run_id=new_run_id())
        named.save(settings)
        how = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id=Path(scratch).name,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",  # any port that is free
            local_addr="localhost",
            max_restarts=config.max_restarts,
            # All others are passed on by ours: torch's handler would end the processes in the middle of a save.
            signals_to_handle="SIGQUIT" if hasattr(signal, "SIGQUIT") else "SIGBREAK",
        )
        arguments = ["-m", "utils.cli.rank", str(settings), *(["--job", str(job)] if job else [])]
        with _prepared(count):
            try:
                launch_agent(how, sys.executable, arguments)
            except ChildFailedError as error:
                rank, failure = error.get_first_failure()
                how_ended = f"signal {-failure.exitcode}" if failure.exitcode < 0 else f"status {failure.exitcode}"
                raise UserError(
                    what=f"process {rank} of {count} ended with {how_ended}; the others were stopped",
                    where="--processes",
                    fix="see what it said above; continue from the last checkpoint with --resume last",
                ) from error
        left = Path(scratch) / STATUS_FILE
        status: int = json.loads(left.read_text(encoding="utf-8"))["status"] if left.is_file() else 0
        return status


def resume_after_restart(config: TrainConfig, project: Project) -> TrainConfig:
    """The settings for a start by torchrun: after a restart, those that resume the run from its newest checkpoint.

    Args:
        config: as given.
        project: whose run.

    Raises:
        UserError: torchrun is to restart a run that has no name by which it would be found.
    """
    if int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", 0)) == 0 or config.resume:
        return config
    if config.run_id is None:
        raise UserError(
            what="torchrun is to restart this run, which then could not be found",
            where="--max-restarts",
            fix="name the run: --run-id NAME",
        )
    folder = project.runs / config.run_id
    if not is_restart() or "last" not in newest_of(folder):
        return config
    return replace(config, run_id=None, resume=folder)


def is_restart() -> bool:
    """Whether torchrun has started the processes again after one of them was lost."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0


def require_alike(facts: dict[str, str]) -> None:
    """Do nothing where all processes have the same facts, code and torch; all call this together, before they train.

    Args:
        facts: what has to be the same, by its name.

    Raises:
        UserError: raised in all processes: computers with another checkout or dataset would train another model each.
    """
    code = hashlib.sha256(torch.__version__.encode())
    for file in sorted(PACKAGE.rglob("*.py")):
        code.update(file.read_bytes())
    everywhere: list[dict[str, str]] = gather_object([facts | {"code": code.hexdigest()}])
    for name, value in everywhere[0].items():
        others = [rank for rank, found in enumerate(everywhere) if found[name] != value]
        if others:
            raise UserError(
                what=f"process {', '.join(map(str, others))} of {len(everywhere)} has other {name} than process 0",
                where="training in several processes",
                fix="give all computers the same checkout, packages, dataset and command",
            )


def wrap(gpt: nn.Module, device: torch.device) -> DistributedDataParallel:
    """The model for training in several processes; its weights become those of the first one."""
    return DistributedDataParallel(
        gpt,
        device_ids=[device] if device.type == "cuda" else None,
        # Gradients lie in the buckets that are summed: a copy of all of them less. There are no buffers to send.
        gradient_as_bucket_view=True,
        broadcast_buffers=False,
    )


def is_lost_process(error: BaseException) -> bool:
    """Whether an error says that another process took no part in a sum; gloo's errors have no class of their own."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


@contextmanager
def _prepared(count: int) -> Iterator[None]:
    """Pass signals on to the processes, and give them a share of the cores, unless the environment says otherwise."""

    def pass_on(number: int, frame: Any) -> None:
        for child in psutil.Process().children():
            child.send_signal(number)

    values = {
        "OMP_NUM_THREADS": str(max(1, usable_cpus() // count)),
        # A store of their own after each restart: in a shared one they find the addresses of those that were lost.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    former = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        for name in added:
            del os.environ[name]
