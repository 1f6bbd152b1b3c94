"""Which device a job computes on, and who has it: two trainings on one GPU would both fail, or crawl."""

import dataclasses
import getpass
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from utils.errors import UserError, disk_errors
from utils.files import write_atomic
from utils.hardware.gpu import find_gpus, trained_on
from utils.hardware.machine import cuda_refused, mps_refused, this_machine
from utils.hardware.wheel import gpu_problems, torch_build
from utils.runs.process import ProcessId, host_name
from utils.runs.record import Job, status_or_none

CPU, MPS = "cpu", "mps"
ENDING_S = 30.0
"""How long the process of a job that has ended may take to leave the device."""
GPU_FOLDER = "xtts-finetuning-studio"


def wanted_device(requested: str, *, local_rank: int = 0) -> str:
    """The device that PyTorch is going to take for a setting of auto, cpu or cuda, without loading PyTorch.

    Args:
        requested: auto takes the GPU that PyTorch would take, and the CPU where PyTorch cannot use that one (an old
            driver, no kernels for it); mps stays.
        local_rank: of this process among those of a run on this computer: each takes a GPU of its own.

    Returns:
        cpu, or cuda:N with the GPU's number on this computer, whichever GPUs CUDA_VISIBLE_DEVICES shows; of a divided
        GPU (MIG), the long name of the part.
    """
    if requested in (CPU, MPS):
        return requested
    gpu = trained_on(find_gpus()[0], local_rank)
    if gpu is not None and requested == "auto" and gpu_problems(gpu, torch_build()):
        return CPU
    if gpu is not None:
        is_part = gpu.uuid.startswith("MIG-")
        return f"cuda:{gpu.uuid.replace('/', '-') if is_part else gpu.index}"
    return CPU if requested == "auto" else f"cuda:{local_rank}"


def require_usable(requested: str) -> None:
    """Do nothing, unless cuda or mps was requested on a machine whose GPU PyTorch cannot use.

    Raises:
        UserError: it was.
    """
    if requested == MPS and (refused := mps_refused()):
        raise refused
    if requested == "cuda" and (machine := this_machine()).gpu_problems:
        raise cuda_refused(machine, machine.gpu_problems[0])


class Claim:
    """The file that names the job or process which has a device; it is only believed while that one lives.

    A GPU belongs to the computer, so its file lies in the user's part of the temporary folder; the CPU is
    shared out within one output folder.

    Args:
        device: cpu or cuda:N.
        output: the folder that holds all projects.

    Raises:
        UserError: the file's folder cannot be made or is another user's.
    """

    def __init__(self, device: str, output: Path) -> None:
        self.title = "the CPU" if device == CPU else f"the GPU {device}"
        """The device's name for people."""
        user = os.getuid() if os.name == "posix" else getpass.getuser()
        folder = output / ".jobs" if device == CPU else Path(tempfile.gettempdir()) / f"{GPU_FOLDER}-{user}"
        with disk_errors():
            folder.mkdir(parents=True, exist_ok=True)
        # Anyone may make folders in the temporary folder, also one that looks like ours.
        if device != CPU and os.name == "posix" and folder.stat().st_uid != os.getuid():
            raise UserError(
                what="the folder that records which job has the GPU belongs to another user",
                where=str(folder),
                fix="remove it, or set TMPDIR to a folder of your own",
            )
        self._file = folder / f"{host_name()}-{device.replace(':', '-')}.txt"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """While this is held, no other process starts a job on the device."""
        with disk_errors(), FileLock(self._file.with_suffix(".lock")):
            yield

    def named(self) -> tuple[Path, str, ProcessId | None] | None:
        """Who had the device last: its folder; and of a process that is no job, what it does and which it is."""
        try:
            folder, *facts = self._file.read_text(encoding="utf-8").splitlines()
            if not facts:
                return Path(folder), "", None
            values = json.loads(facts[0])
            return Path(folder), str(values.pop("kind")), ProcessId(**values)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def give(self, folder: Path, kind: str = "", process: ProcessId | None = None) -> None:
        """Name what has the device from now on: the job in a folder, or a process that is no job, and what it does."""
        facts = f"\n{json.dumps({'kind': kind, **dataclasses.asdict(process)})}" if process else ""
        with disk_errors():
            write_atomic(self._file, f"{folder.absolute()}{facts}", durable=True)

    def free(self) -> None:
        """Release the device."""
        with disk_errors():
            self._file.unlink(missing_ok=True)


def holder_of(claim: Claim) -> Job | None:
    """The living job that has a claim's device; a process that is no job is described like one."""
    folder, kind, process = claim.named() or (None, "", None)
    if folder is None:
        return None
    if process is None:
        job = status_or_none(folder)
        return job if job is not None and (job.alive or job.process_alive) else None
    if process.process() is None:
        return None
    pid, began = process.pid, process.create_time
    return Job(folder=folder, kind=kind, state="running", host=host_name(), pid=pid, process_alive=True, started=began)


def device_holder(device: str, output: Path) -> Job | None:
    """The living job that has a device; None also where its claim cannot be read."""
    with suppress(UserError, OSError):
        return holder_of(Claim(device, output))
    return None


def free_device(requested: str, output: Path) -> str:
    """cpu or cuda:N, as `wanted_device`; auto takes the CPU where a job has the GPU.

    Raises:
        UserError: cuda was requested, and a job has it or PyTorch cannot use it.
    """
    require_usable(requested)
    wanted = wanted_device(requested)
    holder = device_holder(wanted, output) if wanted != CPU else None
    if holder is not None and requested != "auto":
        raise in_use("the GPU", holder, fix="wait until it has ended, or use the CPU")
    return wanted if holder is None else CPU


def refuse_second(claim: Claim, *, but: Callable[[Job], bool] = lambda job: False) -> Job | None:
    """Do nothing when the claim's device is free, or who has it does not mind.

    Args:
        claim: of the device.
        but: whether the caller may use the device beside this holder.

    Returns:
        That holder.

    Raises:
        UserError: it is not free; names the job that has it.
    """
    holder, deadline = holder_of(claim), time.monotonic() + ENDING_S
    while holder is not None and not holder.alive and not but(holder) and time.monotonic() < deadline:
        # Its work is done and it says so: its process is about to leave the device.
        time.sleep(0.1)
        holder = holder_of(claim)
    if holder is not None and not but(holder):
        raise in_use(claim.title, holder, fix="wait until it has ended, or stop it")
    return holder


def in_use(device: str, holder: Job, *, fix: str) -> UserError:
    """The error that a device, such as "the CPU", is in use by a job."""
    training = "Training is already running: " if holder.kind == "train" else ""
    return UserError(
        what=f"{training}{device} is in use by the {holder.kind} job {holder.name!r}",
        where=str(holder.folder),
        fix=fix,
    )
