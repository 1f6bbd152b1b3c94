"""Downsample curves for plots to a few hundred points, keeping first, last, lowest and highest values.

After a resume, a run repeats the steps since its checkpoint. A curve shows the steps that led to the current weights:
of repeated steps the later ones count, and discarded steps are omitted.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from utils.runs.follow import EventFollower
from utils.runs.read import Event, events_backwards, is_number, number_of, read_events

Columns = dict[str, list[Any]]
"""Equally long lists by field; a value that was no finite number is None."""


def series(path: Path, kind: str, fields: Sequence[str], max_points: int = 500, *, x: str = "step") -> Columns:
    """The curve of a log as it is now; to draw it again and again while it grows, keep a `Series`.

    Args:
        path: an events.jsonl; a missing file gives empty columns.
        kind: events to draw.
        fields: numbers to draw; events without one of them give None there.
        max_points: the columns are at most this long.
        x: the field that orders the events, in rising order but for resumes.

    Returns:
        The columns `x` and `fields`.
    """
    return Series(path, kind, fields, max_points, x=x).columns()


class Series:
    """A curve that reads only what is new in its log each time; see `series` for its arguments."""

    def __init__(self, path: Path, kind: str, fields: Sequence[str], max_points: int = 500, *, x: str = "step") -> None:
        self.path, self.kind, self.fields, self.x = path, kind, tuple(fields), x
        # A bucket gives at most its first and last event, and for each field its lowest and highest.
        self._num_buckets = max_points // (2 + 2 * len(self.fields))
        assert self._num_buckets >= 1, f"max_points is {max_points}; use {2 + 2 * len(self.fields)} or more"
        self._follower = EventFollower(path, kind=kind)
        self._grid = _Grid(self._num_buckets, self.fields, x)

    def columns(self) -> Columns:
        """The columns `x` and `fields` of the log as it is now."""
        if not self._take_new():
            self._rebuild()
        events = list(self._grid.events())
        return {name: [number_of(event, name) for event in events] for name in (self.x, *self.fields)}

    def _take_new(self) -> bool:
        """Add what was appended; False when the curve must be drawn anew: another log, or a resumed run."""
        before = self._follower.num_restarts
        while events := self._follower.new(limit=1_000):
            if self._follower.num_restarts != before:
                return False
            for event in events:
                if is_number(event.get(self.x)) and not self._grid.append(event):
                    return False
        return self._follower.num_restarts == before

    def _rebuild(self) -> None:
        """Read the log from its end: there, a step counts only when it lies before all that were seen."""
        for _ in iter(lambda: self._follower.new(limit=1_000), []):
            pass
        self._grid = _Grid(self._num_buckets, self.fields, self.x)
        lineage = self._lineage(self._follower.offset)
        last = next(lineage, None)
        if last is None:
            return
        others = (event[self.x] for event in read_events(self.path, kind=self.kind) if is_number(event.get(self.x)))
        self._grid.span(min(next(others, last[self.x]), last[self.x]), last[self.x])
        self._grid.prepend(last)
        for event in lineage:
            self._grid.prepend(event)

    def _lineage(self, end: int) -> Iterator[Event]:
        """Events that led to the present, the newest first."""
        lowest = math.inf
        for event in events_backwards(self.path, kind=self.kind, end=end):
            if is_number(event.get(self.x)) and event[self.x] < lowest:
                lowest = event[self.x]
                yield event


class _Bucket:
    """What is kept of neighboring events."""

    def __init__(self, event: Event, fields: Sequence[str]) -> None:
        self.first = self.last = event
        known = {name: event for name in fields if is_number(event.get(name))}
        self.lowest, self.highest = known, dict(known)

    def add(self, event: Event, fields: Sequence[str]) -> None:
        """Widen the bucket by an event; in which order its extremes came does not matter."""
        for name in fields:
            value = event.get(name)
            if is_number(value):
                if name not in self.lowest or value < self.lowest[name][name]:
                    self.lowest[name] = event
                if name not in self.highest or value > self.highest[name][name]:
                    self.highest[name] = event

    def events(self, x: str) -> list[Event]:
        kept = [self.first, self.last, *self.lowest.values(), *self.highest.values()]
        return [event for _, event in sorted({event[x]: event for event in kept}.items())]


class _Grid:
    """Buckets of equal width in `x`; when the events leave the grid, each two neighbors become one."""

    def __init__(self, num_buckets: int, fields: Sequence[str], x: str) -> None:
        self._num_buckets, self._fields, self._x = num_buckets, fields, x
        self._buckets: dict[int, _Bucket] = {}
        self._base, self._width = 0.0, 1.0
        self._last = -math.inf

    def span(self, first: float, last: float) -> None:
        """Lay the grid over this range; only while it is empty."""
        assert not self._buckets
        self._base, self._last = first, last
        # A little wider, so that the last event lies inside.
        self._width = (last - first) / self._num_buckets * (1 + 1e-9) or 1.0

    def append(self, event: Event) -> bool:
        """Add an event after all others; False when it does not come after them."""
        at = event[self._x]
        if at <= self._last:
            return False
        if not self._buckets:
            self._base = at
        while (index := self._index(at)) >= self._num_buckets:
            self._halve()
        self._last = at
        self._add(index, event).last = event
        return True

    def prepend(self, event: Event) -> None:
        """Add an event before all others."""
        self._add(self._index(event[self._x]), event).first = event

    def events(self) -> Iterator[Event]:
        for _, bucket in sorted(self._buckets.items()):
            yield from bucket.events(self._x)

    def _index(self, at: float) -> int:
        return max(0, int((at - self._base) / self._width))

    def _add(self, index: int, event: Event) -> _Bucket:
        bucket = self._buckets.get(index)
        if bucket is None:
            bucket = self._buckets[index] = _Bucket(event, self._fields)
        else:
            bucket.add(event, self._fields)
        return bucket

    def _halve(self) -> None:
        """Double the width: each two neighbors become one."""
        self._width *= 2
        events = list(self.events())
        self._buckets.clear()
        for event in events:
            self._add(self._index(event[self._x]), event).last = event
