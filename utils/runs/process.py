"""Processes: begin one in a session of its own, know it again later, ask it to stop, end it with all below it."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

CLOCK_TOLERANCE_S = 2.0
"""Creation times are given as clock time; the same process's may differ by a second from one reading to the next."""
TICK_TOLERANCE_S = 0.05
"""Counted from the computer's start, creation times are exact to a hundredth of a second."""
END_TIMEOUT_S = 10.0
"""A killed process is gone within this time, unless the system itself holds it."""


@dataclass(frozen=True, kw_only=True)
class ProcessId:
    """A process that is recognized even after its pid was given to another one."""

    pid: int
    create_time: float
    """In seconds since 1970."""
    boot_time: float
    """When the computer was started, by the same clock."""
    boot_id: str | None

    @classmethod
    def of(cls, pid: int) -> Self:
        """Who has this pid now.

        Raises:
            psutil.NoSuchProcess: there is none.
        """
        process = psutil.Process(pid)
        return cls(pid=pid, create_time=process.create_time(), boot_time=psutil.boot_time(), boot_id=_boot_id())

    def is_same(self, other: "ProcessId") -> bool:
        """Whether both are one process, even if the clock was set in between."""
        by_clock = abs(self.create_time - other.create_time) < CLOCK_TOLERANCE_S
        ticks = (self.create_time - self.boot_time) - (other.create_time - other.boot_time)
        same_boot = self.boot_id is not None and self.boot_id == other.boot_id
        return self.pid == other.pid and (by_clock or (same_boot and abs(ticks) < TICK_TOLERANCE_S))

    def process(self) -> psutil.Process | None:
        """The process, when it is still running."""
        try:
            process = psutil.Process(self.pid)
            # A zombie has ended: only its parent has not asked how.
            alive = process.status() != psutil.STATUS_ZOMBIE and self.is_same(ProcessId.of(self.pid))
        except psutil.NoSuchProcess:
            return None
        return process if alive else None


def host_name() -> str:
    return socket.gethostname()


def spawn(command: Sequence[str], *, log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Begin a process that has a session of its own, no input, and a log that takes all it says.

    Args:
        command: program and arguments; no shell reads them.
        log: file its output and errors are appended to.
        env: its environment.

    Raises:
        OSError: the program or the log cannot be opened, or there is no memory for another process.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=os.name == "posix",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )


def ask_to_stop(identity: ProcessId) -> None:
    """Send the process, and only it, the signal that means: finish the step, save, end."""
    process = identity.process()
    if process is None:
        return
    with suppress(psutil.NoSuchProcess):
        # Windows has no SIGTERM that can be handled; Python there raises SIGBREAK for this event.
        process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))


def end_tree(identity: ProcessId, *, whole_session: bool) -> None:
    """Kill a process and everything below it, and wait until all are gone.

    Args:
        identity: the process at the top; it may have ended.
        whole_session: also what was started below it and lost its parent; only for a process that leads its session.
    """
    deadline = time.monotonic() + END_TIMEOUT_S
    # Again and again, because a process may start another one while it is being ended.
    while time.monotonic() < deadline:
        # The process first, so that it cannot replace others.
        found = [top] if (top := identity.process()) else []
        with suppress(psutil.NoSuchProcess):
            found += top.children(recursive=True) if top else []
        if whole_session and os.name == "posix":
            found += _session(identity)
        members = [process for process in dict.fromkeys(found) if not _is_gone(process)]
        if not members:
            return
        for process in members:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(members, timeout=1.0)


def _session(identity: ProcessId) -> list[psutil.Process]:
    """Processes of the session that the process leads or led.

    The system gives no new process a pid that is still the number of a session, so a session of that number that
    began with ours is ours as long as the pid itself was not given to another process.
    """
    assert os.name == "posix"
    members = []
    # The pid must be that of no process, or that of the process itself, ended or not.
    with suppress(psutil.NoSuchProcess):
        if not identity.is_same(ProcessId.of(identity.pid)):
            return []
    for process in psutil.process_iter():
        with suppress(OSError):
            if os.getsid(process.pid) == identity.pid:
                members.append(process)
    return members


def _is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
