"""A stop that loses nothing: a signal, or a limit, lets the run finish its step, write a checkpoint and leave."""

import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from utils.jobs.child import is_stop_wanted

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""SIGTERM comes from job schedulers and our own stop, SIGINT from Ctrl-C, SIGHUP from a terminal or connection that is
gone; SIGBREAK stands for all on Windows."""
SIGHUP = getattr(signal, "SIGHUP", None)
EXIT_BASE = 128
"""Shells report the end by a signal as 128 plus its number."""
ECHO_S = 1.0
"""Within this time a second signal is the same request: Ctrl-C comes from the terminal and once more from torchrun."""


class StopRequest:
    """Listens for signals while a run is training.

    The first one is a request, kept in `number`. A later one ends the process at once: checkpoints appear whole or not
    at all, so even that costs no more than the steps since the last one. The end of a terminal is only ever a request:
    shells send it again to all that they started.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        """The signal that requested the stop; None before."""
        self._received = 0.0
        """When, on a clock that only runs forward."""
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Python lets only the main thread set handlers; a run in another thread is stopped by its caller.
        if threading.current_thread() is threading.main_thread():
            # Under nohup a run is meant to outlive its terminal, whose end is then no request to stop.
            wanted = [n for n in SIGNALS if n != SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
            self._former = {number: signal.signal(number, self._on_signal) for number in wanted}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.number is None:
            self.number, self._received = number, now
        elif number != SIGHUP and now - self._received > ECHO_S:
            raise SystemExit(EXIT_BASE + number)


def leave_stops_to_trainer(worker: int) -> None:
    """In a loader process: ignore what asks the whole run to stop; the trainer still needs batches to finish its step.

    Ctrl-C, a scheduler and systemd signal every process of a run, not the first only. A loader process that ended by it
    would make the trainer fail in the middle of a step. It still ends when the trainer wants it to, or is gone.

    Args:
        worker: its number; `DataLoader` gives it.
    """
    for number in SIGNALS:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)
    # Only here the sender of a signal is known; elsewhere SIGTERM ends a loader process as before.
    if hasattr(signal, "sigwaitinfo"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_end_when_trainer_asks, name="signals", daemon=True).start()


def _end_when_trainer_asks() -> None:
    # torch sends SIGTERM to loader processes that do not end by themselves.
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
        pass
    os._exit(0)


def exit_status(stop_signal: int | None, folder: Path) -> int:
    """What a command that trained ends with: 0 also after a stop that was asked for through the run's folder.

    Args:
        stop_signal: the signal that ended the run; None when it ended by itself.
        folder: the run's folder.
    """
    was_asked = stop_signal != signal.SIGINT and is_stop_wanted(folder)
    return 0 if stop_signal is None or was_asked else EXIT_BASE + stop_signal
