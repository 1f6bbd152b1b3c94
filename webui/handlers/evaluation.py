"""Tab 3: evaluate the project's models on held-out sentences."""

from utils import jobs
from utils.errors import UserError
from utils.evaluation.settings import CHECKPOINTS, EvaluateConfig
from webui import forms, text
from webui.change import TOAST, Updates, Values
from webui.studio import Studio


def start(studio: Studio, values: Values) -> Updates:
    """Measure models on held-out sentences: words, voice and defects. A second call stops the measurement."""
    project = studio.project(values["project.project"])
    running = next((job for job in jobs.list(project, kind="evaluate") if job.alive), None)
    if running is not None:
        jobs.stop(running.folder)
        return {TOAST: text.MEASURING_STOPPED}
    given = values["inference.measure"]
    chosen = [name for name in CHECKPOINTS if isinstance(given, list) and name in given]
    if not chosen:
        raise UserError(what=text.NO_MODELS_TO_MEASURE, where=text.MEASURE_TITLE, fix=text.NO_MODELS_TO_MEASURE_FIX)
    if not project.eval_csv.is_file():
        raise UserError(what=text.NO_DATASET, where=project.name, fix=text.NO_DATASET_FIX)
    config = forms.settings(
        EvaluateConfig,
        {"num_sentences": values["inference.num_sentences"]},
        where=text.MEASURE_TITLE,
        project=project.name,
        output=project.output,
        checkpoint=",".join(chosen),
    )
    if any(job.alive and job.kind == "train" for job in jobs.running(studio.output)):
        # Two models beside a training would slow it down, or end it for want of memory.
        raise UserError(what=text.TRAINING_NOW, where=text.MEASURE_TITLE, fix=text.TRAINING_NOW_FIX)
    freed = studio.start_alone("evaluate", config)
    return {TOAST: text.sentences(text.MEASURING_STARTED, freed)}
