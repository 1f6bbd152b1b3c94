"""Layout of the tab "train"."""

import gradio as gr
from gradio.blocks import Block

from webui import text


def create_train_tab() -> dict[str, Block]:
    """Lay out the tab."""
    gr.Markdown(text.COMING)
    return {}
