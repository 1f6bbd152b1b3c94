"""Start a training in several processes on this computer, through torch's own launcher (torch.distributed.elastic).

The processes are `utils.cli.rank`. Whoever starts them waits, passes signals on, and reports the first that failed.
"""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from utils.config import TrainConfig
from utils.errors import UserError
from utils.hardware.gpu import gpus
from utils.hardware.processor import usable_cpus
from utils.hardware.visible import visible_gpus
from utils.jobs.device import CPU, wanted_device
from utils.jobs.stopping import SIGNALS

STATUS_FILE = "status.json"
"""What the first process leaves: the exit status that the command is to have."""


def num_processes(config: TrainConfig) -> int:
    """Processes that a run is to have on this computer; 1 inside of one of them.

    Raises:
        UserError: more were requested than there are GPUs, or CPU cores.
    """
    if "RANK" in os.environ:
        return 1
    on_cpu = wanted_device(config.device) == CPU
    most = usable_cpus() if on_cpu else max(1, len(visible_gpus(gpus())))
    if config.processes > most:
        raise UserError(
            what=f"processes is {config.processes}, but this computer has {most} {'CPU cores' if on_cpu else 'GPUs'}",
            where="processes",
            fix=f"use {most} or fewer, or 0 for one process for each GPU",
        )
    # Two processes on one processor train no faster than one with two threads.
    return config.processes or (1 if on_cpu else most)


def launch(config: TrainConfig, count: int, *, job: Path | None = None) -> int:
    """Train in `count` processes and wait for them.

    Args:
        config: checked settings.
        count: of processes.
        job: folder of the job that this process does, whose log the first process writes to.

    Returns:
        The exit status: 0, or 128 plus the number of the signal that stopped the run.

    Raises:
        UserError: a process failed; the others were ended.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, launch_agent

    with tempfile.TemporaryDirectory(prefix="xtts-processes-") as scratch:
        settings = Path(scratch) / "config.yaml"
        config.save(settings)
        how = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id=Path(scratch).name,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",  # any port that is free
            local_addr="localhost",
            # A run that failed is resumed, not begun anew.
            max_restarts=0,
            # All others are passed on by ours: torch's handler would end the processes in the middle of a save.
            signals_to_handle="SIGQUIT" if hasattr(signal, "SIGQUIT") else "SIGBREAK",
        )
        arguments = ["-m", "utils.cli.rank", str(settings), *(["--job", str(job)] if job else [])]
        with _signals_passed_on(), _threads_shared(count):
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


@contextmanager
def _signals_passed_on() -> Iterator[None]:
    def pass_on(number: int, frame: Any) -> None:
        for child in psutil.Process().children():
            child.send_signal(number)

    former = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def _threads_shared(count: int) -> Iterator[None]:
    """Let the processes share the cores, unless the environment says otherwise."""
    name = "OMP_NUM_THREADS"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(max(1, usable_cpus() // count))
    try:
        yield
    finally:
        del os.environ[name]
