"""The tab that shows how to do each step on the command line."""

import gradio as gr
from gradio.blocks import Block

from webui import text


def create_commands_tab() -> dict[str, Block]:
    """Lay out one copyable command a step; nothing here reacts, so nothing is returned."""
    gr.Markdown(text.COMMANDS_HELP)
    for label, command in text.COMMANDS:
        gr.Code(command, language="shell", label=label, interactive=False, lines=1)
    return {}
