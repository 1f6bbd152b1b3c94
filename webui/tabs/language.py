"""The language panel of tab 1: how the base reads the project's language, and how to extend the base."""

import gradio as gr

from utils.dataset.sources.intake import CORPORA
from webui import text
from webui.tabs.field import Parts, button, html


def create_language_panel() -> Parts:
    """Lay out the panel."""
    with gr.Accordion(text.LANGUAGE_PANEL, open=False, visible=False, elem_id="language-panel") as panel:
        gr.Markdown(text.LANGUAGE_PANEL_HELP)
        parts: Parts = {
            "panel": panel,
            "corpus": gr.File(label=text.CORPUS, file_types=list(CORPORA), height=110, elem_id="language-corpus"),
        }
        parts["look"] = button(text.LOOK_AT_LANGUAGE, "language-look")
        parts["found"] = html("language-found")
        parts["next"] = html("language-next")
        with gr.Row(elem_classes=["bottom"]):
            parts["new_tokens"] = gr.Number(
                2_000,
                precision=0,
                minimum=0,
                label=text.NEW_TOKENS,
                info=text.NEW_TOKENS_HELP,
                elem_id="new-tokens",
                min_width=150,
            )
            parts["extend"] = button(text.EXTEND_BASE, "language-extend", min_width=150)
            parts["latin"] = button(text.LATIN_BASE, "language-latin", visible=False, min_width=150)
        parts["progress"] = html("language-progress")
        parts["adopt"] = button(text.ADOPT_BASE, "language-adopt", visible=False, variant="primary")
    return parts
