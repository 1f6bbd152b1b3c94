"""What a job's own process does: record itself, hold its device, and stop on a signal without losing anything."""

import dataclasses
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import psutil

from utils.errors import UserError
from utils.jobs.device import CPU, Claim, refuse_second, wanted_device
from utils.runs.process import ProcessId
from utils.runs.record import (
    ALIVE_FILE,
    Job,
    JobRecord,
    identify,
    new_record,
    read_record,
    require_stopped,
    status_or_none,
    update_record,
    write_record,
)

BEAT_S = 10.0
"""Between two touches of a job's `.alive`.

It is for those who cannot see its process: a container that took the place of another one has another name and a
process table of its own, and so has another computer on the same drive.
"""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""SIGTERM comes from job schedulers and our own stop, SIGINT from Ctrl-C, SIGHUP from a terminal or connection that is
gone; SIGBREAK stands for all on Windows."""
SIGHUP = getattr(signal, "SIGHUP", None)
EXIT_BASE = 128
"""Shells report the end by a signal as 128 plus its number."""
ECHO_S = 1.0
"""Within this time a second signal is the same request: Ctrl-C comes from the terminal and once more from torchrun."""


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
    _beat(folder)
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
            claim.give(folder, kind, ProcessId.of(os.getpid()))
    try:
        yield
    finally:
        if not shared:
            # Also where this process has registered a run since.
            with claim.lock():
                named, _, process = claim.named() or (None, "", None)
                holder = process or (read_record(named) if named is not None else None)
                if holder is not None and holder.pid == os.getpid():
                    claim.free()


def _has_it_for_us(holder: Job) -> bool:
    """Whether this process exists for that job, or was started by a process that has the device."""
    if holder.pid == os.getpid():
        record = read_record(holder.folder)
        return record is not None and record.spawned and record.pid == holder.pid
    return holder.pid in {parent.pid for parent in psutil.Process().parents()}


def register(folder: Path, *, device: str, output: Path) -> None:
    """Make a run that was started by hand known, so that it is listed, followed and stopped like any other job.

    In a process that was started as this job, only a device that turned out to be another one is corrected.

    Args:
        folder: the run's folder; it exists.
        device: auto, cpu or cuda, as in the settings.
        output: the folder that holds all projects.

    Raises:
        UserError: another job has the device, or another process works in this folder.
    """
    record = read_record(folder)
    wanted = wanted_device(device)
    if record is not None and record.spawned and record.pid in (os.getpid(), os.getppid()):
        if record.device is not None and record.device != wanted:
            claim, former = Claim(wanted, output), Claim(record.device, output)
            with claim.lock():
                claim.give(folder)
            with former.lock():
                if (named := former.named()) and named[0] == folder.absolute():
                    former.free()
            update_record(folder, device=wanted)
        return
    if record is not None:
        require_stopped(folder)
    claim = Claim(wanted, output)
    with claim.lock():
        shared = refuse_second(claim, but=lambda holder: _has_it_for_us(holder) or _is_held_here(claim)) is not None
        own = {"command": tuple(sys.orig_argv), "config": "config.yaml", "device": wanted, "spawned": False}
        process = dataclasses.asdict(ProcessId.of(os.getpid()))
        write_record(folder, new_record("train", folder, state="running", **own, **process))
        if not shared or _is_held_here(claim):
            claim.give(folder)
    _beat(folder)


def _is_held_here(claim: Claim) -> bool:
    """Whether this process has the device by `hold`, not by another run that it registered."""
    named = claim.named()
    return named is not None and named[2] is not None and named[2].is_same(ProcessId.of(os.getpid()))


def is_stop_wanted(folder: Path) -> bool:
    """Whether this job's end was requested through `utils.jobs.stop`: to stop then is to do what was asked.

    A signal alone may come from a scheduler or a shell, whose work is cut off by it.
    """
    record = read_record(folder)
    return record is not None and record.stop_requested is not None


def _beat(folder: Path) -> None:
    """From a thread of this process, touch `ALIVE_FILE` now and every `BEAT_S` until the job here has ended."""
    announced = read_record(folder)

    def touch() -> None:
        # A disk that is full or away for a moment is no reason to end the work; the next beat comes soon.
        with suppress(OSError):
            (folder / ALIVE_FILE).touch()

    def beat() -> None:
        # Another process may have resumed the run; it beats for itself.
        while (now := read_record(folder)) and announced and now.pid == announced.pid:
            if (job := status_or_none(folder)) is None or not job.alive:
                return
            touch()
            time.sleep(BEAT_S)

    touch()
    threading.Thread(target=beat, name=f"heartbeat {folder.name}", daemon=True).start()


class StopRequest:
    """Listens for signals while a run is training.

    The first one is a request, kept in `number`. A later one ends the process at once: checkpoints appear whole or not
    at all, so even that costs no more than the steps since the last one. The end of a terminal is only ever a request:
    shells send it again to all that they started.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        """The signal that requested the stop; None before."""
        self._received = 0.0
        """When, on a clock that only runs forward."""
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Python lets only the main thread set handlers; a run in another thread is stopped by its caller.
        if threading.current_thread() is threading.main_thread():
            # Under nohup a run is meant to outlive its terminal, whose end is then no request to stop.
            wanted = [n for n in SIGNALS if n != SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
            self._former = {number: signal.signal(number, self._on_signal) for number in wanted}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.number is None:
            self.number, self._received = number, now
        elif number != SIGHUP and now - self._received > ECHO_S:
            raise SystemExit(EXIT_BASE + number)


def leave_stops_to_trainer(worker: int) -> None:
    """In a loader process: ignore what asks the whole run to stop; the trainer still needs batches to finish its step.

    Ctrl-C, a scheduler and systemd signal every process of a run, not the first only. A loader process that ended by it
    would make the trainer fail in the middle of a step. It still ends when the trainer wants it to, or is gone.

    Args:
        worker: its number; `DataLoader` gives it.
    """
    for number in SIGNALS:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)
    # Only here the sender of a signal is known; elsewhere SIGTERM ends a loader process as before.
    if hasattr(signal, "sigwaitinfo"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_end_when_trainer_asks, name="signals", daemon=True).start()


def _end_when_trainer_asks() -> None:
    # torch sends SIGTERM to loader processes that do not end by themselves.
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
        pass
    os._exit(0)


def exit_status(stop_signal: int | None, folder: Path) -> int:
    """What a command that trained ends with: 0 also after a stop that was asked for through the run's folder.

    Args:
        stop_signal: the signal that ended the run; None when it ended by itself.
        folder: the run's folder.
    """
    was_asked = stop_signal != signal.SIGINT and is_stop_wanted(folder)
    return 0 if stop_signal is None or was_asked else EXIT_BASE + stop_signal
