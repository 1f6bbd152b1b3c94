"""Every click and page load, in one place: which handler runs, and what its values change."""

import functools
import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from utils.errors import UserError
from webui.handlers import projects
from webui.registry import Registry

Handler = Callable[[], dict[str, Any]]


def wire_events(page: gr.Blocks, registry: Registry, *, output: Path) -> None:
    """Connect the components of the page with their handlers.

    Args:
        page: the Blocks whose load counts as an event.
        registry: all components by id.
        output: the folder that holds all projects.
    """
    wire(
        registry,
        [page.load, registry["projects.refresh"].click],
        functools.partial(projects.list_projects, output),
        outputs=["projects.status", "projects.table"],
        api_name="projects_list",
    )


def wire(
    registry: Registry, triggers: Sequence[Callable], handler: Handler, *, outputs: Sequence[str], api_name: str
) -> None:
    """Run `handler` on any of `triggers`; a fault the user can mend becomes a message on the page.

    Args:
        registry: all components by id.
        triggers: events such as `button.click`.
        handler: returns new values by component id.
        outputs: the ids it may return.
        api_name: the stable name under which scripts call it.
    """

    def call() -> dict[Any, Any]:
        try:
            updates = handler()
        except UserError as error:
            # The message may quote what a user typed, and the page shows messages as HTML.
            raise gr.Error(html.escape(str(error)), print_exception=False) from error
        return {registry[key]: value for key, value in updates.items()}

    gr.on(triggers=list(triggers), fn=call, outputs=[registry[key] for key in outputs], api_name=api_name)
