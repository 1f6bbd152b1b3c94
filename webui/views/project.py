"""The line under the project bar: running jobs of this project and of others."""

from collections.abc import Mapping

from utils.jobs import Job
from utils.project.paths import NO_PROJECT, Project
from webui import text
from webui.markup import Markup, tag
from webui.views.parts import gigabytes, state_badge


def contents(sizes: Mapping[str, int], total: int) -> Markup:
    """What a project takes on the disk: each part with its bytes, and all of it, which deleting frees."""
    parts = [tag("span", tag("b", gigabytes(size)), " ", name, class_="fact") for name, size in sizes.items()]
    return tag("div", tag("div", *parts, class_="facts"), tag("div", text.frees(gigabytes(total)), class_="small"))


def activity(project: Project | None, running: list[Job]) -> Markup:
    """Which jobs run now, those of other projects included: they share the machine."""
    if project is None:
        return tag("div", text.FIRST_STEPS, class_="activity first")
    if not running:
        return tag("div", text.NOTHING_RUNNING, class_="activity")
    entries = []
    for job in running:
        owner = job.folder.parent.parent.name
        words = text.job_line(job.kind, "" if owner == NO_PROJECT else owner)
        entries.append(tag("span", state_badge(job.state), " ", words, class_="job"))
    return tag("div", *entries, class_="activity")
