"""One clip of tab 1: listen, edit its transcript, exclude, split, trim, merge it with the next."""

import gradio as gr

from webui import text
from webui.tabs.field import Parts, button, hidden, html


def create_clip_editor() -> Parts:
    """Lay out what is shown once a clip was chosen in the table."""
    parts: Parts = {"clip_title": html("clip-title")}
    parts["clip_sound"] = gr.Audio(
        label=text.CLIP_SOUND, interactive=False, type="filepath", elem_id="clip-sound", buttons=["download"]
    )
    parts["transcript"] = gr.Textbox(
        label=text.TRANSCRIPT, info=text.TRANSCRIPT_HELP, lines=2, max_lines=6, elem_id="clip-text"
    )
    parts["waveform"] = html("clip-waveform", visible=False, min_height=0)
    with gr.Row():
        for name, label, info, elem_id in (
            ("recording_start_s", text.EDGE_START, text.EDGE_HELP, "edge-start"),
            ("recording_end_s", text.EDGE_END, text.EDGE_HELP, "edge-end"),
            ("at_s", text.CUT_AT, text.CUT_HELP, "cut-at"),
        ):
            parts[name] = gr.Number(None, label=label, info=info, minimum=0, step=0.05, elem_id=elem_id, min_width=110)
    with gr.Row():
        for name, words in (
            ("save", text.SAVE_CLIP),
            ("exclude", text.EXCLUDE_CLIP),
            ("restore", text.RESTORE_CLIP),
            ("accept", text.ACCEPT_CLIP),
            ("merge", text.MERGE_CLIP),
            ("previous", text.PREVIOUS_CLIP),
            ("next", text.NEXT_CLIP),
        ):
            parts[name] = button(words, f"clip-{name}", size="sm", min_width=100)
    gr.HTML(text.CLIP_KEYS, elem_classes=["small"], min_height=0)
    # For scripts: on the page the edges and a bar in the transcript do the same.
    for name, label in (("start_s", text.PART_START), ("end_s", text.PART_END)):
        parts[name] = gr.Number(None, label=label, visible=False)
    for name, label in (("text_before", text.TEXT_BEFORE), ("text_after", text.TEXT_AFTER)):
        parts[name] = gr.Textbox(label=label, visible=False)
    # Which clip is shown; hidden rather than a State, so that scripts can name one too.
    parts["clip"] = hidden(text.CLIP, elem_id="clip-name")
    # Whose it is, and with which words the fields were filled.
    parts["shown"] = hidden(text.CLIP, elem_id="clip-shown")
    return parts
