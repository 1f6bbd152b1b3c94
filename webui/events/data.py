"""Events of the tab "data"."""

from webui.events.wiring import Frame


def wire_data(frame: Frame) -> None:
    """Nothing here reacts yet."""
