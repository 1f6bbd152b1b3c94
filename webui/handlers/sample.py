"""The first minute: try everything with the bundled sample voice."""

from itertools import count

from utils import jobs
from utils.config import DemoConfig
from utils.errors import UserError
from utils.jobs import Job
from utils.options import STARTER
from utils.project.paths import Project
from utils.project.projects import ProjectSettings, create_project
from utils.runs.progress import progress_of
from webui import text
from webui.change import TOAST, Updates, Values
from webui.handlers.project import bar, names
from webui.markup import Markup, join
from webui.studio import Studio
from webui.views import sample as view


def try_sample(studio: Studio, values: Values) -> Updates:
    """Make a project of the sample voice, and start a job that prepares, trains, exports and speaks it."""
    if any(job.alive and job.kind in ("train", "demo") for job in jobs.running(studio.output)):
        raise UserError(what=text.TRAINING_NOW, where=text.TRY_SAMPLE, fix=text.TRAINING_NOW_FIX)
    known = names(studio)
    wanted = ("sample" if number == 1 else f"sample-{number}" for number in count(1))
    name = next(name for name in wanted if name not in known)
    project = create_project(name, studio.output, ProjectSettings(language="en", base=STARTER))
    freed = studio.start_alone("demo", DemoConfig(project=project.name, output=project.output))
    return bar(studio, name) | {TOAST: text.sentences(text.SAMPLE_STARTED, freed)}


def shown(studio: Studio, project: Project, found: list[Job]) -> Markup:
    """How far the sample voice is, and at the end both recordings; nothing in other projects."""
    job = next((job for job in found if job.kind == "demo"), None)
    if job is None:
        return join()
    return view.sample(job, progress_of(job, studio.log_of(job.events)), project)
