"""The bar above all tabs: project, language and base."""

import gradio as gr
from gradio.blocks import Block

from webui import text
from webui.markup import tag

STORAGE_KEY = "xtts-studio-project"


def create_project_bar(*, is_empty: bool) -> dict[str, Block]:
    """Lay out the bar.

    Args:
        is_empty: whether there is no project: the sample voice is then offered from the first moment.
    """
    gr.HTML(tag("div", text.OFFLINE, role="status"), elem_id="offline-banner", min_height=0)
    # A fixed secret lets the name survive a restart of the app; a project's name needs no secrecy in its own browser.
    last = gr.BrowserState("", storage_key=STORAGE_KEY, secret=STORAGE_KEY)
    # Custom values are allowed because scripts name projects that this page has not listed; handlers check every name.
    with gr.Row(elem_id="project-bar", equal_height=False):
        new_project = gr.Textbox(
            label=text.NEW_PROJECT,
            placeholder=text.NEW_PROJECT_EXAMPLE,
            max_length=64,
            submit_btn=text.CREATE_PROJECT,
            scale=4,
            min_width=240,
            elem_id="new-project",
        )
        project = gr.Dropdown(
            [],
            allow_custom_value=True,
            label=text.PROJECT,
            scale=3,
            elem_id="project",
            min_width=200,
        )
        language = gr.Dropdown(
            text.LANGUAGES,
            value=None,
            label=text.LANGUAGE,
            allow_custom_value=True,
            scale=2,
            elem_id="language",
        )
        base = gr.Dropdown([], allow_custom_value=True, label=text.BASE, scale=3, elem_id="base", min_width=200)
        manage = gr.Button(text.MANAGE_PROJECT, size="sm", elem_id="manage-project", scale=1, min_width=80)
    with gr.Column(visible=False, elem_id="manage-box", elem_classes=["panel-group"]) as manage_box:
        contents = gr.HTML(elem_id="project-contents")
        new_name = gr.Textbox(label=text.NEW_NAME, info=text.NEW_NAME_HELP, max_length=64, elem_id="new-name")
        with gr.Row():
            rename = gr.Button(text.RENAME, size="sm", elem_id="rename-project", min_width=90)
            duplicate = gr.Button(text.DUPLICATE, size="sm", elem_id="duplicate-project", min_width=90)
            delete = gr.Button(text.DELETE_PROJECT, size="sm", variant="stop", elem_id="delete-project", min_width=90)
            close = gr.Button(text.CLOSE, size="sm", elem_id="close-manage", min_width=90)
    with gr.Column(visible=is_empty, elem_id="welcome", elem_classes=["panel-group"]) as welcome_box:
        gr.Markdown(text.SAMPLE_HELP)
        try_sample = gr.Button(text.TRY_SAMPLE, elem_id="try-sample")
    return {
        "manage": manage,
        "manage_box": manage_box,
        "contents": contents,
        "new_name": new_name,
        "rename": rename,
        "duplicate": duplicate,
        "delete": delete,
        "close": close,
        "welcome": welcome_box,
        "try_sample": try_sample,
        "sample": gr.HTML(elem_id="sample"),
        "project": project,
        "language": language,
        "base": base,
        "new_project": new_project,
        "last": last,
    }
