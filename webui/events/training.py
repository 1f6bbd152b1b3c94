"""Events of tab 2."""

import json

import gradio as gr

from utils.switches import CHECKBOXES
from webui.events.wiring import QUIET, UNSEEN, Frame, wire
from webui.fields import KINDS
from webui.handlers import recommend, settings_file, training

RUN = ("project.project", "train.run")
SWITCHES = (*(f"train.{switch.field}" for switch in CHECKBOXES), *(f"train.{kind}" for kind in KINDS.values()))
SETTINGS = (*SWITCHES, f"{training.FORM}*")


def wire_training(frame: Frame) -> None:
    """Start, stop, resume, recommend, export."""
    wire(
        frame,
        "train.start:click",
        training.start,
        inputs=["project.project", "project.base", "train.start_from", *SETTINGS],
        outputs=["train.run"],
        api_name="train_start",
    )
    wire(
        frame,
        "project.project:change",
        training.show_form,
        inputs=["project.project"],
        outputs=["train.run", "train.start_from", "train.origins", *SETTINGS],
        api_name="train_form",
        **QUIET,
    )
    wire(frame, "train.stop:click", training.stop, inputs=RUN, outputs=["train.run"], api_name="train_stop")
    wire(
        frame,
        "train.resume:click",
        training.resume,
        inputs=[*RUN, f"{training.FORM}num_epochs"],
        outputs=["train.run"],
        api_name="train_resume",
    )
    wire(
        frame,
        "train.recommend:click",
        recommend.recommend,
        inputs=["project.project", "project.base", "train.use_case", *SETTINGS],
        outputs=[
            "train.recommended",
            "train.origins",
            *SWITCHES,
            *training.FORM_IDS,
        ],
        api_name="train_recommend",
    )
    wire(
        frame,
        "train.export:click",
        training.export,
        inputs=[*RUN, "train.checkpoint", "train.decoder", "train.adapter"],
        outputs=["train.run"],
        api_name="train_export",
    )
    wire(
        frame,
        "train.show_command:click",
        settings_file.show_command,
        inputs=["project.project", "project.base", "train.start_from", *SETTINGS],
        outputs=["train.command", "train.settings_file"],
        api_name="train_command",
    )
    wire(
        frame,
        "train.settings_upload:upload",
        settings_file.load,
        inputs=["project.project", "train.settings_upload", *SETTINGS],
        outputs=["train.recommended", "train.origins", *SETTINGS],
        api_name="train_settings",
    )
    wire(
        frame,
        "train.export_stop:click",
        training.stop_export,
        inputs=["project.project"],
        outputs=["train.exported"],
        api_name="train_export_stop",
    )
    queue = ["train.queue", "train.queue_group", "train.queued"]
    wire(
        frame,
        "train.enqueue:click",
        training.queue_run,
        inputs=["project.project", "project.base", "train.start_from", *SETTINGS],
        outputs=queue,
        api_name="train_queue",
    )
    for name, act in (
        ("queue_remove", training.queue_remove),
        ("queue_earlier", training.queue_earlier),
        ("queue_later", training.queue_later),
    ):
        wire(
            frame,
            f"train.{name}:click",
            act,
            inputs=["project.project", "train.queued"],
            outputs=queue,
            api_name=f"train_{name}",
        )
    _wire_browser(frame)


def _wire_browser(frame: Frame) -> None:
    """What the browser does by itself: notify, mark the settings that are changed."""
    # The browser says whether it may: the box goes off again where it may not.
    frame.trigger("train.notify:input")(
        None,
        inputs=[frame.registry["train.notify"]],
        outputs=[frame.registry["train.notify"]],
        js="isWanted => window.studioPage?.notify(isWanted) ?? false",
        api_visibility="private",
    )
    frame.page.load(
        None,
        outputs=[frame.registry["train.notify"]],
        js="() => window.studioPage?.notifies() ?? false",
        api_visibility="private",
    )
    keys = frame.registry.expand(SETTINGS)
    ids = json.dumps([training.element_id(key) for key in keys])
    # A command that was shown is that of a form which has changed since: it goes.
    gr.on(
        triggers=[frame.registry[key].change for key in (*keys, "train.origins")],
        fn=None,
        inputs=[frame.registry[key] for key in ("train.origins", *keys)],
        outputs=[frame.registry["train.command"], frame.registry["train.settings_file"]],
        js=f"(said, ...values) => [window.studioSettings?.mark({ids}, said, values) ?? '', null]",
        api_visibility="private",
        **UNSEEN,
    )
