"""Asynchronous checkpoints: the state is copied, and a thread writes the copy while training continues.

The data is as safe as when training waits: a checkpoint counts only once it is whole and synced, and until then the one
before it does. Where memory has no room for a copy, and for the last save of a run, training waits.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from utils.hardware.resources import memory
from utils.runs.checkpoints import Checkpoints, NotSaved, Tensors, num_bytes
from utils.runs.log import EventWriter

MEMORY_SHARE = 0.7
"""A copy may take this share of the memory that is free."""
RETRY_S = 60.0
"""A save that failed is tried again after this time, when no other one comes first."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All that one checkpoint holds."""

    step: int
    files: Mapping[str, Tensors]
    """Tensors by file; see `files_of`."""
    state: dict[str, Any]
    best_loss: float | None
    """Evaluation loss of these weights when they are the best so far."""

    def copied(self) -> "Snapshot":
        """The same in memory of its own, on the CPU."""
        files = {
            file: {
                name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
                for name, tensor in tensors.items()
            }
            for file, tensors in self.files.items()
        }
        return replace(self, files=files)


class Saver:
    """Writes the checkpoints of a run, one at a time; a save that fails is reported, and training continues.

    Args:
        checkpoints: where.
        run_log: receives each.
    """

    def __init__(self, checkpoints: Checkpoints, run_log: EventWriter) -> None:
        self._checkpoints = checkpoints
        self._log = run_log
        self._thread: threading.Thread | None = None
        self._outcomes: list[Callable[[], list[Path]]] = []
        """Each reports what came of a save, in the thread of training."""
        self._tried = time.monotonic()
        self.failure: NotSaved | None = None
        """Why the newest save failed; None when it did not."""
        self.saved_step: int | None = None
        """Step of the newest checkpoint."""
        self.best_loss = float("inf")
        """Evaluation loss of the best weights on disk."""
        self.waited_s = 0.0
        """How long training stood still for saving, in all."""
        self.save_s = 0.0
        """How long saving took in all, most of it beside training."""

    def is_due(self, step: int, *, every: int, minutes: float) -> bool:
        """Whether a save is due: after every so many steps or minutes, if not 0, or as one that failed is tried again.

        Args:
            step: optimizer steps done.
            every: steps from one save to the next.
            minutes: likewise, since the newest save was begun, or the run.
        """
        by_steps, by_time = every > 0 and step % every == 0, 0 < minutes <= (time.monotonic() - self._tried) / 60
        return by_steps or by_time or self.wants_retry

    @property
    def wants_retry(self) -> bool:
        """Whether the newest save failed some time ago; not while another one is running or its outcome unknown."""
        is_settled = not self._outcomes and (self._thread is None or not self._thread.is_alive())
        return self.failure is not None and is_settled and time.monotonic() - self._tried > RETRY_S

    def save(self, snapshot: Snapshot, *, wait: bool = False, begun: float | None = None) -> None:
        """Write a checkpoint.

        Args:
            snapshot: live tensors are copied before this returns, unless it waits.
            wait: return when it is written.
            begun: when training began to wait for it, by `time.perf_counter`; now when not given.
        """
        begun = time.perf_counter() if begun is None else begun
        self.join()
        self._tried = time.monotonic()
        if wait or num_bytes(snapshot.files) > MEMORY_SHARE * memory().available_bytes:
            self._write(snapshot, begun, None)
        else:
            copy = snapshot.copied()
            # A daemon: a second request to stop ends the process at once, whatever is half-written.
            arguments = (copy, begun, time.perf_counter() - begun)
            self._thread = threading.Thread(target=self._write, args=arguments, name="save", daemon=True)
            self._thread.start()
        self.waited_s += time.perf_counter() - begun

    def join(self) -> None:
        """Wait for what is being written; its outcome is reported by `poll`."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def poll(self) -> list[Path]:
        """Log the outcome of saves since the last call.

        Returns:
            The new checkpoints to resume from.
        """
        saved = list[Path]()
        while self._outcomes:
            saved += self._outcomes.pop(0)()
        return saved

    def finish(self) -> list[Path]:
        """Wait for what is being written; then as `poll`."""
        begun = time.perf_counter()
        self.join()
        self.waited_s += time.perf_counter() - begun
        return self.poll()

    def _write(self, snapshot: Snapshot, begun: float, waited_s: float | None) -> None:
        """Runs beside training: touches nothing of this object but the list of outcomes."""
        last, best, error, size = None, None, None, num_bytes(snapshot.files)
        try:
            last = self._checkpoints.write_last(snapshot.step, snapshot.files, snapshot.state)
            if snapshot.best_loss is not None:
                best = self._checkpoints.link_best(last)
        except Exception as fault:  # noqa: BLE001 - raised by poll, in the thread of training
            error = fault
        save_s, step, best_loss = time.perf_counter() - begun, snapshot.step, snapshot.best_loss
        # What is reported must not keep the copied tensors alive.
        del snapshot
        times = {"save_s": save_s, "waited_s": save_s if waited_s is None else waited_s, "bytes": size}

        def report() -> list[Path]:
            """Log what came of the save, and raise what is no fault of the disk; gives the new checkpoint if any."""
            self.save_s += save_s
            if last is not None:
                self._log.write("checkpoint", step=step, path=str(last), what="last", **times)
                self.saved_step = step
            if best is not None and best_loss is not None:
                self._log.write("checkpoint", step=step, path=str(best), what="best")
                self.best_loss = best_loss
            before, self.failure = self.failure, error if isinstance(error, NotSaved) else None
            if self.failure is not None and before is None:
                kept = f"of step {self.saved_step} is kept" if self.saved_step is not None else "does not exist"
                self._log.warn(
                    f"{self.failure.what.rstrip()}; the newest checkpoint {kept}. Training continues and saves again "
                    f"as soon as it can: {self.failure.fix}",
                    source=self.failure.source,
                    step=step,
                    saved_step=self.saved_step,
                )
            elif before is not None and self.failure is None:
                message = f"saving works again: step {step} is saved"
                self._log.warn(message, source=before.source, step=step, saved_step=step)
            if error is not None and self.failure is None:
                raise error
            return [last] if last is not None else []

        self._outcomes.append(report)
