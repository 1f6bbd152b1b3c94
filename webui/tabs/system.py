"""Tab 4, System: the machine, versions, disk, jobs and bases."""

import gradio as gr
from gradio.blocks import Block

from utils.bases.catalog import DOWNLOADED
from webui import text


def create_system_tab() -> dict[str, Block]:
    """Lay out the tab."""
    with gr.Row(equal_height=False):
        with gr.Column(min_width=320):
            machine = gr.HTML(elem_id="machine")
            bases = gr.HTML(elem_id="bases")
            with gr.Column(elem_id="download-base", elem_classes=["panel-group"]):
                base = gr.Dropdown(
                    list(DOWNLOADED),
                    value=DOWNLOADED[0],
                    label=text.DOWNLOAD_BASE,
                    info=text.LICENSE_WORDS,
                    elem_id="base-version",
                )
                accept = gr.Checkbox(False, label=text.ACCEPT_LICENSE, elem_id="accept-license")
                download = gr.Button(text.DOWNLOAD, elem_id="download")
                progress = gr.HTML(elem_id="download-progress")
        with gr.Column(min_width=320):
            settings = gr.HTML(elem_id="settings")
            jobs = gr.HTML(elem_id="jobs")
            disk = gr.HTML(elem_id="disk")
            refresh = gr.Button(text.REFRESH, size="sm", elem_id="refresh-system")
    return {
        "refresh": refresh,
        "machine": machine,
        "bases": bases,
        "version": base,
        "accept_license": accept,
        "download": download,
        "download_progress": progress,
        "settings": settings,
        "jobs": jobs,
        "disk": disk,
    }
