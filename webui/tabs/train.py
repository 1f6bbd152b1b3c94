"""Tab 2, Fine-tuning: settings on the left, the run and the machine on the right."""

import gradio as gr
from gradio.blocks import Block

from utils.config import TrainConfig
from utils.switches import CHECKBOXES, SWITCHES
from webui import text
from webui.fields import training_fields
from webui.tabs.field import create_field

MAIN = ("num_epochs", "batch_size", "grad_accumulation", "learning_rate", "max_audio_length", "schedule")
"""What most people change; all others lie behind folds."""
GROUPS = (
    ("LEARNING_GROUP", ("warmup_steps", "weight_decay", "grad_clip_norm", "dropout", "seed")),
    ("CLIPS_GROUP", ("max_text_length", "conditioning", "use_amharic_g2p")),
    ("EVALUATION_GROUP", ("eval_batch_size", "best_by", "sample_text", "patience", "max_hours")),
    ("SAVING_GROUP", ("checkpoint_every", "checkpoint_minutes", "keep_checkpoints")),
    (
        "DEVICE_GROUP",
        (
            *("device", "processes", "max_restarts"),
            *("threads", "cuda_memory_fraction", "attention", "batch_tokens", "max_mel_length"),
        ),
    ),
    ("LOADING_GROUP", ("num_workers", "prefetch_factor", "pin_memory")),
)
"""All other settings, by the text that says what they are about."""
MORE = tuple(switch.field for switch in SWITCHES if switch.place == "more")
"""Further optimizations, behind a fold."""
SET = "set_"
"""Ids of components that hold a setting of `TrainConfig` begin so."""


def create_train_tab() -> dict[str, Block]:
    """Lay out the tab."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=320, elem_id="train-settings"):
            settings = _settings()
        with gr.Column(scale=6, min_width=320):
            run = _run()
    return settings | run


def _settings() -> dict[str, Block]:
    known = training_fields()
    parts: dict[str, Block] = {
        "start_from": gr.Dropdown(
            [(text.START_FROM_BASE, "")],
            value="",
            allow_custom_value=True,
            label=text.START_FROM,
            info=text.START_FROM_HELP,
            elem_id="start-from",
        )
    }
    with gr.Row():
        for name in MAIN:
            parts[SET + name] = create_field(known[name], min_width=150)
    parts |= _optimizations()
    with gr.Accordion(text.ALL_SETTINGS, open=False, elem_id="all-settings"):
        for title, names in GROUPS:
            with gr.Column(elem_classes=["setting-group"]):
                gr.Markdown(f"#### {getattr(text, title)}")
                with gr.Row(elem_classes=["fields"]):
                    for name in names:
                        parts[SET + name] = create_field(known[name], min_width=150)
    parts["origins"] = gr.Textbox("", visible="hidden", elem_classes=["internal"], label="origins")
    with gr.Accordion(text.COMMAND_LINE, open=False, elem_id="command-line"):
        parts["show_command"] = gr.Button(text.SHOW_COMMAND, elem_id="show-command")
        parts["command"] = gr.Textbox(
            label=text.COMMAND_LINE,
            info=text.COMMAND_LINE_HELP,
            lines=2,
            interactive=False,
            elem_id="command",
            buttons=["copy"],
        )
    with gr.Row(elem_classes=["actions"]):
        parts["start"] = gr.Button(text.STEP_2, variant="primary", elem_id="step-2")
        parts["stop"] = gr.Button(text.STOP, variant="stop", elem_id="stop", visible=False)
        parts["enqueue"] = gr.Button(text.QUEUE_RUN, elem_id="enqueue", visible=False)
    return parts


def _optimizations() -> dict[str, Block]:
    known = training_fields()
    parts: dict[str, Block] = {}
    with gr.Column(elem_id="optimizations", elem_classes=["panel-group"]):
        gr.Markdown(f"### {text.OPTIMIZATIONS_TITLE}")
        for switch in CHECKBOXES:
            name = switch.field
            with gr.Row(elem_classes=["switch"], equal_height=True):
                parts[name] = gr.Checkbox(
                    value=switch.is_on(TrainConfig),
                    label=text.label(switch.field or switch.name),
                    info=text.help_of(switch.field or switch.name, switch.help),
                    elem_id=f"switch-{name}".replace("_", "-"),
                    min_width=180,
                )
                parts[f"badge_{name}"] = gr.HTML(elem_id=f"badge-{name}".replace("_", "-"), min_width=180)
        with gr.Row(elem_classes=["bottom"]):
            parts["use_case"] = gr.Dropdown(
                _choices(text.USE_CASES),
                value="production",
                label=text.USE_CASE,
                filterable=False,
                elem_id="use-case",
            )
            parts["recommend"] = gr.Button(text.RECOMMEND, elem_id="recommend", min_width=190)
        parts["recommended"] = gr.HTML(elem_id="recommended")
        with gr.Accordion(text.MORE_OPTIMIZATIONS, open=False, elem_id="more-optimizations"):
            with gr.Row(elem_classes=["fields"]):
                parts["recompute"] = gr.Dropdown(
                    _choices(text.RECOMPUTE_CHOICES),
                    value="full",
                    label=text.RECOMPUTE,
                    info=text.RECOMPUTE_HELP,
                    filterable=False,
                    elem_id="recompute",
                    min_width=190,
                )
                parts["half"] = gr.Dropdown(
                    _choices(text.HALF_CHOICES),
                    value="auto",
                    label=text.HALF,
                    info=text.HALF_HELP,
                    filterable=False,
                    elem_id="half",
                    min_width=190,
                )
                for name in MORE:
                    parts[SET + name] = create_field(known[name], min_width=190)
            parts["proofs"] = gr.HTML(elem_id="proofs")
    return parts


def _run() -> dict[str, Block]:
    parts: dict[str, Block] = {}
    with gr.Row(elem_classes=["bottom"]):
        parts["run"] = gr.Dropdown(
            [(text.NEWEST_RUN, "")],
            value="",
            allow_custom_value=True,
            label=text.RUN,
            info=text.RUN_HELP,
            scale=4,
            elem_id="run",
        )
        parts["resume"] = gr.Button(text.RESUME, elem_id="resume", interactive=False, min_width=90)
    parts["resume_why"] = gr.HTML(elem_id="resume-why")
    parts["progress"] = gr.HTML(elem_id="train-progress")
    parts["notify"] = gr.Checkbox(False, label=text.NOTIFY, info=text.NOTIFY_HELP, elem_id="notify")
    with gr.Column(visible=False, elem_id="queue") as parts["queue_group"]:
        parts["queue"] = gr.HTML(elem_id="queue-list")
        with gr.Row(elem_classes=["bottom"]):
            parts["queued"] = gr.Dropdown(
                [("", "")], value="", label=text.QUEUED_RUN, scale=4, allow_custom_value=True, elem_id="queued"
            )
            parts["queue_earlier"] = gr.Button(text.QUEUE_EARLIER, elem_id="queue-earlier", min_width=90)
            parts["queue_later"] = gr.Button(text.QUEUE_LATER, elem_id="queue-later", min_width=90)
            parts["queue_remove"] = gr.Button(text.QUEUE_REMOVE, elem_id="queue-remove", min_width=90)
    parts["loss_plot"] = gr.HTML(elem_id="loss-plot")
    parts["samples"] = gr.HTML(elem_id="samples")
    parts["gpu"] = gr.HTML(elem_id="gpu-panel")
    parts["memory_plot"] = gr.HTML(elem_id="memory-plot")
    with gr.Accordion(text.SPEED_PLOT, open=False):
        parts["speed_plot"] = gr.HTML(elem_id="speed-plot")
    with gr.Accordion(text.LOG, open=False):
        parts["log"] = gr.Textbox(
            label=text.LOG, show_label=False, lines=10, max_lines=10, interactive=False, elem_id="log", buttons=["copy"]
        )
    with gr.Column(elem_id="export", elem_classes=["panel-group"]):
        with gr.Row(elem_classes=["bottom"]):
            with gr.Column(scale=3):
                parts["checkpoint"] = gr.Radio(
                    [(text.BEST, "best"), (text.LAST, "last")],
                    value="best",
                    label=text.CHECKPOINT,
                    info=text.CHECKPOINT_HELP,
                    elem_id="checkpoint",
                )
                parts["decoder"] = gr.Radio(
                    _choices(text.DECODERS),
                    value="default",
                    label=text.DECODER,
                    info=text.DECODER_HELP,
                    elem_id="export-decoder",
                )
            parts["export"] = gr.Button(text.STEP_2_5, variant="primary", elem_id="step-2-5", scale=2)
        parts["export_why"] = gr.HTML(elem_id="export-why")
        parts["exported"] = gr.HTML(elem_id="exported")
    return parts


def _choices(titles: dict[str, str]) -> list[tuple[str, str]]:
    return [(title, value) for value, title in titles.items()]
