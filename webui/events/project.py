"""Events of the project bar."""

import json
from typing import Any

import gradio as gr

from webui.events.wiring import QUIET, UNSEEN, Frame, spread, wire
from webui.handlers import data, manage, project, sample
from webui.languages import speaking_as_asked
from webui.page import WORDS

BAR = (
    *("project.project", "project.language", "project.base", "project.last", "project.new_project"),
    *("project.manage_box", "project.is_managed"),
)


def wire_project(frame: Frame) -> None:
    """Load, create and choose projects, and keep their language and base."""
    wire(
        frame,
        "",
        project.show_projects,
        after=_wire_words(frame),
        inputs=["project.project", "project.last"],
        outputs=BAR,
        api_name="project_load",
        # The project of the address comes before the browser's last one.
        js="(project, last) => [window.studioPage?.wanted(project) ?? project, last]",
        **QUIET,
    )
    frame.trigger("project.project:change")(
        None, inputs=[frame.registry["project.project"]], js="name => window.studioPage?.show(name)"
    )
    # The browser opens the tab by itself, with the cursor in the text.
    frame.trigger("project.listen:click")(None, js="() => window.studioPage?.open('inference', '#speak-text')")
    created = wire(
        frame,
        "project.new_project:submit",
        project.create,
        inputs=["project.new_project", "project.language", "project.base"],
        outputs=BAR,
        api_name="project_create",
        show_progress=False,
    )
    wire(
        frame,
        "project.try_sample:click",
        sample.try_sample,
        outputs=BAR,
        api_name="try_sample",
        show_progress=False,
    )
    wire(
        frame,
        "",
        data.take_waiting,
        inputs=["project.project", "data.files"],
        outputs=["data.files", *data.UPLOADS],
        api_name="data_take_waiting",
        after=created,
        public=False,
        show_progress=False,
    )
    wire(
        frame,
        "project.project:input",
        project.choose,
        inputs=["project.project"],
        outputs=BAR,
        api_name="project_choose",
        concurrency_limit=None,
        show_progress=False,
    )
    wire(
        frame,
        "project.manage:click",
        manage.manage,
        inputs=["project.project", "project.is_managed"],
        outputs=["project.manage_box", "project.is_managed", "project.contents"],
        api_name="project_contents",
    )
    for name, act in (("rename", manage.rename), ("duplicate", manage.duplicate), ("delete", manage.delete)):
        wire(
            frame,
            f"project.{name}:click",
            act,
            inputs=["project.project", "project.new_name"],
            outputs=BAR,
            api_name=f"project_{name}",
        )
    # Each for itself: another tab may have chosen the other one meanwhile.
    for name, keep in (("language", project.keep_language), ("base", project.keep_base)):
        wire(
            frame,
            f"project.{name}:input",
            keep,
            inputs=["project.project", f"project.{name}"],
            outputs=[f"project.{name}"],
            api_name=f"project_set_{name}",
            concurrency_limit=None,
            show_progress=False,
        )


def _wire_words(frame: Frame) -> Any:
    """Put the page in the language of who opens it, before anything is filled in."""

    def words() -> str:
        with speaking_as_asked():
            return json.dumps(frame.page.words())

    news = gr.Textbox(visible="hidden", label="words")
    opened = frame.page.load(words, outputs=[news], api_visibility="private", queue=False, **UNSEEN)
    blocks = frame.page.blocks.items()
    worded = {str(key): one for key, one in blocks if any(hasattr(one, name) for name in WORDS) and not one.stateful}
    spread(opened, news, worded)
    return opened
