"""Poll this machine's GPU, memory and processor in one thread for all browsers."""

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass

from utils.hardware.gpu import Gpu, GpuSurvey, find_gpus
from utils.hardware.resources import Memory, memory

EVERY_S = 2.0
HISTORY_S = 900.0
IDLE_S = 30.0
"""With nobody looking for so long, the thread ends."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MachineSample:
    """The machine at one moment."""

    time: float
    """In seconds since 1970."""
    survey: GpuSurvey
    memory: Memory

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return self.survey.gpus


class Monitor:
    """Keeps the last minutes of readings while someone looks."""

    def __init__(self) -> None:
        self._readings: deque[MachineSample] = deque(maxlen=int(HISTORY_S / EVERY_S))
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._last_asked = 0.0

    def now(self) -> MachineSample:
        """The newest reading, at most a few seconds old."""
        self._last_asked = time.monotonic()
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                # Nothing was measured for a while: a line across the gap would invent values.
                self._readings.clear()
                self._readings.append(_read())
                self._thread = threading.Thread(target=self._watch, name="hardware monitor", daemon=True)
                self._thread.start()
            return self._readings[-1]

    def history(self) -> list[MachineSample]:
        """The readings of the last minutes, oldest first."""
        with self._lock:
            return list(self._readings)

    def _watch(self) -> None:
        while time.monotonic() < self._last_asked + IDLE_S:
            time.sleep(EVERY_S)
            reading = _read()
            with self._lock:
                self._readings.append(reading)


def _read() -> MachineSample:
    return MachineSample(time=time.time(), survey=find_gpus(), memory=memory())
