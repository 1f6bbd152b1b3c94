"""Tab 1, Data processing: inputs, dataset settings, and the status of every clip."""

import gradio as gr
from gradio.blocks import Block

from utils.dataset.settings import PrepareConfig
from utils.dataset.sources.intake import ACCEPTED
from webui import text
from webui.fields import fields_of
from webui.tabs.clip import create_clip_editor
from webui.tabs.field import create_field

SET = "set_"
"""Ids of components that hold a setting of `PrepareConfig` begin so."""
NOT_ASKED = ("project", "base", "language", "output", "input", "engine")
"""Settings that the page gives itself, and what needs a cluster."""


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
    with gr.Row(elem_classes=["actions"]):
        parts["start"] = gr.Button(text.STEP_1, variant="primary", elem_id="step-1")
        parts["cancel"] = gr.Button(text.CANCEL, variant="stop", interactive=False, elem_id="cancel-data")
    parts["progress"] = gr.HTML(elem_id="data-progress")
    return parts


def _report() -> dict[str, Block]:
    return {
        # Hidden rather than a State: its change must reach the page, which then asks for the report.
        "revision": gr.Textbox("", visible="hidden", elem_id="revision", label=text.DATASET),
        "report": gr.HTML(elem_id="report"),
        "lengths": gr.HTML(elem_id="lengths"),
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
    } | create_clip_editor()
