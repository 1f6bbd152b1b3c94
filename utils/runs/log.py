"""A run's event log, events.jsonl: one JSON object a line, readable while it grows."""

from utils.runs.follow import EventFollower
from utils.runs.newest import Newest
from utils.runs.read import Event, events_backwards, last_lines, log_size, number_of, parse_event, read_events, tail
from utils.runs.run_log import RunLog
from utils.runs.series import Series, series
from utils.runs.write import FINAL, KINDS, EventWriter

__all__ = [
    "FINAL",
    "KINDS",
    "Event",
    "EventFollower",
    "EventWriter",
    "Newest",
    "RunLog",
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
