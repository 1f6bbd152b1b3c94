"""Tab 1, Data processing: inputs, dataset settings, and the status of every clip."""

import gradio as gr

from utils.dataset.settings import PrepareConfig
from webui import text
from webui.fields import fields_of
from webui.tabs.clip import create_clip_editor
from webui.tabs.field import Parts, button, create_field, dropdown, hidden, html
from webui.tabs.project import create_model_choice
from webui.tabs.read_aloud import create_reader

SET = "set_"
"""Ids of components that hold a setting of `PrepareConfig` begin so."""
NOT_ASKED = ("project", "base", "language", "output", "input", "engine")
"""Settings that the page gives itself, and what needs a cluster."""
OFFERED = ("eval_fraction", "denoise")
"""What people change; all others are those of scripts, and of the command's `--config`."""

WHISPER_SIZES = ("tiny", "base", "small", "medium", "large-v3")


def create_data_tab() -> dict[str, Parts]:
    """Lay out the tab, with the project's language and base above its files."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=320):
            model = create_model_choice()
            parts = _input()
        with gr.Column(scale=6, min_width=320):
            # Hidden rather than a State: its change must reach the page, which then asks for the report.
            parts["revision"] = hidden(text.DATASET, elem_id="revision")
            parts["report"] = html("report")
            parts["lengths"] = html("lengths")
    with gr.Column(elem_id="clips"):
        parts |= _clips()
    return {"project": model, "data": parts}


def _input() -> Parts:
    parts: Parts = {
        "files": gr.File(label=text.UPLOAD, file_count="multiple", height=170, elem_id="upload"),
        "uploads": html("uploads"),
    }
    whisper = dropdown(
        text.label("transcriber"),
        "data-transcriber",
        choices=[(text.when_empty("transcriber"), ""), *WHISPER_SIZES],
        value="",
        info=text.HELPS["transcriber"],
    )
    parts |= create_reader()
    with gr.Accordion(text.OPTIONS, open=False, elem_id="data-options"):
        parts["folder"] = gr.Textbox(
            label=text.SERVER_FOLDER, info=text.SERVER_FOLDER_HELP, placeholder="/data/recordings", elem_id="folder"
        )
        with gr.Row(elem_classes=["fields"]):
            for name, field in fields_of(PrepareConfig).items():
                if name not in NOT_ASKED:
                    options = {"elem_id": f"data-{name}".replace("_", "-"), "visible": name in OFFERED}
                    made = whisper if name == "transcriber" else create_field(field, min_width=150, **options)
                    parts[SET + name] = made
        with gr.Column(visible=False, elem_id="uploaded-files") as parts["files_box"]:
            parts["files_list"] = html("uploaded-list")
            parts["chosen_files"] = dropdown(
                text.CHOOSE_FILES, "chosen-files", value=[], multiselect=True, info=text.CHOOSE_FILES_HELP
            )
            with gr.Row():
                parts["remove"] = button(text.REMOVE_FILES, "remove-files", size="sm", min_width=120)
                parts["clear"] = button(text.CLEAR_UPLOADS, "clear-uploads", size="sm", min_width=120)
    parts["progress"] = html("data-progress")
    return parts


def _clips() -> Parts:
    with gr.Column(visible=False, elem_id="clip-list") as clip_list:
        parts: Parts = {"list": clip_list}
        with gr.Accordion(text.CHANGE_FOUND, open=False, elem_id="change-found"):
            with gr.Row(elem_classes=["bottom"]):
                parts["find"] = gr.Textbox(
                    label=text.FIND_CLIPS,
                    placeholder=text.FIND_CLIPS_HELP,
                    elem_id="find-clips",
                    min_width=200,
                    scale=3,
                )
                parts["kind"] = dropdown(
                    text.CLIP_KIND, "clip-kind", choices=text.clip_kinds({"": 0}), value="", min_width=180, scale=2
                )
                parts["order"] = gr.Dropdown(
                    text.CLIP_ORDERS,
                    value="prepared",
                    label=text.CLIP_ORDER,
                    elem_id="clip-order",
                    min_width=150,
                    scale=1,
                )
            gr.Markdown(text.CHANGE_FOUND_HELP)
            with gr.Row():
                for name, words in (
                    ("exclude_found", text.EXCLUDE_FOUND),
                    ("restore_found", text.RESTORE_FOUND),
                    ("accept_found", text.ACCEPT_FOUND),
                ):
                    parts[name] = button(words, name.replace("_", "-"), size="sm", visible=False, min_width=120)
        # Beside the table, so that a clip is seen where it was selected; on a phone above it.
        with gr.Row(equal_height=False, elem_id="clip-table-row"):
            with gr.Column(scale=6, min_width=320):
                parts["clips"] = gr.Dataframe(
                    headers=text.CLIP_COLUMNS,
                    datatype=["html", "str", "str", "number", "str", "str"],
                    type="array",
                    label=text.CLIPS_TABLE,
                    interactive=False,
                    wrap=True,
                    max_height=420,
                    column_widths=["12%", "19%", "32%", "13%", "10%", "14%"],
                    elem_id="clips-table",
                    buttons=[],
                )
            with gr.Column(
                scale=5, min_width=320, visible=False, elem_id="clip-box", elem_classes=["panel-group"]
            ) as box:
                parts |= {"clip_box": box} | create_clip_editor()
        with gr.Row(elem_classes=["bottom"]):
            parts["found"] = html("clips-found", min_height=0)
            parts["page_back"] = button(text.PAGE_BACK, "clips-back", size="sm", min_width=90, visible=False)
            parts["page_on"] = button(text.PAGE_ON, "clips-on", size="sm", min_width=90, visible=False)
            parts["undo"] = button(text.undo_edits(0), "clips-undo", size="sm", min_width=140, visible=False)
        parts["page"] = gr.Number(
            0, precision=0, visible="hidden", elem_classes=["internal"], label=text.CLIPS, elem_id="clips-page"
        )
    return parts | {"fix_progress": html("fix-progress")}
