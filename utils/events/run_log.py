"""Log a run's events and user-visible warnings; of several processes, only the first writes."""

import logging
from pathlib import Path
from typing import Any

from utils.events import EventWriter
from utils.events.progress import EventListener

log = logging.getLogger(__name__)


class RunLog:
    """The log of a run.

    Args:
        path: its events.jsonl; None in all processes of a distributed run but the first, which tell nothing.
        listener: called with each event after it is written.
    """

    def __init__(self, path: Path | None, listener: EventListener | None = None) -> None:
        self.events = EventWriter(path) if path is not None else None
        self._listener = listener

    def write(self, kind: str, **fields: Any) -> None:
        """Append an event; see `EventWriter.write`."""
        if self.events is not None:
            self.events.write(kind, **fields)
            if self._listener is not None:
                self._listener(kind, fields)

    def warn(self, message: str, *, source: str, **facts: Any) -> None:
        """Tell of something that did not stop the run.

        Args:
            message: for people.
            source: what it concerns: numbers, memory, disk, samples, switches, language or resume.
            facts: what a program may want to know.
        """
        if self.events is not None:
            log.warning(message)
            self.write("warning", message=message, source=source, **facts)

    def close(self) -> None:
        """Write what is held, and close the file; see `EventWriter.close`."""
        if self.events is not None:
            self.events.close()
