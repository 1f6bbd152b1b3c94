"""Tab 2: recommended settings for this machine and base, and whether a training with them fits in memory."""

from utils.bases.catalog import base_folder, read_about
from utils.errors import UserError
from utils.hardware.estimates import XTTS_V2, ModelSize, size_in
from utils.hardware.machine import this_machine
from utils.hardware.recommendations import USE_CASES, MemoryFit, memory_fit
from utils.options import STARTER
from utils.project.paths import Project
from webui import text
from webui.change import Updates, Values
from webui.handlers.project import chosen_base
from webui.handlers.training import changes, origins, recommended, training_config
from webui.markup import join
from webui.studio import Studio
from webui.views.recommendation import fit, recommendation


def recommend(studio: Studio, values: Values) -> Updates:
    """Return recommended settings for this machine and base, with the reasons and what they change in the form."""
    wish = values["train.use_case"] or "production"
    use_case = next((name for name in USE_CASES if name == wish), None)
    if use_case is None:
        raise UserError(what=text.NO_PURPOSE.format(name=wish), where=text.USE_CASE, fix=text.use_one_of(USE_CASES))
    project = studio.project_or_none(values)
    base = values["project.base"] or (chosen_base(project) if project else "") or STARTER
    found, form = recommended(base, use_case)
    size = size_in(base_folder(base))
    panel = recommendation(
        found,
        planned_for=text.planned_for(base, size.num_parameters if size else None),
        changes=changes(values, form),
    )
    fits = _fit(project, base, size, values | form) if project else found.fit
    return form | {"train.recommended": join(panel, fit(fits)), "train.origins": origins("recommendation", form)}


def _fit(project: Project, base: str, size: ModelSize | None, values: Values) -> MemoryFit:
    """Whether a training with the form's settings fits in memory: what it needs, by calculation, and what is free."""
    defaults = read_about(base_folder(base)).get("training")
    longest = defaults.get("max_audio_length") if isinstance(defaults, dict) else None
    of_base = {"max_audio_length": longest} if isinstance(longest, int) else {}
    return memory_fit(training_config(project, values), this_machine(), model=size or XTTS_V2, **of_base)
