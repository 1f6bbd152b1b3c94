"""Poll this machine's GPU, memory and processor in one thread for all browsers."""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from utils.hardware import Gpu, GpuSurvey, Memory, find_gpus, memory
from utils.hardware.holders import Holder, largest_processes, process_names

EVERY_S = 2.0
HISTORY_S = 900.0
HOLDERS_S = 20.0
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
    holders: tuple[Holder, ...] = ()
    """The largest processes, where there is no GPU; read now and then only."""
    names: Mapping[int, str] = field(default_factory=dict)
    """Of the processes on the GPUs, by their ids."""
    holders_time: float = 0.0
    """When the processes were looked through, in seconds since 1970."""

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
            reading = _read(self._readings[-1])
            with self._lock:
                self._readings.append(reading)


def _read(last: MachineSample | None = None) -> MachineSample:
    now, survey = time.time(), find_gpus()
    names = process_names(pid for gpu in survey.gpus for pid in gpu.processes)
    holders, holders_time = (last.holders, last.holders_time) if last else ((), 0.0)
    # Hundreds of processes are looked through: not at every reading.
    if not survey.gpus and now > holders_time + HOLDERS_S:
        holders, holders_time = largest_processes(), now
    return MachineSample(
        time=now, survey=survey, memory=memory(), holders=holders, names=names, holders_time=holders_time
    )
