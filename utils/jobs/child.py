"""What a job's own process records about itself, also when nobody started it as a job."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from utils.errors import UserError
from utils.jobs.device import CPU, Claim, refuse_second, wanted_device
from utils.jobs.heartbeat import beat
from utils.runs.log import log_size
from utils.runs.process import ProcessId, host_name
from utils.runs.record import EVENTS_FILE, Job, JobRecord, identify, read_record, status, update_record, write_record


def announce(folder: Path) -> JobRecord:
    """Say, as the child, that this process does the job: who started it may have died before it could note that.

    Raises:
        UserError: the folder holds no job.
    """
    record = read_record(folder)
    if record is None:
        raise UserError(what="there is no job here", where=str(folder), fix="name the folder of a job")
    # On Windows, Python in a virtual environment is the child of a launcher, and the launcher was noted.
    if record.pid not in (os.getpid(), os.getppid()):
        identify(folder, os.getpid())
    update_record(folder, state="running")
    beat(folder)
    return record


@contextmanager
def hold(kind: str, *, device: str, output: Path, folder: Path, local_rank: int = 0) -> Iterator[None]:
    """Have a device for this process, from before it is first used until the block ends, whatever ends it.

    Nothing is taken in a process that was started as a job with this device, or below a process that has it; nor of
    the CPU, but to train.

    Args:
        kind: train, preflight, language, ...: as others read it.
        device: auto, cpu or cuda, as in the settings.
        output: the folder that holds all projects.
        folder: where the work is done, for people.
        local_rank: of this process among those of a run on this computer; the first has the CPU for all.

    Raises:
        UserError: another job or process has the device.
    """
    wanted = wanted_device(device, local_rank=local_rank)
    if wanted == CPU and (kind != "train" or local_rank):
        yield
        return
    claim = Claim(wanted, output)
    with claim.lock():
        shared = refuse_second(claim, but=_has_it_for_us) is not None
        if not shared:
            claim.give_process(folder, kind, ProcessId.of(os.getpid()))
    try:
        yield
    finally:
        if not shared:
            _release(claim)


def _has_it_for_us(holder: Job) -> bool:
    """Whether this process exists for that job, or was started by a process that has the device."""
    if holder.pid == os.getpid():
        record = read_record(holder.folder)
        return record is not None and record.spawned and record.pid == holder.pid
    return holder.pid in {parent.pid for parent in psutil.Process().parents()}


def _release(claim: Claim) -> None:
    """Give a device back that this process took, or a run that it registered since."""
    with claim.lock():
        held, folder = claim.process(), claim.holder()
        record = read_record(folder) if folder is not None else None
        pid = held[2].pid if held is not None else record.pid if record is not None else None
        if pid == os.getpid():
            claim.free()


def register(folder: Path, kind: str, *, device: str, output: Path) -> None:
    """Make a run that was started by hand known, so that it is listed, followed and stopped like any other job.

    In a process that was started as this job, only a device that turned out to be another one is corrected.

    Args:
        folder: the run's folder; it exists.
        kind: train, ...
        device: auto, cpu or cuda, as in the settings.
        output: the folder that holds all projects.

    Raises:
        UserError: another job has the device, or another process works in this folder.
    """
    record = read_record(folder)
    wanted = wanted_device(device)
    if record is not None and record.spawned and record.pid in (os.getpid(), os.getppid()):
        if record.device is not None and record.device != wanted:
            _move(folder, Claim(record.device, output), Claim(wanted, output))
            update_record(folder, device=wanted)
        return
    if record is not None and status(folder).alive:
        raise UserError(what=f"run {folder.name!r} is still running", where=str(folder), fix="stop it first")
    claim = Claim(wanted, output)
    with claim.lock():
        shared = refuse_second(claim, but=lambda holder: _has_it_for_us(holder) or _is_held_here(claim)) is not None
        identity = ProcessId.of(os.getpid())
        own = JobRecord(
            kind=kind,
            state="running",
            host=host_name(),
            command=tuple(sys.orig_argv),
            cwd=str(Path.cwd()),
            config="config.yaml",
            device=wanted,
            spawned=False,
            started=time.time(),
            events_offset=log_size(folder / EVENTS_FILE),
            pid=identity.pid,
            create_time=identity.create_time,
            boot_time=identity.boot_time,
            boot_id=identity.boot_id,
        )
        write_record(folder, own)
        if not shared or _is_held_here(claim):
            claim.give(folder)
    beat(folder)


def _move(folder: Path, former: Claim, claim: Claim) -> None:
    """Free the device that a job was started for and claim the one that it uses, which this process holds."""
    with claim.lock():
        claim.give(folder)
    with former.lock():
        if former.holder() == folder.absolute():
            former.free()


def _is_held_here(claim: Claim) -> bool:
    """Whether this process has the device by `hold`, not by another run that it registered."""
    held = claim.process()
    return held is not None and held[2].is_same(ProcessId.of(os.getpid()))


def is_stop_wanted(folder: Path) -> bool:
    """Whether somebody asked for this job's end through `utils.jobs.stop`: to stop then is to do what was asked.

    A signal alone may come from a scheduler or a shell, whose work is cut off by it.
    """
    record = read_record(folder)
    return record is not None and record.stop_requested is not None
