"""A heartbeat file that a job touches every few seconds, for those who cannot see its process.

A container that took the place of another one has another name and a process table of its own, and so has another
computer on the same drive: only what is written there distinguishes a working job from a killed one.
"""

import threading
import time
from contextlib import suppress
from pathlib import Path

from utils.runs.record import ALIVE_FILE, read_record, status_or_none

BEAT_S = 10.0


def beat(folder: Path) -> None:
    """From a thread of this process, touch the file now and every `BEAT_S` until the job here has ended.

    Args:
        folder: of the job that this process does; its record names the process.
    """
    record = read_record(folder)
    assert record is not None, "who beats has announced itself"
    _touch(folder)
    pid = record.pid

    def beat() -> None:
        # Another process may have resumed the run; it beats for itself.
        while (now := read_record(folder)) and now.pid == pid and (job := status_or_none(folder)) and job.alive:
            _touch(folder)
            time.sleep(BEAT_S)

    threading.Thread(target=beat, name=f"heartbeat {folder.name}", daemon=True).start()


def _touch(folder: Path) -> None:
    # A disk that is full or away for a moment is no reason to end the work; the next beat comes soon.
    with suppress(OSError):
        (folder / ALIVE_FILE).touch()
