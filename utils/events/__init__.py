"""A run's event log, events.jsonl: one JSON object a line, readable while it grows."""

from utils.events.follow import EventFollower
from utils.events.newest import Newest
from utils.events.read import Event, events_backwards, last_lines, log_size, number_of, parse_event, read_events, tail
from utils.events.series import Series, series
from utils.events.write import FINAL, KINDS, EventWriter

__all__ = [
    "FINAL",
    "KINDS",
    "Event",
    "EventFollower",
    "EventWriter",
    "Newest",
    "Series",
    "events_backwards",
    "last_lines",
    "log_size",
    "number_of",
    "parse_event",
    "read_events",
    "series",
    "tail",
]
