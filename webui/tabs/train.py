"""Tab 2, Fine-tuning: settings on the left, the run and the machine on the right."""

import gradio as gr

from utils.config import TrainConfig
from utils.hardware.gpu import find_gpus
from utils.switches import CHECKBOXES
from webui import text
from webui.fields import training_fields
from webui.tabs.field import Parts, button, create_field, dropdown, hidden, html

MAIN = ("num_epochs", "batch_size", "grad_accumulation", "learning_rate", "max_audio_length")
"""What most people change: on the first screen."""
ADVANCED = (
    *("schedule", "warmup_steps", "seed", "conditioning", "best_by", "sample_text", "patience", "max_hours"),
    *("lora_rank", "compile"),
)
"""What people really change, behind one fold."""
GPU_ONLY = ("eight_bit_optimizer", "processes")
"""Advanced settings that do nothing without a GPU: shown where there is one."""
SET = "set_"
"""Ids of components that hold a setting of `TrainConfig` begin so."""


def create_train_tab() -> Parts:
    """Lay out the tab."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=320, elem_id="train-settings"):
            settings = _settings()
        with gr.Column(scale=6, min_width=320):
            run = _run()
    return settings | run


def _settings() -> Parts:
    known = training_fields()
    parts: Parts = {}
    with gr.Column(elem_classes=["panel-group", "explained"]):
        with gr.Row():
            parts["start_from"] = dropdown(
                text.START_FROM, "start-from", choices=[(text.START_FROM_BASE, "")], value="", min_width=150
            )
            for name in MAIN:
                parts[SET + name] = create_field(known[name], min_width=150)
        parts |= _optimizations()
    with gr.Accordion(text.ADVANCED, open=False, elem_id="all-settings"):
        with gr.Row(elem_classes=["fields"]):
            for name, (titles, label, help) in {
                "use_case": (text.USE_CASES, text.USE_CASE, text.USE_CASE_HELP),
                # Which variant of a switch applies when its checkbox is ticked.
                "recompute": (text.RECOMPUTE_CHOICES, text.RECOMPUTE, text.RECOMPUTE_HELP),
                "half": (text.HALF_CHOICES, text.HALF, text.HALF_HELP),
            }.items():
                parts[name] = gr.Dropdown(
                    _choices(titles),
                    value=next(iter(titles)),
                    label=label,
                    info=help,
                    filterable=False,
                    elem_id=name.replace("_", "-"),
                    min_width=150,
                )
            for name in (*ADVANCED, *(GPU_ONLY if find_gpus()[0] else ())):
                parts[SET + name] = create_field(known[name], min_width=150)
        gr.Markdown(text.SETTINGS_FILE_HELP)
        with gr.Row():
            parts["settings_file"] = gr.DownloadButton(
                text.DOWNLOAD_SETTINGS, size="sm", elem_id="settings-file", min_width=120, visible=False
            )
            parts["settings_upload"] = gr.UploadButton(
                text.UPLOAD_SETTINGS,
                file_types=[".yaml", ".yml"],
                type="filepath",
                size="sm",
                elem_id="settings-upload",
                min_width=120,
            )
            parts["show_command"] = button(text.SHOW_COMMAND, "show-command", size="sm", min_width=120)
        parts["command"] = gr.Textbox(
            label=text.COMMAND_LINE,
            info=text.COMMAND_LINE_HELP,
            lines=2,
            interactive=False,
            elem_id="command",
            buttons=["copy"],
        )
        parts["decoder"] = gr.Radio(
            _choices(text.DECODERS),
            value="default",
            label=text.DECODER,
            info=text.DECODER_HELP,
            elem_id="export-decoder",
        )
        parts["adapter"] = gr.Checkbox(
            False, label=text.SMALL_VOICE, info=text.SMALL_VOICE_HELP, elem_id="export-adapter"
        )
        parts["proofs"] = html("proofs")
    # Set by a settings file alone; the command shows them.
    for name in known.keys() - {key.removeprefix(SET) for key in parts}:
        parts[SET + name] = create_field(known[name], visible=False)
    parts["origins"] = hidden("origins")
    parts["enqueue"] = button(text.QUEUE_RUN, "enqueue", visible=False)
    return parts


def _optimizations() -> Parts:
    parts: Parts = {}
    with gr.Column(elem_id="optimizations"):
        for switch in CHECKBOXES:
            name = switch.field
            with gr.Row(elem_classes=["switch"], equal_height=True):
                parts[name] = gr.Checkbox(
                    value=switch.is_on(TrainConfig),
                    label=text.label(name),
                    info=text.HELPS[name],
                    elem_id=f"switch-{name}".replace("_", "-"),
                    min_width=180,
                )
                parts[f"badge_{name}"] = html(f"badge-{name}".replace("_", "-"), min_width=180)
        parts["recommend"] = button(text.RECOMMEND, "recommend")
        parts["recommended"] = html("recommended")
    return parts


def _run() -> Parts:
    parts: Parts = {}
    with gr.Row(elem_classes=["bottom"]):
        parts["run"] = dropdown(text.RUN, "run", choices=[(text.NEWEST_RUN, "")], value="", scale=4)
        parts["resume"] = button(text.RESUME, "resume", interactive=False, min_width=90)
    parts["resume_why"] = html("resume-why")
    parts["gpu"] = html("gpu-panel")
    parts["progress"] = html("train-progress")
    with gr.Column(visible=False, elem_id="queue") as parts["queue_group"]:
        parts["queue"] = html("queue-list")
        with gr.Row(elem_classes=["bottom"]):
            parts["queued"] = dropdown(text.QUEUED_RUN, "queued", choices=[("", "")], value="", scale=4)
            parts["queue_earlier"] = button(text.QUEUE_EARLIER, "queue-earlier", min_width=90)
            parts["queue_later"] = button(text.QUEUE_LATER, "queue-later", min_width=90)
            parts["queue_remove"] = button(text.QUEUE_REMOVE, "queue-remove", min_width=90)
    parts["loss_plot"] = html("loss-plot")
    parts["samples"] = html("samples")
    with gr.Accordion(text.SPEED_AND_LOG, open=False):
        parts["speed_plot"] = html("speed-plot")
        parts["memory_plot"] = html("memory-plot")
        parts["notify"] = gr.Checkbox(False, label=text.NOTIFY, info=text.NOTIFY_HELP, elem_id="notify")
        parts["log"] = gr.Textbox(
            label=text.LOG, show_label=False, lines=10, max_lines=10, interactive=False, elem_id="log", buttons=["copy"]
        )
    with gr.Column(elem_id="export", elem_classes=["panel-group"]):
        parts["checkpoint"] = gr.Radio(
            [(text.BEST, "best"), (text.LAST, "last")],
            value="best",
            label=text.CHECKPOINT,
            info=text.CHECKPOINT_HELP,
            elem_id="checkpoint",
        )
        parts["export_why"] = html("export-why")
        parts["exported"] = html("exported")
    return parts


def _choices(titles: dict[str, str]) -> list[tuple[str, str]]:
    return [(title, value) for value, title in titles.items()]
