"""The bar above all tabs: the project, and what can be done with it; its language and base."""

import gradio as gr
from gradio.blocks import Block

from webui import text
from webui.markup import tag

STORAGE_KEY = "xtts-studio-project"


def create_project_bar(*, is_empty: bool) -> dict[str, Block]:
    """Lay out the bar: the project, and behind one button a new one and what can be done with this one.

    Args:
        is_empty: whether there is no project: a new one and the sample voice are then offered from the first moment.
    """
    gr.HTML(tag("div", text.OFFLINE, role="status"), elem_id="offline-banner", min_height=0)
    # A fixed secret lets the name survive a restart of the app; a project's name needs no secrecy in its own browser.
    parts: dict[str, Block] = {"last": gr.BrowserState("", storage_key=STORAGE_KEY, secret=STORAGE_KEY)}
    # Custom values are allowed because scripts name projects that this page has not listed; handlers check every name.
    with gr.Row(elem_id="project-bar", elem_classes=["bottom"]):
        parts["project"] = gr.Dropdown(
            [], allow_custom_value=True, label=text.PROJECT, scale=3, elem_id="project", min_width=200
        )
        parts["manage"] = gr.Button(text.MANAGE_PROJECT, elem_id="manage-project", scale=1, min_width=160)
    parts["is_managed"] = gr.State(is_empty)
    with gr.Column(visible=is_empty, elem_id="manage-box", elem_classes=["panel-group"]) as parts["manage_box"]:
        parts["contents"] = gr.HTML(elem_id="project-contents")
        with gr.Row(elem_classes=["bottom"]):
            parts["new_project"] = parts["new_name"] = gr.Textbox(
                label=text.NEW_PROJECT,
                info=text.NEW_PROJECT_HELP,
                placeholder=text.NEW_PROJECT_EXAMPLE,
                max_length=64,
                submit_btn=text.CREATE_PROJECT,
                scale=4,
                min_width=240,
                elem_id="new-project",
            )
            parts["rename"] = gr.Button(text.RENAME, elem_id="rename-project", min_width=90)
            parts["duplicate"] = gr.Button(text.DUPLICATE, elem_id="duplicate-project", min_width=90)
            parts["delete"] = gr.Button(text.DELETE_PROJECT, variant="stop", elem_id="delete-project", min_width=90)
    with gr.Column(visible=is_empty, elem_id="welcome", elem_classes=["panel-group"]) as parts["welcome"]:
        gr.Markdown(text.SAMPLE_HELP)
        parts["try_sample"] = gr.Button(text.TRY_SAMPLE, elem_id="try-sample")
    return parts | {"sample": gr.HTML(elem_id="sample")}


def create_model_choice() -> dict[str, Block]:
    """Lay out the project's language and base, which its dataset is made for."""
    with gr.Row():
        return {
            "language": gr.Dropdown(
                text.LANGUAGES, value=None, label=text.LANGUAGE, allow_custom_value=True, elem_id="language"
            ),
            "base": gr.Dropdown([], allow_custom_value=True, label=text.BASE, elem_id="base", min_width=200),
        }
