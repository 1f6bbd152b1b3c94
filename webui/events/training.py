"""Events of the tab "training"."""

from webui.events.wiring import Frame


def wire_training(frame: Frame) -> None:
    """Nothing here reacts yet."""
