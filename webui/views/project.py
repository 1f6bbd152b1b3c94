"""The bar's line: the steps of a project, and what runs now; and what a project takes on the disk."""

from collections.abc import Mapping, Sequence

from utils.jobs import Job
from utils.project.paths import NO_PROJECT, Project
from utils.runs.layout import CHECKPOINTS, VOICE_FILE
from utils.runs.progress import Progress
from utils.speech.takes import take_folders
from webui import text
from webui.markup import Markup, tag
from webui.views.parts import duration, fact_row, gigabytes, small, state_badge


def contents(sizes: Mapping[str, int], total: int) -> Markup:
    """What a project takes on the disk: each part with its bytes, and all of it, which deleting frees."""
    parts = fact_row((tag("b", gigabytes(size)), " ", name) for name, size in sizes.items())
    return tag("div", parts, small(text.FREES.format(size=gigabytes(total))))


def steps_done(project: Project, jobs: Sequence[Job] = ()) -> dict[str, bool]:
    """Which steps a project has behind it, as its folder says; none that one of its jobs is still at."""
    alive = {job.kind for job in jobs if job.alive}
    return {
        "data": "prepare" not in alive and project.report.is_file() and project.train_csv.is_file(),
        "train": "train" not in alive and any(project.runs.glob(f"*/{CHECKPOINTS}/*")),
        "export": "export" not in alive and any((project.ready / name).is_file() for name in ("model.pth", VOICE_FILE)),
        "listen": any(take_folders(project)),
    }


def stepper(project: Project | None, export_s: float | None = None, jobs: Sequence[Job] = ()) -> Markup:
    """The four steps of a voice: which are done, which is next, and what that one needs.

    Args:
        project: the project on the page.
        export_s: how long the last export on this computer took, where one is known.
        jobs: the project's; while one runs, nothing is needed.
    """
    done = steps_done(project, jobs) if project else dict.fromkeys(text.STEPS, False)
    present = next((name for name, is_done in done.items() if not is_done), None)
    items = []
    for name, is_done in done.items():
        state = "done" if is_done else "now" if name == present else "later"
        name_of = [text.STEPS[name], tag("span", f" ({text.STEP_STATES[state]})", class_="for-readers")]
        mark = tag("span", "✓ " if is_done else "", aria_hidden="true")
        items.append(tag("li", mark, *name_of, class_=state, aria_current="step" if name == present else None))
    is_idle = not any(job.alive for job in jobs)
    words = text.STEP_NEEDS[present] if project and present and is_idle else ""
    if words and present == "export":
        words = text.sentences(words, text.export_takes(duration(export_s) if export_s else ""))
    needed = tag("span", words, class_="small") if words else None
    return tag("div", tag("ol", *items, class_="steps", aria_label=text.STEPS_TITLE), needed, class_="stepper")


def activity(
    project: Project | None,
    jobs: Sequence[Job],
    running: Sequence[Job],
    done: Progress | None,
    export_s: float | None = None,
) -> Markup:
    """The steps, and one line: the job that runs here with its progress, the failure that ended the newest, or nothing.

    Args:
        project: the project on the page.
        jobs: its jobs, the newest first.
        running: jobs that run now, those of other projects included: they share the machine.
        done: how far the project's running job is.
        export_s: how long the last export on this computer took, where one is known.
    """
    if project is None:
        return tag("div", stepper(project), tag("div", text.FIRST_STEPS, class_="activity first"))
    own = next((job for job in jobs if job.alive), None)
    others = [job for job in running if own is None or job.folder != own.folder]
    line = [_job(own, done)] if own else []
    if not line and jobs and jobs[0].state in ("failed", "lost"):
        words = f"{text.run_title(jobs[0].kind, jobs[0].name)}: {jobs[0].message or text.ENDED[jobs[0].state]}"
        line = [tag("div", state_badge(jobs[0].state), " ", text.on_page(words), class_="job failure", role="status")]
    for job in others:
        owner = job.folder.parent.parent.name
        words = text.job_line(job.kind, "" if owner == NO_PROJECT else owner)
        line.append(tag("span", state_badge(job.state), " ", words, class_="job"))
    return tag("div", stepper(project, export_s, jobs), tag("div", *line, class_="activity") if line else None)


def _job(job: Job, done: Progress | None) -> Markup:
    title = [state_badge(job.state), " ", text.run_title(job.kind, job.name)]
    if done is None:
        return tag("div", *title, class_="job")
    facts = [text.phase(done.what), text.count_of(done.done, done.total)]
    facts += [text.TIME_LEFT.format(duration=duration(done.seconds_left))] if done.seconds_left is not None else []
    filled = tag("span", class_="piece done", style=f"width:{100 * (done.share or 0):.1f}%")
    return tag("div", *title, " ", " · ".join(facts), tag("div", filled, class_="track"), class_="job")
