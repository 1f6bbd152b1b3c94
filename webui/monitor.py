"""This machine's GPU, memory and processor: one reading for all browsers, and those of the last minutes."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from utils.hardware.gpu import Gpu, find_gpus
from utils.hardware.resources import Memory, memory

EVERY_S = 1.5
"""A reading is at most so old: less than the page's polls are apart."""
HISTORY_S = 900.0
IDLE_S = 60.0
"""Where no page was open for this long, a line across the gap would invent values."""


@dataclass(frozen=True, kw_only=True)
class MachineSample:
    """The machine at one moment."""

    time: float
    """In seconds since 1970."""
    gpus: Sequence[Gpu]
    gpu_reason: str
    """Why there are none, or fewer than there could be."""
    memory: Memory


class Monitor:
    """Reads the machine while a page is open, and keeps the last minutes of readings."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._readings: deque[MachineSample] = deque(maxlen=int(HISTORY_S / EVERY_S))
        self._lock = threading.Lock()
        self._is_reading = False

    def now(self) -> MachineSample:
        """The newest reading."""
        with self._lock:
            newest = self._readings[-1] if self._readings else None
            age_s = self._clock() - newest.time if newest else IDLE_S
            # A slow driver keeps one page waiting, not all of them.
            if newest and (self._is_reading or 0 <= age_s < EVERY_S):
                return newest
            self._is_reading = True
        try:
            gpus, reason = find_gpus()
            read = MachineSample(gpus=gpus, gpu_reason=reason, memory=memory(), time=self._clock())
        finally:
            self._is_reading = False
        with self._lock:
            if not 0 <= age_s < IDLE_S:
                self._readings.clear()
            self._readings.append(read)
            return read

    def history(self) -> list[MachineSample]:
        """The readings of the last minutes, oldest first."""
        with self._lock:
            return list(self._readings)
