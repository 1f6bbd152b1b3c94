"""The bar at the bottom of the page: the four steps to a voice, what runs now with its progress, and Stop."""

import gradio as gr
from gradio.blocks import Block

from webui import text
from webui.views.project import stepper


def create_step_bar() -> dict[str, dict[str, Block]]:
    """Lay out the bar; its components belong to the tabs whose settings they use.

    The next step is the primary button; a step that is not possible yet is disabled, and the line beside it says what
    is missing. Stop stands where the step was while its job runs.
    """
    with gr.Row(elem_id="step-bar"):
        activity = gr.HTML(stepper(None), elem_id="activity")
        with gr.Row(elem_id="step-buttons"):
            data: dict[str, Block] = {
                "start": gr.Button(text.STEP_1, interactive=False, elem_id="step-1", min_width=90),
                "cancel": gr.Button(text.CANCEL, variant="stop", visible=False, elem_id="cancel-data", min_width=90),
            }
            train: dict[str, Block] = {
                "start": gr.Button(text.STEP_2, interactive=False, elem_id="step-2", min_width=90),
                "stop": gr.Button(text.STOP, variant="stop", visible=False, elem_id="stop", min_width=90),
                "export": gr.Button(text.STEP_2_5, interactive=False, elem_id="step-2-5", min_width=90),
                "export_stop": gr.Button(
                    text.STOP_EXPORT, variant="stop", visible=False, elem_id="stop-export", min_width=90
                ),
            }
            listen = gr.Button(text.LISTEN, interactive=False, elem_id="step-listen", min_width=90)
    return {"data": data, "train": train, "project": {"activity": activity, "listen": listen}}
