"""API endpoints for scripts that no component of the page uses."""

from typing import Any

import gradio as gr

from utils.errors import UserError
from webui.events.wiring import Frame
from webui.handlers import status as handlers
from webui.handlers.project import names
from webui.registry import script_error


def wire_api(frame: Frame) -> None:
    """The list of projects, and the state of one."""

    def projects_list() -> list[str]:
        """Names of all projects."""
        return names(frame.studio)

    def status(project: str) -> dict[str, Any]:
        """What there is of a project, and how each of its jobs is doing, the newest first."""
        try:
            return handlers.status(frame.studio, project)
        except UserError as error:
            raise script_error(error) from error

    gr.api(projects_list, api_name="projects_list", queue=False)
    gr.api(status, api_name="status", queue=False)
