"""Who holds memory: the largest processes of this machine, and the names of those on a GPU, without loading torch."""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path

import psutil

NUM_HOLDERS = 4


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A process that holds memory."""

    pid: int
    name: str
    num_bytes: int
    """Resident: what processes share counts for each."""


def largest_processes(count: int = NUM_HOLDERS) -> tuple[Holder, ...]:
    """The processes with the most resident memory, the largest first; those of other users as far as they are seen."""
    sizes = []
    for process in psutil.process_iter():
        try:
            sizes.append((int(process.memory_info().rss), process.pid))
        except psutil.Error:
            continue
    found = [(size, pid, process_name(pid)) for size, pid in nlargest(count, sizes)]
    return tuple(Holder(pid=pid, name=name, num_bytes=size) for size, pid, name in found if name)


def process_names(pids: Iterable[int]) -> dict[int, str]:
    """Names of processes by their ids; without those that have ended, or that a container hides."""
    return {pid: name for pid in pids if (name := process_name(pid))}


def process_name(pid: int) -> str:
    """What a process is called: of Python, the module or script too, never its arguments; empty when it has ended."""
    try:
        process = psutil.Process(pid)
        name = process.name()
    except psutil.Error:
        return ""
    try:
        args = process.cmdline() if name.startswith("python") else []
    except psutil.Error:
        return name
    if "-m" in args[:-1]:
        return f"{name} {args[args.index('-m') + 1]}"
    script = next((arg for arg in args[1:] if arg.endswith(".py")), "")
    return f"{name} {Path(script).name}" if script else name
