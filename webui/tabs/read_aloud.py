"""Record sentences by reading them aloud, in tab 1."""

import gradio as gr

from webui import text
from webui.tabs.field import Parts, button, html


def create_reader() -> Parts:
    """Lay out one sentence, the microphone, what was found in the recording, and what can be done next."""
    with gr.Accordion(text.READ_ALOUD, open=False, elem_id="read-aloud") as box:
        parts: Parts = {"read_box": box, "read_said": html("read-said"), "read_sentence": gr.State("")}
        with gr.Column() as parts["read_body"]:
            parts["read_words"] = gr.Textbox(
                label=text.READ_WORDS,
                info=text.READ_WORDS_HELP,
                placeholder=text.READ_OWN,
                elem_id="read-words",
            )
            parts["read_sound"] = sound = gr.Audio(
                sources="microphone",
                type="filepath",
                editable=False,
                buttons=[],
                label=text.READ_SOUND,
                elem_id="read-sound",
            )
            with gr.Row():
                gr.ClearButton(sound, value=text.READ_AGAIN, elem_id="read-again")
                parts["read_next"] = button(text.READ_NEXT, "read-next")
                parts["read_keep"] = button(text.READ_KEEP, "read-keep", visible=False)
    return parts
