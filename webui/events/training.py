"""Events of tab 2."""

from utils.switches import CHECKBOXES
from webui.events.wiring import Frame, wire
from webui.fields import KINDS
from webui.handlers import training

RUN = ("project.project", "train.run")
SWITCHES = (*(f"train.{switch.field}" for switch in CHECKBOXES), *(f"train.{kind}" for kind in KINDS.values()))
SETTINGS = (*SWITCHES, f"{training.FORM}*")


def wire_training(frame: Frame) -> None:
    """Start, stop, resume, recommend, export."""
    wire(
        frame,
        ["train.start:click"],
        training.start,
        inputs=["project.project", "project.base", "train.start_from", *SETTINGS],
        outputs=["train.run"],
        api_name="train_start",
    )
    wire(
        frame,
        ["project.project:change"],
        training.show_form,
        inputs=["project.project"],
        outputs=["train.run", "train.start_from", *SETTINGS],
        api_name="train_form",
        public=False,
        queue=False,
        show_progress=False,
    )
    wire(
        frame,
        ["train.preflight:click"],
        training.preflight,
        inputs=["project.project", "project.base", "train.start_from", *SETTINGS],
        outputs=["train.run"],
        api_name="train_preflight",
    )
    wire(frame, ["train.stop:click"], training.stop, inputs=RUN, outputs=["train.run"], api_name="train_stop")
    wire(
        frame,
        ["train.resume:click"],
        training.resume,
        inputs=[*RUN, f"{training.FORM}num_epochs"],
        outputs=["train.run"],
        api_name="train_resume",
    )
    wire(
        frame,
        ["train.recommend:click"],
        training.recommend,
        inputs=["project.project", "project.base", "train.use_case", *SETTINGS],
        outputs=[
            "train.recommended",
            *SWITCHES,
            *training.FORM_IDS,
        ],
        api_name="train_recommend",
    )
    wire(
        frame,
        ["train.export:click"],
        training.export,
        inputs=[*RUN, "train.checkpoint", "train.decoder"],
        outputs=["train.run"],
        api_name="train_export",
    )
