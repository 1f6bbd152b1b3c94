"""Names of the processes that hold a GPU's memory, without loading torch."""

from collections.abc import Iterable
from pathlib import Path

import psutil


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
