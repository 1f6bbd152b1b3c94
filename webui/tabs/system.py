"""Tab 4, System: the machine, versions, disk, jobs and bases."""

import gradio as gr

from utils.bases.catalog import DOWNLOADED
from webui import text
from webui.tabs.field import Parts, button, html


def create_system_tab() -> Parts:
    """Lay out the tab."""
    with gr.Row(equal_height=False):
        with gr.Column(min_width=320):
            machine = html("machine")
            bases = html("bases")
            with gr.Column(elem_id="download-base", elem_classes=["panel-group"]):
                base = gr.Dropdown(
                    list(DOWNLOADED),
                    value=DOWNLOADED[0],
                    label=text.DOWNLOAD_BASE,
                    info=text.LICENSE_WORDS,
                    elem_id="base-version",
                )
                accept = gr.Checkbox(False, label=text.ACCEPT_LICENSE, elem_id="accept-license")
                download = button(text.DOWNLOAD, "download")
                progress = html("download-progress")
        with gr.Column(min_width=320):
            settings = html("settings")
            jobs = html("jobs")
            disk = html("disk")
            refresh = button(text.REFRESH, "refresh-system", size="sm")
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
