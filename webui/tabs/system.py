"""Layout of the tab "system"."""

import gradio as gr
from gradio.blocks import Block

from webui import text


def create_system_tab() -> dict[str, Block]:
    """Lay out the tab."""
    gr.Markdown(text.COMING)
    return {}
