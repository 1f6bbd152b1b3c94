"""Events of the tab "inference"."""

from webui.events.wiring import Frame


def wire_inference(frame: Frame) -> None:
    """Nothing here reacts yet."""
