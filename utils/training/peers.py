"""The other processes of a run: they meet before each step, so that one that hangs or is gone is named."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch.distributed as dist
from accelerate import Accelerator

from utils.errors import UserError
from utils.training.optimizer.precision import PATIENCE

GRACE_S = 5.0
"""When one does not answer, the others have so long to come to the same point."""
NETWORK_SIGNS = ("gloo", "nccl", "connection", "peer", "socket", "broken pipe", "timed out", "timeout")
"""In messages of sums that another process did not take part in."""

LAST_SAVE = timedelta(minutes=1)
"""So long the others let the first process save."""
SAVED = "saved"
"""Key of the store that says that it has."""


class ProcessLost(UserError):
    """Another process of the run hangs, has ended, or cannot be reached."""


class Peers:
    """Meets the other processes; does nothing in a single one.

    Args:
        accelerator: the processes.
        minutes: how long a process may keep the others waiting.
        resume_command: continues the run, for the advice.
    """

    def __init__(self, accelerator: Accelerator, minutes: float, resume_command: str) -> None:
        self._world, self._rank = accelerator.num_processes, accelerator.process_index
        self._timeout, self._resume_command = timedelta(minutes=minutes), resume_command
        # On the host, whatever the device: a GPU that hangs must not keep us from asking.
        self._group = dist.new_group(backend="gloo", timeout=PATIENCE) if self._world > 1 else None
        self._meetings = 0

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Wait for each other no longer than agreed; outside of it one process may do long work alone.

        Raises:
            ProcessLost: instead of the error of a sum that another process did not take part in.
        """
        if self._group is None:
            yield
            return
        dist.distributed_c10d._set_pg_timeout(self._timeout)
        try:
            yield
        except RuntimeError as error:
            if any(sign in str(error).lower() for sign in NETWORK_SIGNS):
                self._meet(timedelta(seconds=GRACE_S))
            raise
        finally:
            dist.distributed_c10d._set_pg_timeout(PATIENCE)

    def meet(self) -> None:
        """Wait until all are here.

        Raises:
            ProcessLost: one is not, after the time that was agreed.
        """
        if self._group is not None:
            self._meet(self._timeout)

    def part(self) -> None:
        """Before this process ends because of another one: the others let the first one finish its save.

        A launcher that sees one process end with a fault ends the others, also in the middle of it.
        """
        if self._group is None:
            return
        with suppress(RuntimeError):  # the first process is the one that is lost, and the store with it
            if self._rank == 0:
                self._store().set(self._key(SAVED), "yes")
            else:
                self._store().wait([self._key(SAVED)], LAST_SAVE)

    def _meet(self, timeout: timedelta) -> None:
        self._meetings += 1
        try:
            self._store().set(self._key(self._rank), str(self._meetings))
            dist.monitored_barrier(self._group, timeout=timeout, wait_all_ranks=True)
        except RuntimeError as error:
            raise self._lost() from error

    def _lost(self) -> ProcessLost:
        missing, deadline = self._missing(), time.monotonic() + GRACE_S
        while missing and time.monotonic() < deadline:
            time.sleep(0.1)
            missing = self._missing()
        named = f"process {', '.join(map(str, missing))}" if missing else "a process"
        return ProcessLost(
            what=f"{named} of {self._world} does not answer: it hangs (the others waited up to "
            f"{self._timeout.total_seconds() / 60:g} minutes), has ended, or cannot be reached",
            where="--processes",
            fix=f"see the logs of all processes, then continue: {self._resume_command}",
        )

    def _missing(self) -> list[int]:
        """Processes that have not come to this meeting."""
        others = [rank for rank in range(self._world) if rank != self._rank]
        try:
            return [rank for rank in others if not self._has_come(rank)]
        except RuntimeError:
            # Where no launcher keeps the store, the first process does.
            return [0]

    def _has_come(self, rank: int) -> bool:
        store, key = self._store(), self._key(rank)
        return bool(store.check([key])) and int(store.get(key)) >= self._meetings

    def _key(self, name: object) -> str:
        """Of this run: one process may train several after another."""
        assert self._group is not None
        return f"xtts-{self._group.group_name}-{name}"

    def _store(self) -> dist.Store:
        store: dist.Store = dist.distributed_c10d._get_default_store()
        return store
