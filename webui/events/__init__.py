"""Bind every click, change, tick and page load to its handler and outputs."""

from webui.events.api import wire_api
from webui.events.data import wire_data
from webui.events.inference import wire_inference
from webui.events.language import wire_language
from webui.events.live import wire_live
from webui.events.project import wire_project
from webui.events.system import wire_system
from webui.events.training import wire_training
from webui.events.wiring import Frame


def wire_events(frame: Frame) -> None:
    """Connect the components of the page with their handlers."""
    wire_project(frame)
    wire_data(frame)
    wire_language(frame)
    wire_training(frame)
    wire_inference(frame)
    wire_system(frame)
    wire_live(frame)
    wire_api(frame)
