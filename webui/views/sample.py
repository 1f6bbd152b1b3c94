"""The sample voice: progress of the whole job in one place, then both recordings side by side."""

from utils.jobs import Job
from utils.project.paths import AFTER, BEFORE, HELD_OUT, Project, assets_folder
from utils.runs.layout import REFERENCE_FILE
from utils.runs.progress import Progress
from webui import text
from webui.markup import Markup, tag
from webui.views.parts import framed, recording, small
from webui.views.run import progress


def sample(job: Job, done: Progress | None, project: Project) -> Markup:
    """How far it is; once it has spoken, the sentence, the real voice, the base and the trained voice."""
    pair = [project.folder / name for name in (BEFORE, AFTER)]
    if job.state != "finished" or not all(path.is_file() for path in pair):
        return progress(job, done)
    sentence = (assets_folder() / HELD_OUT).read_text(encoding="utf-8").splitlines()[0]
    real = project.ready / REFERENCE_FILE
    names = (text.REAL_VOICE, text.SPOKEN_BEFORE, text.SPOKEN_AFTER)
    players = [recording(*named) for named in zip(names, (real, *pair), strict=True) if named[1].is_file()]
    hint = small(text.SAMPLE_NEXT)
    return framed(text.SAMPLE_DONE, tag("div", f"“{sentence}”"), *players, hint)
