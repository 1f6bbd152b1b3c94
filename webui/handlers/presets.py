"""What fills the form of tab 2 at a click: presets under names, and the combination that preflight recommends."""

from pathlib import Path

from utils.config import TrainConfig
from utils.errors import UserError
from utils.project.measured_switches import MeasuredSwitches
from utils.project.presets import add_preset, list_presets, preset_file, read_preset, remove_preset, save_preset
from webui import forms, text
from webui.change import TOAST, Change, Updates, Values
from webui.handlers.training import FORM, FORM_IDS, changes, form_of, origins, switches
from webui.studio import Studio
from webui.views.recommendation import measured_applied, preset_applied

PROJECT = "preset"
"""Stands for the project, which belongs to no preset."""


def choose(studio: Studio, values: Values) -> Updates:
    """Offer the chosen preset's file for download."""
    file = preset_file(studio.output, str(values["train.preset"] or ""))
    return {"train.preset_file": Change(value=str(file) if file else None, visible=file is not None)}


def save(studio: Studio, values: Values) -> Updates:
    """Save the form's settings under a name; a preset that has it is replaced."""
    form = forms.by_field(values, FORM) | switches(values)
    config = forms.settings(TrainConfig, form, where=text.TRAIN_TAB, project=PROJECT)
    name = save_preset(studio.output, _name(values), config)
    return _chosen(studio, name) | {TOAST: text.preset_saved(name)}


def apply(studio: Studio, values: Values) -> Updates:
    """Set the form to a preset's settings, and return what that changed and which settings are unknown here."""
    preset = read_preset(studio.output, _name(values))
    form = form_of(preset.config)
    panel = preset_applied(preset, changes(values, form))
    return form | {"train.preset_shown": panel, "train.origins": origins("preset", form)}


def apply_measured(studio: Studio, values: Values) -> Updates:
    """Set the form to the combination that preflight recommends, and return what that changed."""
    project = studio.project(values["project.project"])
    found = MeasuredSwitches.load(project)
    if found.best is None:
        raise UserError(what=text.PREFLIGHT_MISSING, where=text.PREFLIGHT, fix=text.PREFLIGHT_MISSING_FIX)
    row = found.rows[found.best]
    wanted = TrainConfig.from_values({**row.settings, "project": project.name}, where=str(project.folder))
    wanted.validate(where=str(project.folder))
    form = {key: value for key, value in form_of(wanted).items() if key in FORM_IDS or not key.startswith(FORM)}
    panel = measured_applied(row.name, changes(values, form))
    return form | {"train.recommended": panel, "train.origins": origins("recommendation", form)}


def remove(studio: Studio, values: Values) -> Updates:
    """Delete a preset."""
    name = _name(values)
    remove_preset(studio.output, name)
    return _chosen(studio, "") | {"train.preset_shown": "", TOAST: text.preset_removed(name)}


def upload(studio: Studio, values: Values) -> Updates:
    """Add a preset from a file, such as one downloaded on another machine."""
    given = values["train.preset_upload"]
    if not isinstance(given, str) or not given:
        return {}
    preset = add_preset(studio.output, Path(given))
    return _chosen(studio, preset.name) | {TOAST: text.preset_added(preset.name, preset.unknown)}


def _name(values: Values) -> str:
    """The name that is chosen or entered.

    Raises:
        UserError: there is none.
    """
    name = str(values["train.preset"] or "").strip()
    if not name:
        raise UserError(what=text.NO_PRESET, where=text.PRESETS, fix=text.NO_PRESET_FIX)
    return name


def _chosen(studio: Studio, name: str) -> Updates:
    return {"train.preset": Change(choices=list_presets(studio.output), value=name)} | choose(
        studio, {"train.preset": name}
    )
