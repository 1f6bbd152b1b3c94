"""Choose the number of data loader processes from the data and the machine, without loading torch."""

import platform
import tempfile
from dataclasses import dataclass

from utils.hardware.processor import usable_cpus
from utils.hardware.resources import memory, shared_memory_free

MB = 1_000_000
MAX_WORKERS = 4
MAX_DISK_WORKERS = 8
"""When clips come from the disk each time, more processes wait for it at once."""
SMALL_DATASET = 200
"""Clips: with fewer, two processes are always ahead."""
WORKER_BYTES = 500 * MB
"""Memory of one process with torch loaded; a round figure, to be on the safe side."""
WORKER_SHARE = 0.25
"""Share of the available memory that loader processes may take."""
BATCH_BYTES = 9 * MB
"""A batch of 16 clips on its way: 6 s of float32 conditioning audio and some thousand ids each."""
SHARED_RESERVE = 2
"""Shared memory is taken for too small below this many times what the batches on their way need."""

SOCKET_PATH = 107
"""Bytes that the path of a Unix socket may have (unix(7), sun_path less its end)."""
SOCKET_NAME = len("/pymp-abcdefgh/listener-abcdefgh")
"""What multiprocessing adds to the temporary folder for the socket of a process."""


@dataclass(frozen=True, kw_only=True)
class LoaderSettings:
    """Arguments for a DataLoader, and why."""

    num_workers: int
    """Processes that load clips; 0 loads in the training process."""
    prefetch_factor: int | None
    """Batches that each process keeps ready; None without processes, as DataLoader wants it."""
    pin_memory: bool
    """Whether batches lie in page-locked memory, from which a GPU copies while it computes."""
    persistent_workers: bool
    """Whether processes live on from epoch to epoch."""
    reasons: tuple[str, ...]
    off: tuple[str, ...] = ()
    """What the user chose and cannot be had, each with the reason."""

    @property
    def arguments(self) -> dict[str, int | bool | None]:
        """Keyword arguments of torch.utils.data.DataLoader."""
        return {name: value for name, value in vars(self).items() if name not in ("reasons", "off")}


def loader_settings(
    *,
    num_clips: int,
    device: str,
    dataset_bytes: int = 0,
    cpu_count: int | None = None,
    memory_bytes: int | None = None,
    shared_bytes: int | None = None,
    num_workers: int | None = None,
    prefetch_factor: int | None = None,
    pin_memory: bool | None = None,
) -> LoaderSettings:
    """Loader settings for a dataset on a machine.

    Args:
        num_clips: clips of an epoch.
        device: where training runs: cpu, cuda, or either with a number.
        dataset_bytes: size of all audio files; 0 when unknown.
        cpu_count: hardware threads to count on; those of this process when not given.
        memory_bytes: available memory; that of this machine when not given.
        shared_bytes: free shared memory; that of this machine when not given.
        num_workers, prefetch_factor, pin_memory: the user's own choices, which win where they can be had.
    """
    on_gpu = device.startswith("cuda")
    cpus = usable_cpus() if cpu_count is None else cpu_count
    available = memory().available_bytes if memory_bytes is None else memory_bytes
    if num_workers is not None:
        workers, why = num_workers, "as chosen"
    elif not on_gpu:
        workers, why = (
            0,
            "the cores that load would be missing where they compute, and a step takes far longer than loading",
        )
    else:
        workers, why = _workers(num_clips, dataset_bytes, cpus, available)
        shared = shared_memory_free() if shared_bytes is None else shared_bytes
        workers, why = _within_shared_memory(workers, why, shared)
    off = []
    if workers and not _sockets_fit():
        workers, why = (
            0,
            "the path of the temporary folder is too long for the sockets of processes; set a shorter TMPDIR",
        )
        if num_workers:
            off.append(f"num_workers: {why}")
    from_disk = dataset_bytes > available / 2
    pin = (
        "pinned memory, so that copies overlap with work" if on_gpu else "no pinned memory: there is no GPU to copy to"
    )
    if pin_memory and not on_gpu:
        off.append("pin_memory: training runs on the CPU, and there is no GPU to copy to")
    if prefetch_factor and not workers:
        off.append("prefetch_factor: no process loads ahead with num_workers 0")
    return LoaderSettings(
        num_workers=workers,
        prefetch_factor=(prefetch_factor or (4 if from_disk else 2)) if workers else None,
        pin_memory=on_gpu and pin_memory is not False,
        persistent_workers=workers > 0,
        reasons=(f"{workers} loader processes: {why}", pin),
        off=tuple(off),
    )


def _workers(num_clips: int, dataset_bytes: int, cpus: int, available: int) -> tuple[int, str]:
    """Processes for a GPU, one hardware thread being left to the training process."""
    from_disk = dataset_bytes > available / 2
    wanted = MAX_DISK_WORKERS if from_disk else 2 if num_clips < SMALL_DATASET else MAX_WORKERS
    why = (
        "the dataset exceeds half of the free memory, so clips come from the disk each time"
        if from_disk
        else f"{num_clips} clips, which stay in memory once read"
    )
    by_memory = int(WORKER_SHARE * available // WORKER_BYTES)
    # Even with one hardware thread a process helps: it loads while the GPU computes.
    workers = min(wanted, max(1, cpus - 1), by_memory)
    if workers == by_memory < min(wanted, max(1, cpus - 1)):
        why = f"each process takes about {WORKER_BYTES // MB} MB, and {available // MB:,} MB are free"
    elif workers < wanted:
        why = f"{cpus} hardware threads, one of them left to the training process"
    return workers, why


def _sockets_fit() -> bool:
    """Whether loader processes can pass tensors on: on Linux by sockets in the temporary folder.

    Where they cannot, torch's feeder thread dies and the training process waits forever.
    """
    if platform.system() != "Linux":
        return True
    return len(tempfile.gettempdir().encode()) + SOCKET_NAME <= SOCKET_PATH


def _within_shared_memory(workers: int, why: str, shared: int | None) -> tuple[int, str]:
    """Fewer processes where /dev/shm is too small for the batches on their way."""
    fitting = workers if shared is None else shared // (SHARED_RESERVE * 2 * BATCH_BYTES)
    if fitting >= workers or platform.system() == "Windows":
        return workers, why
    assert shared is not None
    return fitting, f"/dev/shm has {shared // MB} MB free; give a container more with --shm-size=1g"
