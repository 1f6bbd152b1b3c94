"""A stop that loses nothing: a signal, or a limit, lets the run finish its step, write a checkpoint and leave."""

import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from utils.jobs import is_stop_wanted

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGBREAK") if hasattr(signal, name))
"""SIGTERM comes from job schedulers and our own stop, SIGINT from Ctrl-C, SIGBREAK stands for both on Windows."""
EXIT_BASE = 128
"""Shells report the end by a signal as 128 plus its number."""


class StopRequest:
    """Listens for signals while a run is training.

    The first one is a request, kept in `number`. A second one ends the process at once: checkpoints appear whole or not
    at all, so even that costs no more than the steps since the last one.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        """The signal that asked for the stop; None while nobody did."""
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Python lets only the main thread set handlers; a run in another thread is stopped by its caller.
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.signal(number, self._hear) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            raise SystemExit(EXIT_BASE + number)
        self.number = number


def exit_status(stop_signal: int | None, folder: Path) -> int:
    """What a command that trained ends with: 0 also after a stop that was asked for through the run's folder.

    Args:
        stop_signal: the signal that ended the run; None when it ended by itself.
        folder: the run's folder.
    """
    was_asked = stop_signal != signal.SIGINT and is_stop_wanted(folder)
    return 0 if stop_signal is None or was_asked else EXIT_BASE + stop_signal


@dataclass(kw_only=True)
class Limits:
    """When a run stops before its last epoch."""

    patience: int = 0
    """Evaluations in a row without a lower loss; 0 is no limit."""
    max_hours: float | None = None
    """Since this process began to train; None is no limit."""
    begun: float = field(default_factory=time.monotonic)

    @property
    def time_is_up(self) -> bool:
        return self.max_hours is not None and time.monotonic() - self.begun >= self.max_hours * 3_600

    def is_patience_out(self, evals_without_gain: int) -> bool:
        """Whether so many evaluations without a lower loss are enough."""
        return 0 < self.patience <= evals_without_gain
