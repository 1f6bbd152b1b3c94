"""What the page keeps up to date by itself: one tick for all tabs."""

from webui.events.wiring import Frame


def wire_live(frame: Frame) -> None:
    """Nothing is live yet."""
