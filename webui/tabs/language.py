"""The language panel of tab 1: how the base reads the project's language, and how to extend the base."""

import gradio as gr
from gradio.blocks import Block

from utils.dataset.sources.intake import CORPORA
from webui import text


def create_language_panel() -> dict[str, Block]:
    """Lay out the panel."""
    with gr.Accordion(text.LANGUAGE_PANEL, open=False, visible=False, elem_id="language-panel") as panel:
        gr.Markdown(text.LANGUAGE_PANEL_HELP)
        parts: dict[str, Block] = {
            "panel": panel,
            "corpus": gr.File(label=text.CORPUS, file_types=list(CORPORA), height=110, elem_id="language-corpus"),
        }
        parts["look"] = gr.Button(text.LOOK_AT_LANGUAGE, elem_id="language-look")
        parts["found"] = gr.HTML(elem_id="language-found")
        parts["next"] = gr.HTML(elem_id="language-next")
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
            parts["extend"] = gr.Button(text.EXTEND_BASE, elem_id="language-extend", min_width=150)
            parts["latin"] = gr.Button(text.LATIN_BASE, visible=False, elem_id="language-latin", min_width=150)
        parts["progress"] = gr.HTML(elem_id="language-progress")
        parts["adopt"] = gr.Button(text.ADOPT_BASE, visible=False, variant="primary", elem_id="language-adopt")
    return parts
