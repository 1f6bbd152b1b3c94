"""Periodic updates of the page: one tick for all tabs."""

from webui.events.wiring import Frame, wire_poll
from webui.handlers import live

INPUTS = ("project.project", "project.base", "train.run")
_WRITTEN = {
    "project": "project language base activity welcome sample listen",
    "data": "progress start cancel revision fix_progress",
    "language": "found progress latin adopt next",
    "train": "gpu memory_plot run start_from badge_* proofs progress loss_plot speed_plot samples log start "
    "enqueue queue queue_group queued stop resume resume_why checkpoint export export_stop export_why "
    "exported",
    "inference": "worker progress take stop server curl server_start server_stop",
    "system": "download_progress",
}
"""What a poll brings, by tab."""
OUTPUTS = (*(f"{tab}.{name}" for tab, names in _WRITTEN.items() for name in names.split()), *live.DEFAULTS)


def wire_live(frame: Frame) -> None:
    """Ask every few seconds, and at once when another project or run is chosen."""
    wire_poll(
        frame,
        "project.project:change project.base:input train.run:change",
        live.poll,
        inputs=INPUTS,
        outputs=OUTPUTS,
        api_name="live",
    )
