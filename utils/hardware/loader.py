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
    available = memory().available_bytes if memory_bytes is None else memory_bytes
    from_disk = dataset_bytes > available / 2
    if num_workers is not None:
        workers, why = num_workers, "as chosen"
    elif not on_gpu:
        workers, why = 0, "a step takes far longer than loading, and processes that load would take its cores"
    else:
        shared = shared_memory_free() if shared_bytes is None else shared_bytes
        cpus = usable_cpus() if cpu_count is None else cpu_count
        workers, why = _workers(num_clips, cpus, available, shared, from_disk=from_disk)
    off = []
    if workers and not _sockets_fit():
        workers = 0
        why = "the path of the temporary folder is too long for the sockets of processes; set a shorter TMPDIR"
        off += [f"num_workers: {why}"] if num_workers else []
    if pin_memory and not on_gpu:
        off.append("pin_memory: training runs on the CPU, and there is no GPU to copy to")
    if prefetch_factor and not workers:
        off.append("prefetch_factor: no process loads ahead with num_workers 0")
    pin = "pinned memory, so that copies overlap with work" if on_gpu else "no pinned memory: there is no GPU"
    return LoaderSettings(
        num_workers=workers,
        prefetch_factor=(prefetch_factor or (4 if from_disk else 2)) if workers else None,
        pin_memory=on_gpu and pin_memory is not False,
        persistent_workers=workers > 0,
        reasons=(f"{workers} loader processes: {why}", pin),
        off=tuple(off),
    )


def _workers(num_clips: int, cpus: int, available: int, shared: int | None, *, from_disk: bool) -> tuple[int, str]:
    """Processes for a GPU, and what limits them; one hardware thread is left to the training process."""
    wanted = MAX_DISK_WORKERS if from_disk else 2 if num_clips < SMALL_DATASET else MAX_WORKERS
    why = f"{num_clips} clips, which stay in memory once read"
    if from_disk:
        why = "the dataset exceeds half of the free memory, so clips come from the disk each time"
    limits = {
        why: wanted,
        # Even with one hardware thread a process helps: it loads while the GPU computes.
        f"{cpus} hardware threads, one of them left to the training process": max(1, cpus - 1),
        f"each process takes about {WORKER_BYTES // MB} MB, and {available // MB:,} MB are free": int(
            WORKER_SHARE * available // WORKER_BYTES
        ),
    }
    if shared is not None and platform.system() != "Windows":
        words = f"/dev/shm has {shared // MB} MB free; give a container more with --shm-size=1g"
        limits[words] = shared // (SHARED_RESERVE * 2 * BATCH_BYTES)
    words = min(limits, key=lambda name: limits[name])
    return limits[words], words


def _sockets_fit() -> bool:
    """Whether loader processes can pass tensors on: on Linux by sockets in the temporary folder.

    Where they cannot, torch's feeder thread dies and the training process waits forever.
    """
    return platform.system() != "Linux" or len(tempfile.gettempdir().encode()) + SOCKET_NAME <= SOCKET_PATH
