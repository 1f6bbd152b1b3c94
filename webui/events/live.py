"""Periodic updates of the page: one tick for all tabs."""

from webui.events.wiring import Frame, wire_poll
from webui.handlers import live

INPUTS = ("project.project", "project.base", "train.run")
OUTPUTS = (
    "project.project",
    "project.language",
    "project.base",
    "project.activity",
    "project.welcome",
    "project.sample",
    "project.listen",
    "data.progress",
    "data.start",
    "data.cancel",
    "data.revision",
    "data.fix_progress",
    "language.found",
    "language.progress",
    "language.latin",
    "language.adopt",
    "language.next",
    "train.gpu",
    "train.memory_plot",
    "train.run",
    "train.start_from",
    *live.DEFAULTS,
    "train.badge_*",
    "train.proofs",
    "train.progress",
    "train.loss_plot",
    "train.speed_plot",
    "train.samples",
    "train.log",
    "train.start",
    "train.enqueue",
    "train.queue",
    "train.queue_group",
    "train.queued",
    "train.stop",
    "train.resume",
    "train.resume_why",
    "train.checkpoint",
    "train.export",
    "train.export_stop",
    "train.export_why",
    "train.exported",
    "inference.worker",
    "inference.progress",
    "inference.take",
    "inference.stop",
    "inference.server",
    "inference.curl",
    "inference.server_start",
    "inference.server_stop",
    "system.download_progress",
)


def wire_live(frame: Frame) -> None:
    """Ask every few seconds, and at once when another project or run is chosen."""
    wire_poll(
        frame,
        ["project.project:change", "project.base:change", "train.run:change"],
        live.poll,
        inputs=INPUTS,
        outputs=OUTPUTS,
        api_name="live",
    )
