"""Events of tab 3."""

from typing import Any

from webui.events.wiring import Frame, wire
from webui.handlers import compare, inference, pronunciations, server, take_list, voices

PROJECT = "project.project"
TAKE = ("inference.status", "inference.current", "inference.played", "inference.player", "inference.whole")
LISTS = (
    "inference.model",
    "inference.offered",
    "inference.models",
    "inference.clip",
    "inference.voice_clips",
    voices.LIST,
    "inference.comparison",
    "inference.take",
    "inference.listed",
    *inference.OF_PROJECT,
)
GPU: dict[str, Any] = {"concurrency_id": "gpu", "concurrency_limit": 1}
"""Whatever speaks and is waited for comes one after the other."""


def wire_inference(frame: Frame) -> None:
    """Lists, speaking, takes, comparing; what runs by itself is in `webui.events.live`."""
    _wire_lists(frame)
    shown = [*_wire_speaking(frame), _wire_comparing(frame)]
    _wire_takes(frame)
    _wire_voices(frame)
    _wire_server(frame)
    _wire_pronunciations(frame)
    # What was begun is spoken to its end, and found among the takes: another project's page does not show it.
    frame.trigger(f"{PROJECT}:change")(None, cancels=shown)


def _wire_lists(frame: Frame) -> None:
    wire(
        frame,
        "inference.tab:select project.project:change",
        inference.models,
        inputs=[PROJECT, "inference.model", "inference.offered", "inference.listed", "inference.clip"],
        outputs=LISTS,
        api_name="inference_models",
        queue=False,
        # The tab may be opened while the project is still being chosen: the last word counts.
        trigger_mode="always_last",
    )
    wire(
        frame,
        "inference.voice:change",
        inference.choose_voice,
        inputs=["inference.voice"],
        outputs=[f"inference.{name}" for name in inference.VOICE_FIELDS],
        api_name="inference_voice",
        public=False,
        queue=False,
    )


def _wire_speaking(frame: Frame) -> list[Any]:
    spoken = wire(
        frame,
        "inference.speak:click",
        inference.speak,
        inputs=inference.SPEAK_INPUTS,
        outputs=[*TAKE, "inference.speaker"],
        api_name="inference_speak",
        **GPU,
    )
    # The click itself does nothing then: an event of this page is still in progress.
    wire(
        frame,
        "inference.speak:click inference.resume:click",
        inference.say_busy,
        inputs=[PROJECT, "inference.current"],
        # gradio shows messages of what it queues only, and wants an output.
        outputs=["inference.current"],
        api_name="inference_busy",
        public=False,
        show_progress=False,
    )
    gone_on = wire(
        frame,
        "inference.resume:click",
        inference.resume,
        inputs=[PROJECT, "inference.take"],
        outputs=[*TAKE, "inference.speaker"],
        api_name="inference_continue",
        **GPU,
    )
    wire(
        frame,
        "inference.stop:click",
        inference.stop,
        inputs=[PROJECT, "inference.current"],
        outputs=["inference.status", "inference.current", "inference.whole"],
        api_name="inference_stop",
        concurrency_limit=None,
    )
    return [spoken, gone_on]


def _wire_takes(frame: Frame) -> None:
    chosen = [PROJECT, "inference.take"]
    wire(
        frame,
        "inference.take:input",
        inference.show_take,
        inputs=chosen,
        outputs=[*TAKE, "inference.take_tools"],
        api_name="inference_show",
        concurrency_limit=None,
    )
    wire(
        frame,
        "inference.reuse:click",
        inference.reuse,
        inputs=chosen,
        outputs=[
            f"{inference.FORM}*",
            "inference.text",
            "inference.model",
            "inference.by_lines",
            "inference.random_seed",
        ],
        api_name="inference_reuse",
        public=False,
        concurrency_limit=None,
    )
    wire(frame, "", inference.pack, inputs=chosen, outputs=["inference.zip"],
         api_name="inference_pack")  # fmt: skip
    wire(
        frame,
        "inference.take_file:click",
        take_list.write_file,
        inputs=[*chosen, "inference.take_format"],
        outputs=["inference.zip"],
        api_name="take_file",
    )
    wire(
        frame,
        "inference.take_name:submit",
        take_list.rename,
        inputs=[*chosen, "inference.take_name"],
        outputs=["inference.take", "inference.take_name"],
        api_name="take_rename",
    )
    wire(
        frame,
        "inference.take_delete:click",
        take_list.delete,
        inputs=[*chosen, "inference.current"],
        outputs=["inference.take", *(f"inference.{name}" for name in ("whole", "player", "status", "current"))],
        api_name="take_delete",
    )
    wire(frame, "inference.pack_ready:click", inference.pack_model, inputs=[PROJECT],
         outputs=["inference.ready_zip"], api_name="inference_pack_model")  # fmt: skip


def _wire_voices(frame: Frame) -> None:
    for name, handler, inputs in (
        ("make", voices.make, [PROJECT, "inference.voice_clips", "inference.recording", "inference.voice_name"]),
        ("rename", voices.rename, ["inference.kept_voice", "inference.voice_name"]),
        ("delete", voices.delete, ["inference.kept_voice"]),
    ):
        wire(
            frame,
            f"inference.voice_{name}:click",
            handler,
            inputs=inputs,
            outputs=voices.OUTPUTS,
            api_name=f"voice_{name}",
        )


def _wire_pronunciations(frame: Frame) -> None:
    table = "inference.pronunciations"
    # Not where the tab is opened: what was typed and not saved stays.
    wire(frame, f"{PROJECT}:change", pronunciations.show, inputs=[PROJECT], outputs=[table],
         api_name="pronunciations", queue=False)  # fmt: skip
    wire(frame, "inference.pronunciations_save:click", pronunciations.save, inputs=[PROJECT, table], outputs=[table],
         api_name="pronunciations_save")  # fmt: skip


def _wire_server(frame: Frame) -> None:
    shown = ["inference.server", "inference.curl", "inference.server_start", "inference.server_stop"]
    wire(frame, "inference.server_start:click", server.start, inputs=["inference.port"], outputs=shown,
         api_name="server_start")  # fmt: skip
    wire(frame, "inference.server_stop:click", server.stop, outputs=shown, api_name="server_stop")


def _wire_comparing(frame: Frame) -> Any:
    compared = wire(
        frame,
        "inference.compare:click",
        compare.start,
        inputs=[*inference.SPEAK_INPUTS, "inference.models"],
        outputs=compare.SHOWN,
        api_name="inference_compare",
        **GPU,
    )
    wire(
        frame,
        "inference.comparison:input inference.line:submit",
        compare.show,
        inputs=[PROJECT, "inference.comparison", "inference.line"],
        outputs=compare.SHOWN,
        api_name="inference_comparison",
        concurrency_limit=None,
    )
    for name, handler in (("a", compare.prefer_a), ("b", compare.prefer_b), ("same", compare.prefer_same)):
        wire(
            frame,
            f"inference.prefer_{name}:click",
            handler,
            inputs=[PROJECT, "inference.trial"],
            outputs=["inference.voted", "inference.trial", "inference.a", "inference.b", "inference.votes"],
            api_name=f"inference_prefer_{name}",
            concurrency_limit=None,
        )
    return compared
