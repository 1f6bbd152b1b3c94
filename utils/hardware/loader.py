"""Choose the number of data loader processes from the data and the machine, without loading torch."""

import platform
import tempfile
from typing import Any

from utils.hardware.processor import usable_cpus
from utils.hardware.resources import memory, shared_memory_free

MB = 1_000_000
MAX_WORKERS = 4
MAX_DISK_WORKERS = 8
"""Where clips come from the disk each time."""
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


def loader_settings(
    *,
    num_clips: int,
    device: str,
    dataset_bytes: int = 0,
    num_workers: int | None = None,
    prefetch_factor: int | None = None,
    pin_memory: bool | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Keywords of torch's DataLoader for a dataset on this machine.

    Args:
        num_clips: clips of an epoch.
        device: where training runs: cpu, cuda, or either with a number.
        dataset_bytes: size of all audio files; 0 when unknown.
        num_workers, prefetch_factor, pin_memory: the user's own choices, which win where they can be had.

    Returns:
        num_workers, prefetch_factor, pin_memory and persistent_workers; and what the user chose and cannot be had, each
        with the reason.
    """
    on_gpu, available, workers, off = device.startswith("cuda"), memory().available_bytes, num_workers, list[str]()
    # Clips that are read from the disk each time have more processes wait for it at once.
    from_disk = dataset_bytes > available / 2
    if workers is None and on_gpu:
        workers = min(
            MAX_DISK_WORKERS if from_disk else 2 if num_clips < SMALL_DATASET else MAX_WORKERS,
            # Even with one hardware thread a process helps: it loads while the GPU computes.
            max(1, usable_cpus() - 1),
            int(WORKER_SHARE * available // WORKER_BYTES),
        )
        shared = shared_memory_free()
        if shared is not None and platform.system() != "Windows":
            workers = min(workers, shared // (SHARED_RESERVE * 2 * BATCH_BYTES))
    # On a CPU a step takes far longer than loading, and processes that load would take its cores.
    workers = workers or 0
    # On Linux, loader processes pass tensors on by sockets in the temporary folder. Where they cannot, torch's feeder
    # thread dies and the training process waits forever.
    socket_path = len(tempfile.gettempdir().encode()) + SOCKET_NAME
    if workers and platform.system() == "Linux" and socket_path > SOCKET_PATH:
        workers = 0
        why = "the path of the temporary folder is too long for the sockets of processes; set a shorter TMPDIR"
        off.append(f"num_workers: {why}")
    if pin_memory and not on_gpu:
        off.append("pin_memory: training runs on the CPU, and there is no GPU to copy to")
    if prefetch_factor and not workers:
        off.append("prefetch_factor: no process loads ahead with num_workers 0")
    settings = {
        "num_workers": workers,
        # None without processes, as DataLoader wants it.
        "prefetch_factor": (prefetch_factor or (4 if from_disk else 2)) if workers else None,
        "pin_memory": on_gpu and pin_memory is not False,
        "persistent_workers": workers > 0,
    }
    return settings, off
