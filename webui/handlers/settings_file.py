"""Tab 2: the form's settings as the command and the file that train with them, and a file's settings in the form."""

from pathlib import Path

from utils.config import TrainConfig
from utils.project.advice import train_command
from webui import forms, text
from webui.change import Change, Updates, Values
from webui.handlers.training import changes, form_of, origins, training_config
from webui.studio import Studio
from webui.views.recommendation import settings_loaded

FILE = "settings.yaml"
"""In the project's folder; `python -m utils.cli.train --config` reads it, as it reads a run's config.yaml."""


def show_command(studio: Studio, values: Values) -> Updates:
    """Return the command that trains with the form's settings, and a settings file for `--config`."""
    project = studio.project(values)
    config = training_config(project, values)
    path = project.folder / FILE
    config.save(path)
    return {
        "train.command": train_command(config, project),
        "train.settings_file": Change(value=str(path), visible=True),
    }


def load(studio: Studio, values: Values) -> Updates:
    """Set the form to the settings of a file, such as a run's config.yaml, and return what that changed.

    The file's project, base and run do not apply: the page says which they are.
    """
    project, given = studio.project(values), values["train.settings_upload"]
    path = Path(forms.required(given, what=text.NO_SETTINGS_FILE, where=text.ADVANCED, fix=text.NO_SETTINGS_FILE_FIX))
    own = {"project": project.name, "output": str(project.output), "resume": None, "run_id": None}
    saved = {name: value for name, value in TrainConfig.read(path).items() if name != "base"}
    config = TrainConfig.from_saved(saved | own, where=path.name).validate(where=path.name)
    form = form_of(config)
    panel = settings_loaded(path.name, changes(values, form), config.retired)
    return form | {"train.recommended": panel, "train.origins": origins("file", form)}
