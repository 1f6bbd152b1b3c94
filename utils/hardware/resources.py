"""Memory and disk available to this process, including container limits, without loading torch."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
SHARED_MEMORY = Path("/dev/shm")
GIB = 1 << 30
"""Memory is shown as it is sold: a GB is 2^30 bytes, and a card of 12 GB reads 12 GB."""
KEPT_FREE_BYTES = GIB
"""So much of the disk is left for training, whatever uploads and copies may take."""
UNLIMITED = 1 << 60
"""Control groups of version 1 write about 2^63 where there is no limit."""
MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Of control groups of version 2 and 1: files with the limit and what is used, and the cached part of that."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The machine's memory, as far as this process may use it."""

    total_bytes: int
    """Of the machine, or of the container where that is less."""
    available_bytes: int
    """What can still be taken without swapping."""
    limited_by: str = ""
    """The control group file that sets the limit; empty when the machine itself does."""


def memory() -> Memory:
    """Memory of the machine, as far as this process may use it."""
    machine = psutil.virtual_memory()
    total, available, source = machine.total, machine.available, ""
    for folder, (limit_name, used_name, cached) in product(cgroup_folders("memory"), MEMORY_FILES):
        limit = read_number(folder / limit_name)
        if limit is None or limit >= UNLIMITED:
            continue
        if limit < total:
            total, source = limit, str(folder / limit_name)
        # Cached file content counts as used but is given up when memory is asked for.
        used = max((read_number(folder / used_name) or 0) - _statistic(folder / "memory.stat", cached), 0)
        available = min(available, max(limit - used, 0))
    return Memory(total_bytes=total, available_bytes=available, limited_by=source)


def process_memory(pid: int | None = None) -> int:
    """Resident bytes of a process, this one when not given; 0 when it has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def disk_free(path: Path) -> int:
    """Free bytes on the disk that `path` lies on, or will lie on once it is made."""
    existing = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(existing).free


def shared_memory_free() -> int | None:
    """Free bytes of /dev/shm, through which loader processes hand over batches; None where there is none (Windows).

    Docker gives a container 64 MB of it unless configured otherwise; a loader that needs more dies with a bus error.
    """
    return shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else None


def cgroup_folders(controller: str) -> Iterator[Path]:
    """Folders of the control groups that this process belongs to, from its own up to the root, versions 1 and 2.

    A container often sees its own group as the root, whatever path it is given: folders that do not exist are skipped.
    """
    try:
        lines = MEMBERSHIP.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = CGROUPS / controllers if controllers else CGROUPS
        own = root / path.lstrip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(root) and folder.is_dir():
                yield folder


def read_number(file: Path) -> int | None:
    """The whole number that a file holds; None when it is missing, or says `max`."""
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _statistic(file: Path, name: str) -> int:
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder: a file with two names counts once, links are not followed."""
    sizes = {}
    for path in folder.rglob("*"):
        try:
            facts = path.lstat()
            if not path.is_dir():
                sizes[facts.st_dev, facts.st_ino] = facts.st_size
        except OSError:
            continue  # it vanished meanwhile
    return sum(sizes.values())
