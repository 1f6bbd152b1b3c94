"""The bar at the bottom of the page: the four steps to a voice, what runs now with its progress, and Stop."""

import gradio as gr

from webui import text
from webui.tabs.field import Parts, button
from webui.views.project import stepper


def create_step_bar() -> dict[str, Parts]:
    """Lay out the bar; its components belong to the tabs whose settings they use.

    The next step is the primary button; a step that is not possible yet is disabled, and the line beside it says what
    is missing. Stop stands where the step was while its job runs.
    """
    with gr.Row(elem_id="step-bar"):
        activity = gr.HTML(stepper(None), elem_id="activity")
        with gr.Row(elem_id="step-buttons"):
            data: Parts = {
                "start": button(text.STEP_1, "step-1", interactive=False, min_width=90),
                "cancel": button(text.CANCEL, "cancel-data", variant="stop", visible=False, min_width=90),
            }
            train: Parts = {
                "start": button(text.STEP_2, "step-2", interactive=False, min_width=90),
                "stop": button(text.STOP, "stop", variant="stop", visible=False, min_width=90),
                "export": button(text.STEP_2_5, "step-2-5", interactive=False, min_width=90),
                "export_stop": button(text.STOP_EXPORT, "stop-export", variant="stop", visible=False, min_width=90),
            }
            listen = button(text.LISTEN, "step-listen", interactive=False, min_width=90)
    return {"data": data, "train": train, "project": {"activity": activity, "listen": listen}}
