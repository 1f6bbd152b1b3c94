"""Events of the tab "system"."""

from webui.events.wiring import Frame


def wire_system(frame: Frame) -> None:
    """Nothing here reacts yet."""
