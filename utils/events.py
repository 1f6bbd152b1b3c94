"""A run's event log: one JSON object a line, appended while it runs and readable while it grows."""

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KINDS = frozenset(
    {
        "started",
        "optimizations",
        "step",
        "eval",
        "sample",
        "checkpoint",
        "memory",
        "warning",
        "stopped",
        "failed",
        "finished",
    }
)

Event = dict[str, Any]


class EventWriter:
    """Appends events to `path`; each line is flushed, so a kill loses at most the line being written.

    Args:
        path: the run's events.jsonl; created when absent, continued when present.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        torn = _ends_torn(path)
        self._file = path.open("a", encoding="utf-8")
        if torn:
            # Close the torn line of a killed writer, so that it cannot swallow the next event.
            self._file.write("\n")

    def write(self, kind: str, **fields: Any) -> None:
        """Append one event.

        Args:
            kind: one of `KINDS`.
            fields: JSON values; a non-finite number is written as null, because JSON has no NaN.
        """
        assert kind in KINDS, kind
        line = json.dumps({"time": time.time(), "kind": kind, **_finite(fields)}, ensure_ascii=False)
        self._file.write(line + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_events(path: Path, *, kind: str | None = None) -> Iterator[Event]:
    """Events of a log in order; lines that are torn or not JSON objects are skipped.

    Args:
        path: an events.jsonl; a missing file has no events.
        kind: only events of this kind.
    """
    if not path.is_file():
        return
    with path.open("rb") as lines:
        for line in lines:
            event = parse_event(line)
            if event is not None and kind in (None, event["kind"]):
                yield event


def parse_event(line: bytes) -> Event | None:
    """The event of one complete line, or None when the line is torn or foreign."""
    if not line.endswith(b"\n"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "kind" in event else None


def _ends_torn(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as log:
        log.seek(-1, 2)
        return log.read(1) != b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
