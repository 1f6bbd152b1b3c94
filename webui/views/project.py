"""The line under the project bar: running jobs of this project and of others."""

from collections.abc import Mapping

from utils.jobs import Job
from utils.project.paths import NO_PROJECT, Project
from utils.runs.layout import CHECKPOINTS
from utils.speech.takes import take_folders
from webui import text
from webui.markup import Markup, tag
from webui.views.parts import gigabytes, state_badge


def contents(sizes: Mapping[str, int], total: int) -> Markup:
    """What a project takes on the disk: each part with its bytes, and all of it, which deleting frees."""
    parts = [tag("span", tag("b", gigabytes(size)), " ", name, class_="fact") for name, size in sizes.items()]
    return tag("div", tag("div", *parts, class_="facts"), tag("div", text.frees(gigabytes(total)), class_="small"))


def steps_done(project: Project) -> dict[str, bool]:
    """Which steps a project has behind it, as its folder says."""
    return {
        "data": project.report.is_file() and project.train_csv.is_file(),
        "train": any(project.runs.glob(f"*/{CHECKPOINTS}/*")),
        "export": (project.ready / "model.pth").is_file(),
        "listen": any(take_folders(project)),
    }


def stepper(project: Project | None) -> Markup:
    """The four steps of a voice: which are done, which is next, and what that one needs."""
    done = steps_done(project) if project else dict.fromkeys(text.STEPS, False)
    present = next((name for name, is_done in done.items() if not is_done), None)
    items = []
    for name, is_done in done.items():
        state = "done" if is_done else "now" if name == present else "later"
        words = [text.STEPS[name], tag("span", f" ({text.STEP_STATES[state]})", class_="for-readers")]
        mark = tag("span", "✓ " if is_done else "", aria_hidden="true")
        items.append(tag("li", mark, *words, class_=state, aria_current="step" if name == present else None))
    needed = tag("span", text.STEP_NEEDS[present], class_="small") if project and present else None
    return tag("div", tag("ol", *items, class_="steps", aria_label=text.STEPS_TITLE), needed, class_="stepper")


def activity(project: Project | None, running: list[Job]) -> Markup:
    """The steps, and which jobs run now, those of other projects included: they share the machine."""
    return tag("div", stepper(project), _running(project, running))


def _running(project: Project | None, running: list[Job]) -> Markup:
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
