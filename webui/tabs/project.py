"""The bar above all tabs: the project, and what can be done with it; its language and base."""

import gradio as gr

from webui import text
from webui.markup import tag
from webui.tabs.field import Parts, button, dropdown, html

STORAGE_KEY = "xtts-studio-project"


def create_project_bar(*, is_empty: bool) -> Parts:
    """Lay out the bar: the project, and behind one button a new one and what can be done with this one.

    Args:
        is_empty: whether there is no project: a new one and the sample voice are then offered from the first moment.
    """
    gr.HTML(tag("div", text.OFFLINE, role="status"), elem_id="offline-banner", min_height=0)
    # A fixed secret lets the name survive a restart of the app; a project's name needs no secrecy in its own browser.
    parts: Parts = {"last": gr.BrowserState("", storage_key=STORAGE_KEY, secret=STORAGE_KEY)}
    # Scripts name projects that this page has not listed; handlers check every name.
    with gr.Row(elem_id="project-bar", elem_classes=["bottom"]):
        parts["project"] = dropdown(text.PROJECT, "project", scale=3, min_width=200)
        parts["manage"] = button(text.MANAGE_PROJECT, "manage-project", scale=1, min_width=160)
    parts["is_managed"] = gr.State(is_empty)
    with gr.Column(visible=is_empty, elem_id="manage-box", elem_classes=["panel-group"]) as parts["manage_box"]:
        parts["contents"] = html("project-contents")
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
            parts["rename"] = button(text.RENAME, "rename-project", min_width=90)
            parts["duplicate"] = button(text.DUPLICATE, "duplicate-project", min_width=90)
            parts["delete"] = button(text.DELETE_PROJECT, "delete-project", variant="stop", min_width=90)
    with gr.Column(visible=is_empty, elem_id="welcome", elem_classes=["panel-group"]) as parts["welcome"]:
        gr.Markdown(text.SAMPLE_HELP)
        parts["try_sample"] = button(text.TRY_SAMPLE, "try-sample")
    return parts | {"sample": html("sample")}


def create_model_choice() -> Parts:
    """Lay out the project's language and base, which its dataset is made for."""
    with gr.Row():
        return {
            "language": dropdown(text.LANGUAGE, "language", choices=text.LANGUAGES),
            "base": dropdown(text.BASE, "base", min_width=200),
        }
