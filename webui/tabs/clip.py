"""One clip of tab 1: listen, edit its transcript, exclude, split, trim, merge it with the next."""

import gradio as gr
from gradio.blocks import Block

from webui import text


def create_clip_editor() -> dict[str, Block]:
    """Lay out what is shown once a clip was chosen in the table."""
    parts: dict[str, Block] = {"clip_title": gr.HTML(elem_id="clip-title")}
    parts["clip_sound"] = gr.Audio(
        label=text.CLIP_SOUND, interactive=False, type="filepath", elem_id="clip-sound", buttons=["download"]
    )
    parts["transcript"] = gr.Textbox(
        label=text.TRANSCRIPT, info=text.TRANSCRIPT_HELP, lines=2, max_lines=6, elem_id="clip-text"
    )
    with gr.Row():
        for name, words in (
            ("save", text.SAVE_CLIP),
            ("exclude", text.EXCLUDE_CLIP),
            ("restore", text.RESTORE_CLIP),
            ("accept", text.ACCEPT_CLIP),
            ("previous", text.PREVIOUS_CLIP),
            ("next", text.NEXT_CLIP),
        ):
            parts[name] = gr.Button(words, size="sm", elem_id=f"clip-{name}", min_width=100)
    gr.HTML(text.CLIP_KEYS, elem_classes=["small"], min_height=0)
    with gr.Accordion(text.CUT_TITLE, open=False, elem_id="clip-cut"):
        parts |= _cut()
    # Which clip is shown; hidden rather than a State, so that scripts can name one too.
    parts["clip"] = gr.Textbox("", visible="hidden", elem_classes=["internal"], label=text.CLIP, elem_id="clip-name")
    # Whose it is, and with which words the fields were filled.
    parts["shown"] = gr.Textbox("", visible="hidden", elem_classes=["internal"], label=text.CLIP, elem_id="clip-shown")
    return parts


def _cut() -> dict[str, Block]:
    parts: dict[str, Block] = {}
    parts["waveform"] = gr.HTML(visible=False, elem_id="clip-waveform", min_height=0)
    gr.Markdown(text.RECUT_HELP)
    with gr.Row(elem_classes=["bottom"]):
        for name, label, elem_id in (
            ("recording_start_s", text.EDGE_START, "edge-start"),
            ("recording_end_s", text.EDGE_END, "edge-end"),
        ):
            parts[name] = gr.Number(None, label=label, minimum=0, step=0.05, elem_id=elem_id, min_width=110)
        parts["recut"] = gr.Button(text.RECUT_CLIP, size="sm", elem_id="clip-recut", min_width=140)
    gr.Markdown(text.CUT_HELP)
    # For scripts: on the page the edges do the same, and more.
    for name, label in (("start_s", text.PART_START), ("end_s", text.PART_END)):
        parts[name] = gr.Number(None, label=label, visible=False)
    with gr.Row(elem_classes=["bottom"]):
        parts["at_s"] = gr.Number(None, label=text.CUT_AT, minimum=0, step=0.05, elem_id="cut-at", min_width=110)
        parts["text_before"] = gr.Textbox(label=text.TEXT_BEFORE, elem_id="text-before", min_width=200, scale=3)
        parts["text_after"] = gr.Textbox(label=text.TEXT_AFTER, elem_id="text-after", min_width=200, scale=3)
        parts["split"] = gr.Button(text.SPLIT_CLIP, size="sm", elem_id="clip-split", min_width=140)
    parts["merge"] = gr.Button(text.MERGE_CLIP, size="sm", elem_id="clip-merge")
    return parts
