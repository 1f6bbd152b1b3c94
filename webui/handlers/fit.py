"""Tab 2: predict before a start whether the form's training fits in memory."""

from utils.bases.catalog import base_folder, read_about, size_in
from utils.checkpoints.layout import READY
from utils.hardware import XTTS_V2, this_machine
from utils.hardware.fit import memory_fit
from webui import text
from webui.change import Updates, Values
from webui.handlers.training import chosen_base, training_config
from webui.studio import Studio
from webui.views.fit import fit

LONGEST = 255_995
"""XTTS v2's longest clip, in samples at 22 050 Hz."""


def predict(studio: Studio, values: Values) -> Updates:
    """Compare the memory that a training with these settings needs, by calculation, with what is free now."""
    project = studio.project(values["project.project"])
    config = training_config(project, values)
    is_ready = values["train.start_from"] == READY
    base = READY if is_ready else str(values["project.base"] or chosen_base(project))
    folder = project.ready if is_ready else base_folder(base)
    defaults = read_about(folder).get("training")
    longest = defaults.get("max_audio_length") if isinstance(defaults, dict) else None
    size = size_in(folder)
    found = memory_fit(
        config,
        this_machine(),
        model=size or XTTS_V2,
        max_audio_length=longest if isinstance(longest, int) else LONGEST,
    )
    return {"train.fit": fit(found, planned_for=text.planned_for(base, size.num_parameters if size else None))}
