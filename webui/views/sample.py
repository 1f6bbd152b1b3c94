"""The sample voice: progress of the whole job in one place, then both recordings side by side."""

from utils.jobs import Job
from utils.project.paths import AFTER, BEFORE, Project
from utils.runs.progress import Progress
from webui import text
from webui.markup import Markup, join, tag
from webui.views.parts import file_address
from webui.views.run import progress


def sample(job: Job, done: Progress | None, project: Project) -> Markup:
    """How far it is; once it has spoken, the sentence by the base and by the trained voice."""
    pair = [project.folder / name for name in (BEFORE, AFTER)]
    if job.state != "finished" or not all(path.is_file() for path in pair):
        return progress(job, done)
    players = [
        tag(
            "div",
            tag("div", words, class_="step"),
            tag("audio", controls="", preload="none", src=file_address(path), aria_label=words),
            class_="player",
        )
        for words, path in zip((text.SPOKEN_BEFORE, text.SPOKEN_AFTER), pair, strict=True)
    ]
    title = tag("div", text.SAMPLE_DONE, class_="panel-title")
    return tag("div", title, join(*players), tag("div", text.SAMPLE_NEXT, class_="small"), class_="panel")
