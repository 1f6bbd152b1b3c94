"""Compose the page: tabs, then the events between them."""

from pathlib import Path

import gradio as gr

from webui import text
from webui.events import wire_events
from webui.registry import Registry
from webui.tabs.commands import create_commands_tab
from webui.tabs.projects import create_projects_tab


def create_ui(output: Path) -> gr.Blocks:
    """The whole page, ready to launch.

    Args:
        output: the folder that holds all projects; it need not exist yet.
    """
    registry = Registry()
    with gr.Blocks(title=text.TITLE, analytics_enabled=False) as page:
        gr.Markdown(f"# {text.TITLE}\n\n{text.INTRO}")
        with gr.Tab(text.PROJECTS_TAB):
            registry.add("projects", create_projects_tab(output))
        with gr.Tab(text.COMMANDS_TAB):
            registry.add("commands", create_commands_tab())
        wire_events(page, registry, output=output)
    return page
