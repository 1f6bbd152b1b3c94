"""The library of voices in tab 3: choose one, make one, rename, delete."""

import gradio as gr
from gradio.blocks import Block

from webui import text


def create_voice_library() -> dict[str, Block]:
    """Lay out what is shown when the voice is one of the library: choose it, or make, rename and delete one."""
    with gr.Column(visible=False, elem_id="voice-library", elem_classes=["panel-group"]) as box:
        chosen = gr.Dropdown([], value=None, allow_custom_value=True, label=text.LIBRARY_VOICE, elem_id="library-voice")
        parts: dict[str, Block] = {"library_box": box, "library_voice": chosen, "kept_voice": chosen}
        parts["voice_clips"] = gr.Dropdown(
            [],
            value=[],
            multiselect=True,
            allow_custom_value=True,
            label=text.VOICE_CLIPS,
            info=text.VOICE_CLIPS_HELP,
            elem_id="voice-clips",
        )
        parts["voice_name"] = gr.Textbox(label=text.VOICE_NAME, info=text.VOICE_NAME_HELP, elem_id="voice-name")
        with gr.Row():
            for name, words in (
                ("make", text.MAKE_VOICE),
                ("rename", text.RENAME_VOICE),
                ("delete", text.DELETE_VOICE),
            ):
                parts[f"voice_{name}"] = gr.Button(words, size="sm", elem_id=f"voice-{name}", min_width=120)
    return parts
