"""The tab that lists the projects of the output folder."""

from pathlib import Path

import gradio as gr
from gradio.blocks import Block

from webui import text


def create_projects_tab(output: Path) -> dict[str, Block]:
    """Lay out the project list.

    Args:
        output: the folder that holds all projects; shown as it is.
    """
    gr.Textbox(str(output), label=text.PROJECTS_FOLDER, info=text.PROJECTS_FOLDER_HELP, interactive=False)
    status = gr.Markdown()
    table = gr.Dataframe(headers=text.PROJECTS_COLUMNS, label=text.PROJECTS_TABLE, type="array", interactive=False)
    refresh = gr.Button(text.REFRESH)
    return {"status": status, "table": table, "refresh": refresh}
