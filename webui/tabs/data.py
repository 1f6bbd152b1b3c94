"""Layout of the tab "data"."""

import gradio as gr
from gradio.blocks import Block

from webui import text


def create_data_tab() -> dict[str, Block]:
    """Lay out the tab."""
    gr.Markdown(text.COMING)
    return {}
