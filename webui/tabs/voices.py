"""The library of voices in tab 3: choose one, make one, rename, delete."""

import gradio as gr

from webui import text
from webui.tabs.field import Parts, button, dropdown


def create_voice_library() -> Parts:
    """Lay out what is shown when the voice is one of the library: choose it, or make, rename and delete one."""
    with gr.Column(visible=False, elem_id="voice-library", elem_classes=["panel-group"]) as box:
        chosen = dropdown(text.LIBRARY_VOICE, "library-voice")
        parts: Parts = {"library_box": box, "library_voice": chosen, "kept_voice": chosen}
        parts["voice_clips"] = dropdown(
            text.VOICE_CLIPS, "voice-clips", value=[], multiselect=True, info=text.VOICE_CLIPS_HELP
        )
        parts["voice_name"] = gr.Textbox(label=text.VOICE_NAME, info=text.VOICE_NAME_HELP, elem_id="voice-name")
        with gr.Row():
            for name, words in (
                ("make", text.MAKE_VOICE),
                ("rename", text.RENAME_VOICE),
                ("delete", text.DELETE_VOICE),
            ):
                parts[f"voice_{name}"] = button(words, f"voice-{name}", size="sm", min_width=120)
    return parts
