"""The log of a run, and who is informed of its events."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from utils.callbacks import EventListener
from utils.runs.log import EventWriter
from utils.runs.loggers import Logger

log = logging.getLogger(__name__)


class RunLog:
    """The log of a run.

    Args:
        path: its events.jsonl; None in all processes of a distributed run but the first, which write nothing.
        subscriber: called with each event after it is written.
        loggers: likewise; one that fails is given up, because no run should end for it.
    """

    def __init__(
        self, path: Path | None, subscriber: EventListener | None = None, loggers: Sequence[Logger] = ()
    ) -> None:
        self.events = EventWriter(path) if path is not None else None
        self._subscriber = subscriber
        self._loggers = list(loggers)

    def write(self, kind: str, **fields: Any) -> None:
        """Append an event; see `EventWriter.write`."""
        if self.events is not None:
            self.events.write(kind, **fields)
            if self._subscriber is not None:
                self._subscriber(kind, fields)
            for logger in list(self._loggers):
                self._heed(logger, partial(logger.event, kind, fields))

    def warn(self, message: str, *, source: str, **facts: Any) -> None:
        """Report something that did not stop the run.

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
            for logger in list(self._loggers):
                self._heed(logger, logger.close)
            self.events.close()

    def _heed(self, logger: Logger, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self._loggers.remove(logger)
            log.exception("a logger failed")
            self.warn(f"{type(logger).__module__} shows no more of this run: {error}", source="loggers")
