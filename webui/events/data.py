"""Events of tab 1."""

from webui.events.wiring import Frame, wire
from webui.handlers import data

SHOWN = ("data.uploads", "data.report", "data.lengths", "data.clips", "data.clip_box")
CLIP = ("data.clip_box", "data.clip_title", "data.clip_sound")


def wire_data(frame: Frame) -> None:
    """Uploads, Step 1, cancel, and the report whenever its file changes."""
    wire(
        frame,
        ["data.files:upload"],
        data.upload,
        inputs=["project.project", "data.files"],
        outputs=["data.files", "data.uploads"],
        api_name="data_upload",
    )
    wire(
        frame,
        ["data.clear:click"],
        data.clear,
        inputs=["project.project"],
        outputs=["data.uploads"],
        api_name="data_clear",
    )
    wire(
        frame,
        ["data.start:click"],
        data.start,
        inputs=["project.project", "project.language", "project.base", "data.folder", f"{data.FORM}*"],
        outputs=["data.progress"],
        api_name="data_prepare",
    )
    wire(
        frame,
        ["data.cancel:click"],
        data.cancel,
        inputs=["project.project"],
        outputs=["data.progress"],
        api_name="data_cancel",
    )
    wire(
        frame,
        ["data.revision:change"],
        data.show,
        inputs=["project.project"],
        outputs=SHOWN,
        api_name="data_show",
        public=False,
        queue=False,
        show_progress=False,
    )
    wire(
        frame,
        ["data.clips:select"],
        data.choose,
        inputs=["project.project"],
        outputs=CLIP,
        api_name="data_clip",
        public=False,
        queue=False,
        show_progress=False,
        with_row=True,
    )
