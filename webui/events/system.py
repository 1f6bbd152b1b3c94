"""Events of tab 4."""

from webui.events.wiring import Frame, wire
from webui.handlers import system

PANELS = ("machine", "bases", "settings", "jobs", "disk")
SHOWN = (*(f"system.{name}" for name in PANELS), "project.base")


def wire_system(frame: Frame) -> None:
    """Facts when the tab is opened or read again; the download of a base."""
    wire(
        frame,
        "system.tab:select system.refresh:click",
        system.show,
        inputs=["project.project"],
        outputs=SHOWN,
        api_name="system_show",
        # Of either column: on a phone only one of them is in view.
        show_progress_on=[frame.registry["system.machine"], frame.registry["system.disk"]],
    )
    wire(
        frame,
        "system.download:click",
        system.download,
        inputs=["system.version", "system.accept_license"],
        outputs=["system.download_progress"],
        api_name="base_download",
    )
