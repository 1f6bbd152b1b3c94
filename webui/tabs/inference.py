"""Tab 3, Inference: speak with any model of the project, list all takes, compare by ear."""

from dataclasses import replace

import gradio as gr
from gradio.blocks import Block

from utils.options import SpeechSettings
from utils.server.settings import MAX_PORT, ServerConfig
from utils.speech.compare import MAX_MODELS
from utils.speech.recording_file import RECORDING_FORMATS
from webui import text
from webui.fields import fields_of
from webui.tabs.field import create_field
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


def create_inference_tab() -> dict[str, Block]:
    """Lay out the tab: the text, voice and model with Speak, the result, the takes; all else is folded."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=6, min_width=320):
            parts = _text() | _voice_and_model() | _take()
        with gr.Column(scale=5, min_width=320):
            parts |= _takes()
    with gr.Accordion(text.SPEAK_OPTIONS, open=False, elem_id="sampling"):
        parts |= _options()
    with gr.Accordion(text.PRONUNCIATIONS, open=False, elem_id="pronunciations-box"):
        parts["pronunciations"] = gr.Textbox(
            label=text.PRONUNCIATIONS, info=text.PRONUNCIATIONS_HELP, lines=4, elem_id="pronunciations"
        )
        parts["pronunciations_save"] = gr.Button(text.PRONUNCIATIONS_SAVE, size="sm", elem_id="save-pronunciations")
    with gr.Accordion(text.COMPARE_TITLE, open=False, elem_id="compare"):
        parts |= _compare()
    with gr.Accordion(text.SERVER_TITLE, open=False, elem_id="server"):
        parts |= _server()
    return parts


def _text() -> dict[str, Block]:
    return {
        "text": gr.Textbox(
            label=text.SPEAK_TEXT,
            placeholder=text.SPEAK_TEXT_EXAMPLE,
            lines=4,
            max_lines=20,
            elem_id="speak-text",
        )
    }


def _voice_and_model() -> dict[str, Block]:
    parts: dict[str, Block] = {}
    with gr.Row(elem_classes=["bottom"], elem_id="speak-row"):
        parts["voice"] = gr.Dropdown(
            text.VOICES, value="own", label=text.VOICE, filterable=False, elem_id="voice", min_width=150
        )
        parts["model"] = gr.Dropdown(
            [], value=None, allow_custom_value=True, label=text.MODEL, elem_id="speak-model", min_width=150
        )
        parts["speak"] = gr.Button(text.SPEAK, variant="primary", elem_id="speak", min_width=90)
        parts["stop"] = gr.Button(
            text.STOP_SPEAKING, variant="stop", interactive=False, elem_id="stop-speaking", min_width=70
        )
    # What was offered first when the list was read: it gives way to something newer, a person's choice does not.
    parts["offered"] = gr.Textbox("", visible="hidden", elem_classes=["internal"], label=text.MODEL)
    # The project whose choices the tab shows: those of another are forgotten.
    parts["listed"] = gr.Textbox("", visible="hidden", elem_classes=["internal"], label=text.PROJECT)
    parts["recording"] = gr.Audio(
        sources=["upload", "microphone"],
        type="filepath",
        label=text.RECORDING,
        visible=False,
        editable=False,
        elem_id="recording",
    )
    parts["clip"] = gr.Dropdown(
        [],
        value=None,
        allow_custom_value=True,
        label=text.VOICE_CLIP,
        info=text.CLIP_HELP,
        visible=False,
        elem_id="voice-clip",
    )
    parts["speaker"] = gr.Dropdown(
        [], value=None, allow_custom_value=True, label=text.SPEAKER, info=text.SPEAKER_HELP, visible=False
    )
    return parts | create_voice_library()


def _options() -> dict[str, Block]:
    known = fields_of(SpeechSettings)
    # The page plays while it speaks, so it begins with a short piece.
    known["split"] = replace(known["split"], default="quick")
    parts: dict[str, Block] = {}
    with gr.Row(equal_height=False):
        parts["text_file"] = gr.File(label=text.TEXT_FILE, file_types=[".txt"], height=110, elem_id="text-file")
        with gr.Column(min_width=220):
            # For scripts, as the seed of each take: on the page an empty seed is a new one.
            parts["by_lines"] = gr.Checkbox(False, label=text.BY_LINES, visible=False)
            parts["random_seed"] = gr.Checkbox(False, label=text.RANDOM_SEED, visible=False)
            parts[f"{SET}language"] = gr.Dropdown(
                [(text.OPEN, ""), *text.LANGUAGES],
                value="",
                allow_custom_value=True,
                label=text.SPEAK_LANGUAGE,
                info=text.HELPS["language"],
                elem_id="speak-language",
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


def _take() -> dict[str, Block]:
    return {
        "worker": gr.HTML(elem_id="speech-worker"),
        "status": gr.HTML(text.NOTHING_SPOKEN, elem_id="take-status"),
        "current": gr.Textbox("", visible="hidden", elem_classes=["internal"], label=text.TAKE),
        # Scripts find the outputs behind it at their places.
        "heard": gr.Number(0, precision=0, visible="hidden", elem_classes=["internal"], label=text.NOW_PLAYING),
        # For scripts, the first sentence; the page plays what `webui.sound` serves.
        "player": gr.Audio(
            label=text.NOW_PLAYING, visible="hidden", elem_classes=["internal"], interactive=False, type="filepath"
        ),
        "live": gr.HTML(live_player(), elem_id="player"),
        "whole": gr.Audio(
            label=text.WHOLE_TAKE, interactive=False, type="filepath", elem_id="whole", buttons=["download"]
        ),
    }


def _takes() -> dict[str, Block]:
    parts: dict[str, Block] = {"progress": gr.HTML(elem_id="takes-progress")}
    with gr.Accordion(text.EDIT_TAKE, open=False, elem_id="edit-take"):
        parts["take"] = gr.Dropdown(
            [], value=None, allow_custom_value=True, label=text.TAKES, info=text.TAKES_HELP, elem_id="takes"
        )
        with gr.Column(visible=False) as parts["take_tools"]:
            with gr.Row():
                parts["reuse"] = gr.Button(text.REUSE_TAKE, size="sm", elem_id="reuse-take")
                parts["resume"] = gr.Button(text.CONTINUE_TAKE, size="sm", elem_id="continue-take")
            with gr.Row(elem_classes=["bottom"]):
                parts["take_format"] = gr.Dropdown(
                    list(RECORDING_FORMATS),
                    value="mp3",
                    label=text.TAKE_FORMAT,
                    elem_id="take-format",
                    min_width=90,
                    scale=1,
                )
                parts["take_file"] = gr.Button(text.TAKE_FILE, size="sm", elem_id="take-file", min_width=120)
                parts["take_name"] = gr.Textbox(
                    label=text.TAKE_NAME,
                    info=text.TAKE_NAME_HELP,
                    max_length=80,
                    elem_id="take-name",
                    min_width=140,
                    scale=3,
                )
                parts["take_delete"] = gr.Button(
                    text.DELETE_TAKE, size="sm", variant="stop", elem_id="delete-take", min_width=90
                )
        parts["zip"] = gr.File(label=text.ZIP, interactive=False, visible=False, elem_id="take-zip")
    return parts


def _server() -> dict[str, Block]:
    parts: dict[str, Block] = {
        "pack_ready": gr.Button(text.PACK_READY, size="sm", elem_id="pack-ready"),
        "ready_zip": gr.File(label=text.ZIP, interactive=False, visible=False, elem_id="ready-zip"),
    }
    gr.Markdown(text.SERVER_HELP)
    # Another port is for scripts, and for the command.
    parts["port"] = gr.Number(
        ServerConfig.port, precision=0, minimum=0, maximum=MAX_PORT, label=text.SERVER_PORT, visible=False
    )
    parts["server_start"] = gr.Button(text.SERVER_START, elem_id="server-start")
    parts["server_stop"] = gr.Button(text.SERVER_STOP, variant="stop", visible=False, elem_id="server-stop")
    parts["server"] = gr.HTML(elem_id="server-status")
    parts["curl"] = gr.Textbox(
        "", label=text.SERVER_CURL, interactive=False, lines=2, buttons=["copy"], visible=False, elem_id="server-curl"
    )
    return parts


def _compare() -> dict[str, Block]:
    gr.Markdown(text.COMPARE_HELP)
    parts: dict[str, Block] = {}
    parts["models"] = gr.Dropdown(
        [],
        value=[],
        multiselect=True,
        max_choices=MAX_MODELS,
        allow_custom_value=True,
        label=text.COMPARE_MODELS,
        elem_id="compare-models",
    )
    parts["compare"] = gr.Button(text.COMPARE, elem_id="compare-start")
    parts["comparison"] = gr.Dropdown([], value=None, allow_custom_value=True, label=text.COMPARISON)
    parts["compare_status"] = gr.HTML(text.NO_COMPARISON, elem_id="compare-status")
    with gr.Column(visible=False, elem_id="compared") as parts["compared"]:
        parts |= _compared()
    return parts


def _compared() -> dict[str, Block]:
    """What is shown once there is a comparison."""
    parts: dict[str, Block] = {"line": gr.Number(1, precision=0, minimum=1, label=text.COMPARE_LINE)}
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
        parts["trial"] = gr.Textbox("", visible="hidden", elem_classes=["internal"], label=text.BLIND)
        with gr.Row():
            parts["a"] = gr.Audio(label=text.SIDE_A, interactive=False, type="filepath", elem_id="blind-a", buttons=[])
            parts["b"] = gr.Audio(label=text.SIDE_B, interactive=False, type="filepath", elem_id="blind-b", buttons=[])
        with gr.Row():
            parts["prefer_a"] = gr.Button(text.A_BETTER, elem_id="prefer-a")
            parts["prefer_same"] = gr.Button(text.NO_DIFFERENCE, elem_id="prefer-same")
            parts["prefer_b"] = gr.Button(text.B_BETTER, elem_id="prefer-b")
        parts["voted"] = gr.HTML(elem_id="blind-voted")
        parts["votes"] = gr.HTML(elem_id="votes")
    return parts
