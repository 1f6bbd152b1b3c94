"""What the log of a run holds."""

from pathlib import Path

from utils.runs.log import Event, read_events


def events_of(run: Path, kind: str | None = None) -> list[Event]:
    """Events in the log of a run's folder, in their order; of one kind, where it is given."""
    return list(read_events(run / "events.jsonl", kind=kind))


def warnings_of(run: Path, source: str | None = None) -> list[str]:
    """Messages of its warnings; those about one thing, where it is given."""
    return [event["message"] for event in events_of(run, "warning") if source in (None, event["source"])]
