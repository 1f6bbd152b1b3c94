"""The other processes of a run: they meet before each step, so that one that hangs or has ended is named."""

import json
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
"""So long, or as long as processes wait for each other in training, the others let the first process save."""
SAVED = "saved"
"""Key of the store that says that it has."""
REASON = "reason"
"""Key of the store, with the number of a process, for why that process ended."""


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
        # A barrier's time limit counts in the first process alone; in the others that of the group does. It limits how
        # long making the group takes, too, so all of them begin with that at the same time.
        limit = self._timeout + timedelta(seconds=GRACE_S)
        accelerator.wait_for_everyone()
        # On the host, whatever the device: a GPU that hangs must not keep us from asking.
        self._group = dist.new_group(backend="gloo", timeout=limit) if self._world > 1 else None
        self._meetings = 0
        self._is_first_missing = False
        """Whether the first process did not come to a meeting: nobody writes checkpoints then."""

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Wait for each other no longer than agreed; outside of it one process may do long work alone.

        Raises:
            ProcessLost: as in `named`.
        """
        if self._group is None:
            yield
            return
        dist.distributed_c10d._set_pg_timeout(self._timeout)
        try:
            with self.named():
                yield
        finally:
            dist.distributed_c10d._set_pg_timeout(PATIENCE)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the process that ends meanwhile, and why, in the others.

        Raises:
            ProcessLost: instead of the error of a sum that another process did not take part in.
        """
        try:
            yield
        except Exception as error:
            if self._group is None:
                raise
            if isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in NETWORK_SIGNS):
                self._come()
                # One that still waits for this process in a sum does not come: it learns of it when this one ends.
                if missing := self._missing_for_good():
                    raise self._lost(missing) from error
                self._barrier(timedelta(seconds=GRACE_S))
            if not isinstance(error, ProcessLost):
                self._leave_reason(error)
            raise

    def meet(self) -> None:
        """Wait until all are here.

        Raises:
            ProcessLost: one is not, after the time that was agreed.
        """
        if self._group is not None:
            self._come()
            self._barrier(self._timeout)

    def part(self) -> None:
        """Before a process ends together with the others: they let the first one finish its save.

        A launcher that sees one process end with a fault ends the others, also in the middle of it.
        """
        if self._group is None:
            return
        with suppress(RuntimeError):  # the first process is the one that is lost, and the store with it
            if self._rank == 0:
                self._store().set(self._key(SAVED), "yes")
            elif not self._is_first_missing:
                self._store().wait([self._key(SAVED)], max(LAST_SAVE, self._timeout))

    def _come(self) -> None:
        """Show the others that this process is at the next meeting."""
        self._meetings += 1
        with suppress(RuntimeError):  # the store has ended with the first process
            self._store().set(self._key(self._rank), str(self._meetings))

    def _barrier(self, timeout: timedelta) -> None:
        try:
            dist.monitored_barrier(self._group, timeout=timeout, wait_all_ranks=True)
        except RuntimeError as error:
            raise self._lost(self._missing_for_good()) from error

    def _missing_for_good(self) -> list[int]:
        """Processes that do not come to this meeting within the time that the others have for it."""
        missing, deadline = self._missing(), time.monotonic() + GRACE_S
        while missing and time.monotonic() < deadline:
            time.sleep(0.1)
            missing = self._missing()
        return missing

    def _lost(self, missing: list[int]) -> ProcessLost:
        self._is_first_missing = 0 in missing
        for rank in missing:
            if reason := self._reason(rank):
                what = f"process {rank} of {self._world} has ended: {reason['what']}"
                return ProcessLost(what=what, where=reason["where"], fix=reason["fix"] or self._continue())
        named = f"process {', '.join(map(str, missing))}" if missing else "a process"
        return ProcessLost(
            what=f"{named} of {self._world} does not answer: it hangs (the others waited up to "
            f"{self._timeout.total_seconds() / 60:g} minutes), has ended, or cannot be reached",
            where="--processes",
            fix=self._continue(),
        )

    def _continue(self) -> str:
        return f"see the logs of all processes, then continue: {self._resume_command}"

    def _leave_reason(self, error: Exception) -> None:
        """Let the others know why this process ends."""
        if isinstance(error, UserError):
            reason = {"what": error.what, "where": error.where, "fix": error.fix}
        else:
            first_line = next(iter(str(error).splitlines()), "")
            reason = {"what": f"{type(error).__name__}: {first_line}", "where": "--processes", "fix": ""}
        with suppress(RuntimeError):
            self._store().set(self._key(f"{REASON}-{self._rank}"), json.dumps(reason))

    def _reason(self, rank: int) -> dict[str, str] | None:
        """Why a process ended, where it could leave word."""
        store, key = self._store(), self._key(f"{REASON}-{rank}")
        with suppress(RuntimeError):
            if store.check([key]):
                reason: dict[str, str] = json.loads(store.get(key))
                return reason
        return None

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
