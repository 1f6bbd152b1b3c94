"""Follow an event log that grows: the newest events of each kind, and curves."""

import math
import os
import threading
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from utils.runs.log import KINDS, Event, lines_of, number_of, opened, parse_event

Columns = dict[str, list[Any]]
"""Equally long lists by field; a value that was no finite number is None."""

FINGERPRINT = 64
"""Bytes of the log's beginning that distinguish it from another one: its first event holds the time it was written."""
KEPT = 64
"""Events of each kind that an `EventLog` keeps, and so the most that can be asked for."""
DRAWN = {"step": ("step", "loss", "audio_s", "step_s"), "eval": ("step", "loss")}
"""Numbers of events that are kept for curves from the first read on: another one costs a second read of the log."""


class EventLog:
    """A log that grows: each call reads only what was appended since the last one.

    A line that is torn now is read once it is complete. A log that was truncated or replaced is read from its beginning
    again.

    Args:
        path: an events.jsonl; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        """Byte after the last line that was read."""
        self._lock = threading.RLock()
        self._beginning = b""
        self._last: dict[str, deque[tuple[int, Event]]] = {}
        """The newest events of each kind, each with the byte it ends before."""
        self._curves = {kind: {name: array("d") for name in names} for kind, names in DRAWN.items()}
        """Equally long columns by kind of event and field: 8 bytes a number, NaN for none."""

    def tail(self, count: int, *, kind: str, start: int = 0, after: str | None = None) -> list[Event]:
        """The last events of a kind, in their order, up to `KEPT` of them.

        Args:
            count: how many events at most.
            kind: only events of this kind, one of `KINDS`.
            start: only events after this byte of the log, the first of a line.
            after: only events after the last one of this kind; none while there is no such event after `start`.
        """
        assert count <= KEPT, f"{count} events of a kind are asked for, and {KEPT} kept"
        with self._lock:
            self._read()
            if after is not None:
                end, _ = self._last[after][-1] if after in self._last else (0, {})
                if end <= start:
                    return []
                start = end
            found = [event for end, event in self._last.get(kind, ()) if end > start]
            return found[len(found) - min(count, len(found)) :]

    def last(self, kind: str, *, start: int = 0, after: str | None = None) -> Event:
        """The last event of a kind, as `tail` finds it; empty while there is none."""
        return next(iter(self.tail(1, kind=kind, start=start, after=after)), {})

    def curve(self, kind: str, fields: Sequence[str], max_points: int = 500) -> Columns:
        """A curve of at most `max_points` points, which keep its first, last, lowest and highest values.

        After a resume, a run repeats the steps since its checkpoint. A curve shows the steps that led to the current
        weights: of repeated steps the later ones count, and discarded steps are omitted.

        Args:
            kind: events to draw.
            fields: numbers to draw; events without one of them give None there.
            max_points: the columns are at most this long.

        Returns:
            The columns `step` and `fields`.
        """
        names = ("step", *fields)
        with self._lock:
            if not self._curves.setdefault(kind, {}).keys() >= {*names}:
                self._curves[kind] |= {name: array("d") for name in names}
                self._restart()
            self._read()
            columns = [np.array(self._curves[kind][name]) for name in names]
        kept = _extremes(columns, max_points)
        rising, *others = (column[kept].tolist() for column in columns)
        shown = [[None if math.isnan(value) else value for value in column] for column in others]
        places = [int(at) if at.is_integer() else at for at in rising]
        return dict(zip(names, [places, *shown], strict=True))

    def _read(self) -> None:
        """Add what complete lines say since the last call."""
        with opened(self.path) as file:
            beginning = file.read(FINGERPRINT)
            # Inode numbers are used again, contents are not.
            if file.seek(0, os.SEEK_END) < self._offset or not beginning.startswith(self._beginning):
                self._restart()
            file.seek(self._offset)
            for line in lines_of(file):
                if not line.endswith(b"\n"):
                    break
                # Overlong lines are not given, so only the file knows where it is.
                self._offset = file.tell()
                self._beginning = beginning[: self._offset]
                if (event := parse_event(line)) is not None and event["kind"] in KINDS:
                    self._add(event)

    def _restart(self) -> None:
        self._offset, self._beginning, self._last = 0, b"", {}
        self._curves = {kind: {name: array("d") for name in columns} for kind, columns in self._curves.items()}

    def _add(self, event: Event) -> None:
        self._last.setdefault(event["kind"], deque(maxlen=KEPT)).append((self._offset, event))
        columns = self._curves.get(event["kind"])
        if columns is None or (at := number_of(event, "step")) is None:
            return
        # A resumed run repeats steps: what was drawn from this one on did not lead to the present weights.
        undone = bisect_left(columns["step"], at)
        for name, column in columns.items():
            del column[undone:]
            value = number_of(event, name)
            column.append(math.nan if value is None else value)


def _extremes(columns: Sequence[np.ndarray], max_points: int) -> list[int]:
    """Indices of at most `max_points` points: of equal parts of the curve the ends, and each column's extremes."""
    count = len(columns[0])
    num_parts = max_points // (2 * len(columns))
    assert num_parts >= 1, f"max_points is {max_points}; use {2 * len(columns)} or more"
    if count <= max_points:
        return list(range(count))
    kept: set[int] = set()
    for part in np.array_split(np.arange(count), num_parts):
        kept |= {int(part[0]), int(part[-1])}
        for column in columns[1:]:
            values = column[part]
            kept.add(int(part[0] + np.where(np.isnan(values), math.inf, values).argmin()))
            kept.add(int(part[0] + np.where(np.isnan(values), -math.inf, values).argmax()))
    return sorted(kept)
