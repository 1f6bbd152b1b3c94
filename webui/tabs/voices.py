"""The library of voices in tab 3: make one, rename, delete."""

import gradio as gr
from gradio.blocks import Block

from webui import text


def create_voice_library() -> dict[str, Block]:
    """Lay out what is folded away until a voice is to be made."""
    parts: dict[str, Block] = {}
    with gr.Accordion(text.LIBRARY_TITLE, open=False, elem_id="voice-library"):
        gr.Markdown(text.LIBRARY_HELP)
        parts["voice_name"] = gr.Textbox(label=text.VOICE_NAME, info=text.VOICE_NAME_HELP, elem_id="voice-name")
        parts["voice_clips"] = gr.Dropdown(
            [],
            value=[],
            multiselect=True,
            allow_custom_value=True,
            label=text.VOICE_CLIPS,
            info=text.VOICE_CLIPS_HELP,
            elem_id="voice-clips",
        )
        parts["voice_make"] = gr.Button(text.MAKE_VOICE, size="sm", elem_id="voice-make")
        parts["kept_voice"] = gr.Dropdown(
            [], value=None, allow_custom_value=True, label=text.KEPT_VOICE, elem_id="kept-voice"
        )
        with gr.Row():
            parts["voice_rename"] = gr.Button(text.RENAME_VOICE, size="sm", elem_id="voice-rename", min_width=120)
            parts["voice_delete"] = gr.Button(text.DELETE_VOICE, size="sm", elem_id="voice-delete", min_width=120)
    return parts
