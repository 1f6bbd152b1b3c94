"""Compose the page: project bar, tabs, then the events between them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import gradio as gr

from utils.project.projects import list_projects
from utils.project.uploads import DEFAULT_QUOTA_BYTES
from webui import text
from webui.events import wire_events
from webui.events.wiring import Frame
from webui.page import Page
from webui.registry import Registry
from webui.security import Access
from webui.studio import Studio
from webui.tabs.bar import create_step_bar
from webui.tabs.data import create_data_tab
from webui.tabs.inference import create_inference_tab
from webui.tabs.language import create_language_panel
from webui.tabs.project import create_project_bar
from webui.tabs.system import create_system_tab
from webui.tabs.train import create_train_tab
from webui.temporary import KEPT_S, LOOK_S

MAX_WAITING = 64
"""This many requests may wait for their turn; more are refused at once instead of piling up."""

QUEUE_LOOK_S = 0.02
"""How often gradio looks whether something waits; its own millisecond takes a fourteenth of a core from training."""


def create_ui(
    output: Path,
    *,
    input_roots: Sequence[Path] = (),
    quota_bytes: int = DEFAULT_QUOTA_BYTES,
    access: Access | None = None,
) -> Page:
    """The whole page, ready to launch.

    Args:
        output: the folder that holds all projects; it need not exist yet.
        input_roots: folders of this computer, besides `output`, that recordings may be taken from.
        quota_bytes: all uploads of one project together may take so much.
        access: who may use it, for tab 4 to show; its `launch_options` are what holds.
    """
    kept = (LOOK_S, KEPT_S)
    lay_out = partial(_lay_out, is_empty=not list_projects(output))
    with Page(title=text.TITLE, analytics_enabled=False, fill_width=True, delete_cache=kept) as page:
        registry = lay_out()
        page.studio = studio = Studio(
            output=output, input_roots=tuple(input_roots), quota_bytes=quota_bytes, access=access
        )
        wire_events(Frame(page=page, registry=registry, studio=studio))
        page.queue(max_size=MAX_WAITING)
    page._queue.sleep_when_free = QUEUE_LOOK_S
    # Of up to 10,000 events it would keep statistics, made again with each event, for a page that is not served.
    page._queue.ANALYTICS_MAX_EVENTS = 0
    page.lay_out = lay_out
    return page


def _lay_out(*, is_empty: bool) -> Registry:
    """All components of the page by id, in the language that is spoken."""
    registry = Registry()
    gr.Markdown(f"# {text.TITLE}\n\n{text.INTRO}", elem_id="intro")
    registry.add("project", create_project_bar(is_empty=is_empty))
    with gr.Tabs():
        with gr.Tab(text.DATA_TAB, id="data"):
            for tab, components in create_data_tab().items():
                registry.add(tab, components)
            registry.add("language", create_language_panel())
        with gr.Tab(text.TRAIN_TAB, id="train"):
            registry.add("train", create_train_tab())
        with gr.Tab(text.INFERENCE_TAB, id="inference") as inference_tab:
            registry.add("inference", create_inference_tab() | {"tab": inference_tab})
        with gr.Tab(text.SYSTEM_TAB, id="system") as system_tab:
            registry.add("system", create_system_tab() | {"tab": system_tab})
    for tab, components in create_step_bar().items():
        registry.add(tab, components)
    return registry
