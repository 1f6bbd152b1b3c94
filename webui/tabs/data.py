"""Tab 1, Data processing: recordings in, dataset out, and every clip accounted for."""

import gradio as gr
from gradio.blocks import Block

from utils.config import PrepareConfig
from utils.intake import ACCEPTED
from webui import text
from webui.fields import fields_of
from webui.tabs.field import create_field

SET = "set_"
"""Ids of components that hold a setting of `PrepareConfig` begin so."""
NOT_ASKED = ("project", "base", "language", "output", "input")
"""Settings that the page gives itself."""


def create_data_tab() -> dict[str, Block]:
    """Lay out the tab."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=320):
            parts = _input()
        with gr.Column(scale=6, min_width=320):
            parts |= _report()
    with gr.Column(elem_id="clips"):
        parts |= _clips()
    return parts


def _input() -> dict[str, Block]:
    parts: dict[str, Block] = {
        "files": gr.File(
            label=text.UPLOAD, file_count="multiple", file_types=list(ACCEPTED), height=170, elem_id="upload"
        ),
        "uploads": gr.HTML(elem_id="uploads"),
    }
    parts["clear"] = gr.Button(text.CLEAR_UPLOADS, size="sm", elem_id="clear-uploads")
    with gr.Accordion(text.SERVER_FOLDER, open=False):
        parts["folder"] = gr.Textbox(
            label=text.SERVER_FOLDER, info=text.SERVER_FOLDER_HELP, placeholder="/data/recordings", elem_id="folder"
        )
    with gr.Accordion(text.OPTIONS, open=False, elem_id="data-options"), gr.Row(elem_classes=["fields"]):
        for name, field in fields_of(PrepareConfig).items():
            if name not in NOT_ASKED:
                parts[SET + name] = create_field(field, min_width=150, elem_id=f"data-{name}".replace("_", "-"))
    parts["start"] = gr.Button(text.STEP_1, variant="primary", size="lg", elem_id="step-1")
    parts["cancel"] = gr.Button(text.CANCEL, variant="stop", size="sm", interactive=False, elem_id="cancel-data")
    parts["progress"] = gr.HTML(elem_id="data-progress")
    return parts


def _report() -> dict[str, Block]:
    return {
        # Hidden rather than a State: its change must reach the page, which then asks for the report.
        "revision": gr.Textbox("", visible="hidden", elem_id="revision", label=text.DATASET),
        "report": gr.HTML(elem_id="report"),
        "lengths": gr.BarPlot(
            x="seconds",
            y="clips",
            x_title=text.SECONDS,
            y_title=text.CLIPS,
            height=200,
            label=text.LENGTHS,
            elem_id="lengths",
            visible=False,
        ),
    }


def _clips() -> dict[str, Block]:
    return {
        "clips": gr.Dataframe(
            headers=text.CLIP_COLUMNS,
            datatype=["str", "str", "str", "number", "str", "str"],
            type="array",
            label=text.CLIPS_TABLE,
            interactive=False,
            show_search="filter",
            max_height=360,
            column_widths=["16%", "9%", "14%", "9%", "8%", "44%"],
            visible=False,
            elem_id="clips-table",
            buttons=["fullscreen"],
        ),
    } | _clip()


def _clip() -> dict[str, Block]:
    """One clip: listen to it."""
    with gr.Column(visible=False, elem_id="clip", elem_classes=["panel-group"]) as box:
        title = gr.HTML(elem_id="clip-title")
        sound = gr.Audio(
            label=text.CLIP_SOUND, interactive=False, type="filepath", elem_id="clip-sound", buttons=["download"]
        )
        transcript = gr.Textbox(
            label=text.TRANSCRIPT, info=text.TRANSCRIPT_HELP, lines=2, max_lines=6, elem_id="clip-text"
        )
        with gr.Row():
            save = gr.Button(text.SAVE_CLIP, variant="primary", size="sm", elem_id="clip-save", min_width=100)
            exclude = gr.Button(text.EXCLUDE_CLIP, size="sm", elem_id="clip-exclude", min_width=100)
            restore = gr.Button(text.RESTORE_CLIP, size="sm", elem_id="clip-restore", min_width=100)
            previous = gr.Button(text.PREVIOUS_CLIP, size="sm", elem_id="clip-previous", min_width=100)
            following = gr.Button(text.NEXT_CLIP, size="sm", elem_id="clip-next", min_width=100)
        # Which clip is shown; hidden rather than a State, so that scripts can name one too.
        name = gr.Textbox("", visible="hidden", label=text.CLIP, elem_id="clip-name")
    return {
        "clip_box": box,
        "clip_title": title,
        "clip_sound": sound,
        "transcript": transcript,
        "save": save,
        "exclude": exclude,
        "restore": restore,
        "previous": previous,
        "next": following,
        "clip": name,
    }
