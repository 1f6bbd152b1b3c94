"""The devices of a run, claimed by its processes before any of them is used; all learn of a refusal together."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch.distributed import Store, rendezvous

from utils import jobs
from utils.config import Device
from utils.errors import UserError
from utils.project.paths import Project
from utils.training.optimizer.precision import PATIENCE, world_size

LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK")
"""Variables of torchrun and of MPI's launchers, which accelerate knows as well."""
LAST_READ_S = 30.0
"""The process that keeps the store waits so long for the others to have read it."""


@contextmanager
def claimed(device: Device, project: Project) -> Iterator[None]:
    """Have this process's device until the block ends.

    Args:
        device: as in the settings; each process of a run takes a GPU of its own, the first one of a computer its CPU.
        project: whose run.

    Raises:
        UserError: another job has the device of one of the processes; raised in all of them.
    """
    local_rank = int(next(filter(None, map(os.environ.get, LOCAL_RANKS)), 0))
    refusal: UserError | None = None
    with ExitStack() as held:
        try:
            held.enter_context(
                jobs.hold("train", device=device, output=project.output, folder=project.folder, local_rank=local_rank)
            )
        except UserError as error:
            refusal = error
        except OSError as error:
            # The others wait for an answer, whatever it is.
            refusal = UserError(what=f"the device cannot be claimed: {error}", where=str(project.folder))
        # Kept to the end: the process group of the run then finds the same store.
        store = _store()
        if store is not None:
            refusal = _of_all(store, refusal)
        if refusal is not None:
            raise refusal
        yield


def _store() -> Store | None:
    """Where the processes of a run meet before they have a process group, which would use the devices."""
    if world_size() == 1:
        return None
    store: Store = next(iter(rendezvous("env://", timeout=PATIENCE)))[0]
    return store


def _of_all(store: Store, refusal: UserError | None) -> UserError | None:
    """This process's refusal, or else that of another."""
    world, rank = world_size(), int(os.environ["RANK"])
    # Runs one after another in the same processes meet in the same store: each has its own round.
    # Those that a launcher starts again, or in another number, count anew.
    start = f"{world}-{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"
    turn = f"{start}-{(store.add(f'claims-{start}', 1) - 1) // world}"
    words = [refusal.what, refusal.where, refusal.fix] if refusal is not None else []
    store.set(f"claim-{turn}-{rank}", json.dumps(words))
    answers = [json.loads(store.get(f"claim-{turn}-{other}")) for other in range(world)]
    store.add(f"claims-read-{turn}", 1)
    deadline = time.monotonic() + LAST_READ_S
    while rank == 0 and store.add(f"claims-read-{turn}", 0) < world and time.monotonic() < deadline:
        time.sleep(0.01)
    if refusal is not None:
        return refusal
    what, where, fix = next(filter(None, answers), ("", "", ""))
    return UserError(what=f"another process of this run has no device: {what}", where=where, fix=fix) if what else None
