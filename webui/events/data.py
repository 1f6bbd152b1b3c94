"""Events of tab 1."""

from typing import Any

from webui.events.wiring import QUIET, Frame, Handler, wire
from webui.handlers import clip_list, clips, data, read_aloud, recut

BUTTONS = tuple(f"data.{name}" for name in ("save", "exclude", "restore", "accept", "merge"))
CHOSEN = ("data.clip", "data.shown")
CLIP = ("data.clip_box", "data.clip_title", "data.clip_sound", "data.waveform", *BUTTONS, *CHOSEN, *clips.TYPED)
SHOWN = (*data.UPLOADS, "data.report", "data.lengths", "language.panel", *clip_list.LIST, *CLIP)
CUTS: dict[str, tuple[Handler, tuple[str, ...]]] = {
    "trim": (clips.trim, ("data.start_s", "data.end_s")),
    "recut": (clips.move_edges, recut.EDGES),
    "split": (clips.split, ("data.at_s", "data.text_before", "data.text_after")),
    "merge": (clips.merge, ()),
    "accept": (clips.accept, ()),
}
"""Fixes that a process of their own does: handler, and what it needs beside the clip."""


def wire_data(frame: Frame) -> None:
    """Uploads, Step 1, cancel, and the report whenever its file changes."""
    wire(
        frame,
        "data.files:upload",
        data.upload,
        inputs=["project.project", "data.files"],
        outputs=["data.files", *data.UPLOADS],
        api_name="data_upload",
    )
    wire(
        frame,
        "data.clear:click",
        data.clear,
        inputs=["project.project"],
        outputs=data.UPLOADS,
        api_name="data_clear",
    )
    wire(
        frame,
        "data.remove:click",
        data.remove,
        inputs=["project.project", "data.chosen_files"],
        outputs=data.UPLOADS,
        api_name="data_remove",
    )
    wire(
        frame,
        f"{data.FORM}transcriber:change",
        data.offer_check,
        inputs=[f"{data.FORM}transcriber"],
        outputs=[f"{data.FORM}check_transcripts"],
        api_name="data_offer_check",
        **QUIET,
    )
    wire(
        frame,
        "data.start:click",
        data.start,
        inputs=["project.project", "project.language", "project.base", "data.folder", f"{data.FORM}*"],
        outputs=["data.progress"],
        api_name="data_prepare",
    )
    wire(
        frame,
        "data.cancel:click",
        data.cancel,
        inputs=["project.project"],
        outputs=["data.progress"],
        api_name="data_cancel",
    )
    wire(
        frame,
        # Project and base are parts of it, so that opening a project fills the tab once and not for each of them.
        "data.revision:change",
        data.show,
        inputs=["project.project", "project.base", *CHOSEN, *clip_list.QUERY],
        outputs=SHOWN,
        api_name="data_show",
        trigger_mode="always_last",
        **QUIET,
    )
    _wire_reading(frame)
    _wire_clips(frame)


def _wire_reading(frame: Frame) -> None:
    """Read sentences aloud, one after the other."""
    options: dict[str, Any] = {"inputs": read_aloud.INPUTS, "outputs": read_aloud.OUTPUTS, "public": False}
    shows = "data.read_box:expand project.project:change project.language:change"
    wire(frame, shows, read_aloud.show, api_name="read_show", **options | QUIET)
    wire(frame, "data.read_next:click", read_aloud.go_on, api_name="read_next", **options | QUIET)
    # One process checks, and one recording after the other.
    options |= {
        "concurrency_id": "read-aloud",
        "concurrency_limit": 1,
        "show_progress_on": frame.registry["data.read_said"],
    }
    for name, trigger, handler in (
        ("read_load", "data.read_box:expand", read_aloud.load),
        ("read_check", "data.read_sound:stop_recording", read_aloud.check),
        ("read_keep", "data.read_keep:click", read_aloud.keep),
    ):
        wire(frame, trigger, handler, api_name=name, **options)


def _wire_clips(frame: Frame) -> None:
    """Find, choose, edit and walk through the clips."""
    for name, triggers, handler in (
        ("clips_find", "data.find:change data.kind:input data.order:input", clip_list.find),
        ("clips_page_back", "data.page_back:click", clip_list.turn_back),
        ("clips_page_on", "data.page_on:click", clip_list.turn_on),
    ):
        wire(
            frame,
            triggers,
            handler,
            inputs=["project.project", *clip_list.QUERY],
            outputs=clip_list.LIST,
            api_name=name,
            trigger_mode="always_last",
            **QUIET,
        )
    for name, change in (
        ("exclude_found", clip_list.exclude_found),
        ("restore_found", clip_list.restore_found),
        ("undo", clip_list.undo),
    ):
        wire(
            frame,
            f"data.{name}:click",
            change,
            inputs=["project.project", *clip_list.QUERY, *CHOSEN],
            outputs=[*clip_list.LIST, *CLIP],
            api_name=f"clips_{name}",
        )
    wire(
        frame,
        "data.accept_found:click",
        clip_list.accept_found,
        inputs=["project.project", *clip_list.QUERY],
        outputs=["data.fix_progress"],
        api_name="clips_accept_found",
    )
    wire(
        frame,
        "data.clips:select",
        clips.choose,
        inputs=["project.project"],
        outputs=CLIP,
        api_name="clip_choose",
        with_row=True,
        **QUIET,
    )
    wire(
        frame,
        "",
        clips.save,
        inputs=["project.project", "data.clip", "data.transcript", "data.shown"],
        outputs=CLIP,
        api_name="clip_save",
    )
    wire(
        frame,
        "data.save:click",
        clips.apply,
        inputs=["project.project", *CHOSEN, "data.transcript", "data.at_s", *recut.EDGES],
        outputs=CLIP,
        api_name="clip_apply",
        public=False,
    )
    acts: dict[str, Handler] = {
        "exclude": clips.exclude,
        "restore": clips.restore,
        "previous": clips.go_back,
        "next": clips.go_on,
    }
    for button, act in acts.items():
        wire(
            frame,
            f"data.{button}:click",
            act,
            inputs=["project.project", *CHOSEN],
            outputs=CLIP,
            api_name=f"clip_{button}",
            public=button in ("exclude", "restore"),
        )
    for name, (cut, needed) in CUTS.items():
        wire(
            frame,
            f"data.{name}:click" if name in ("merge", "accept") else "",
            cut,
            inputs=["project.project", "data.clip", *needed, "data.shown"],
            outputs=["data.fix_progress"],
            api_name=f"clip_{name}",
        )
