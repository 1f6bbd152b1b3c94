"""Tab 3, Inference: speak with any model of the project, list all takes, compare by ear."""

from dataclasses import replace

import gradio as gr

from utils.options import SpeechSettings
from utils.server.settings import MAX_PORT, ServerConfig
from utils.speech.compare import MAX_MODELS
from utils.speech.recording_file import RECORDING_FORMATS
from webui import text
from webui.fields import fields_of
from webui.tabs.field import Parts, button, create_field, dropdown, hidden, html
from webui.tabs.voices import create_voice_library
from webui.views.inference import live_player

SET = "set_"
"""Ids of components that hold a setting of `SpeechSettings` begin so."""
RANGES = {
    "temperature": (0.0, 2.0, 0.05),
    "top_p": (0.05, 1.0, 0.05),
    "repetition_penalty": (1.0, 20.0, 0.5),
    "speed": (0.25, 4.0, 0.05),
}
"""Least, most and step of the sliders."""


def create_inference_tab() -> Parts:
    """Lay out the tab: the text, voice and model with Speak, the result, the takes; all else is folded."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=6, min_width=320):
            speak_text = gr.Textbox(
                label=text.SPEAK_TEXT,
                placeholder=text.SPEAK_TEXT_EXAMPLE,
                lines=4,
                max_lines=20,
                elem_id="speak-text",
            )
            parts = {"text": speak_text} | _voice_and_model() | _take()
        with gr.Column(scale=5, min_width=320):
            parts |= _takes()
    with gr.Accordion(text.SPEAK_OPTIONS, open=False, elem_id="sampling"):
        parts |= _options()
    with gr.Accordion(text.PRONUNCIATIONS, open=False, elem_id="pronunciations-box"):
        parts["pronunciations"] = gr.Textbox(
            label=text.PRONUNCIATIONS, info=text.PRONUNCIATIONS_HELP, lines=4, elem_id="pronunciations"
        )
        parts["pronunciations_save"] = button(text.PRONUNCIATIONS_SAVE, "save-pronunciations", size="sm")
    with gr.Accordion(text.COMPARE_TITLE, open=False, elem_id="compare"):
        parts |= _compare()
    with gr.Accordion(text.SERVER_TITLE, open=False, elem_id="server"):
        parts |= _server()
    return parts


def _voice_and_model() -> Parts:
    parts: Parts = {}
    with gr.Row(elem_classes=["bottom"], elem_id="speak-row"):
        parts["voice"] = gr.Dropdown(
            text.VOICES, value="own", label=text.VOICE, filterable=False, elem_id="voice", min_width=150
        )
        parts["model"] = dropdown(text.MODEL, "speak-model", min_width=150)
        parts["speak"] = button(text.SPEAK, "speak", variant="primary", min_width=90)
        parts["stop"] = button(text.STOP_SPEAKING, "stop-speaking", variant="stop", interactive=False, min_width=70)
    # What was offered first when the list was read: it gives way to something newer, a person's choice does not.
    parts["offered"] = hidden(text.MODEL)
    # The project whose choices the tab shows: those of another are forgotten.
    parts["listed"] = hidden(text.PROJECT)
    parts["recording"] = gr.Audio(
        sources=["upload", "microphone"],
        type="filepath",
        label=text.RECORDING,
        visible=False,
        editable=False,
        elem_id="recording",
    )
    parts["clip"] = dropdown(text.VOICE_CLIP, "voice-clip", info=text.CLIP_HELP, visible=False)
    parts["speaker"] = dropdown(text.SPEAKER, info=text.SPEAKER_HELP, visible=False)
    return parts | create_voice_library()


def _options() -> Parts:
    known = fields_of(SpeechSettings)
    # The page plays while it speaks, so it begins with a short piece.
    known["split"] = replace(known["split"], default="quick")
    parts: Parts = {}
    with gr.Row(equal_height=False):
        parts["text_file"] = gr.File(label=text.TEXT_FILE, file_types=[".txt"], height=110, elem_id="text-file")
        with gr.Column(min_width=220):
            # For scripts, as the seed of each take: on the page an empty seed is a new one.
            parts["by_lines"] = gr.Checkbox(False, label=text.BY_LINES, visible=False)
            parts["random_seed"] = gr.Checkbox(False, label=text.RANDOM_SEED, visible=False)
            parts[f"{SET}language"] = dropdown(
                text.SPEAK_LANGUAGE,
                "speak-language",
                choices=[(text.OPEN, ""), *text.LANGUAGES],
                value="",
                info=text.HELPS["language"],
            )
    with gr.Row():
        for name, (least, most, step) in RANGES.items():
            field = known[name]
            parts[SET + name] = gr.Slider(
                least,
                most,
                field.default,
                step=step,
                label=text.label(name),
                info=text.HELPS[name],
                min_width=220,
            )
        for name in ("top_k", "seed", "split"):
            elem_id = f"speech-{name}".replace("_", "-")
            parts[SET + name] = create_field(known[name], elem_id=elem_id, min_width=220, visible=name != "split")
    return parts


def _take() -> Parts:
    return {
        "worker": html("speech-worker"),
        "status": gr.HTML(text.NOTHING_SPOKEN, elem_id="take-status"),
        "current": hidden(text.TAKE),
        # Scripts find the outputs behind it at their places.
        "played": gr.Number(0, precision=0, visible="hidden", elem_classes=["internal"], label=text.NOW_PLAYING),
        # For scripts, the first sentence; the page plays what `webui.sound` serves.
        "player": gr.Audio(
            label=text.NOW_PLAYING, visible="hidden", elem_classes=["internal"], interactive=False, type="filepath"
        ),
        "live": gr.HTML(live_player(), elem_id="player"),
        "whole": gr.Audio(
            label=text.WHOLE_TAKE, interactive=False, type="filepath", elem_id="whole", buttons=["download"]
        ),
    }


def _takes() -> Parts:
    parts: Parts = {"progress": html("takes-progress")}
    with gr.Accordion(text.EDIT_TAKE, open=False, elem_id="edit-take"):
        parts["take"] = dropdown(text.TAKES, "takes", info=text.TAKES_HELP)
        with gr.Column(visible=False) as parts["take_tools"]:
            with gr.Row():
                parts["reuse"] = button(text.REUSE_TAKE, "reuse-take", size="sm")
                parts["resume"] = button(text.CONTINUE_TAKE, "continue-take", size="sm")
            with gr.Row(elem_classes=["bottom"]):
                parts["take_format"] = gr.Dropdown(
                    list(RECORDING_FORMATS),
                    value="mp3",
                    label=text.TAKE_FORMAT,
                    elem_id="take-format",
                    min_width=90,
                    scale=1,
                )
                parts["take_file"] = button(text.TAKE_FILE, "take-file", size="sm", min_width=120)
                parts["take_name"] = gr.Textbox(
                    label=text.TAKE_NAME,
                    info=text.TAKE_NAME_HELP,
                    max_length=80,
                    elem_id="take-name",
                    min_width=140,
                    scale=3,
                )
                parts["take_delete"] = button(text.DELETE_TAKE, "delete-take", size="sm", variant="stop", min_width=90)
        parts["zip"] = gr.File(label=text.ZIP, interactive=False, visible=False, elem_id="take-zip")
    return parts


def _server() -> Parts:
    parts: Parts = {
        "pack_ready": button(text.PACK_READY, "pack-ready", size="sm"),
        "ready_zip": gr.File(label=text.ZIP, interactive=False, visible=False, elem_id="ready-zip"),
    }
    gr.Markdown(text.SERVER_HELP)
    # Another port is for scripts, and for the command.
    parts["port"] = gr.Number(
        ServerConfig.port, precision=0, minimum=0, maximum=MAX_PORT, label=text.SERVER_PORT, visible=False
    )
    parts["server_start"] = button(text.SERVER_START, "server-start")
    parts["server_stop"] = button(text.SERVER_STOP, "server-stop", variant="stop", visible=False)
    parts["server"] = html("server-status")
    parts["curl"] = gr.Textbox(
        "", label=text.SERVER_CURL, interactive=False, lines=2, buttons=["copy"], visible=False, elem_id="server-curl"
    )
    return parts


def _compare() -> Parts:
    gr.Markdown(text.COMPARE_HELP)
    parts: Parts = {}
    parts["models"] = dropdown(
        text.COMPARE_MODELS, "compare-models", value=[], multiselect=True, max_choices=MAX_MODELS
    )
    parts["compare"] = button(text.COMPARE, "compare-start")
    parts["comparison"] = dropdown(text.COMPARISON)
    parts["compare_status"] = gr.HTML(text.NO_COMPARISON, elem_id="compare-status")
    with gr.Column(visible=False, elem_id="compared") as parts["compared"]:
        parts |= _compared()
    return parts


def _compared() -> Parts:
    """What is shown once there is a comparison."""
    parts: Parts = {"line": gr.Number(1, precision=0, minimum=1, label=text.COMPARE_LINE)}
    with gr.Tab(text.SIDE_BY_SIDE), gr.Row():
        for number in range(MAX_MODELS):
            parts[f"side_{number}"] = gr.Audio(
                type="filepath",
                interactive=False,
                visible=False,
                min_width=280,
                elem_id=f"side-{number}",
                buttons=["download"],
            )
    with gr.Tab(text.BLIND):
        parts["trial"] = hidden(text.BLIND)
        with gr.Row():
            parts["a"] = gr.Audio(label=text.SIDE_A, interactive=False, type="filepath", elem_id="blind-a", buttons=[])
            parts["b"] = gr.Audio(label=text.SIDE_B, interactive=False, type="filepath", elem_id="blind-b", buttons=[])
        with gr.Row():
            parts["prefer_a"] = button(text.A_BETTER, "prefer-a")
            parts["prefer_same"] = button(text.NO_DIFFERENCE, "prefer-same")
            parts["prefer_b"] = button(text.B_BETTER, "prefer-b")
        parts["voted"] = html("blind-voted")
        parts["votes"] = html("votes")
    return parts
