"""Tab 3, the list of takes: rename, delete, and one file of a take."""

from utils.errors import UserError
from utils.project.paths import Project
from utils.speech.recording_file import recording_file
from utils.speech.takes import delete_take, rename_take
from webui import text
from webui.change import TOAST, Change, Updates, Values
from webui.handlers.inference import chosen_take
from webui.studio import Studio


def rename(studio: Studio, values: Values) -> Updates:
    """Give the chosen take a name; an empty one takes it away."""
    name = values["inference.take_name"]
    if name is not None and not isinstance(name, str):
        raise UserError(what=text.NO_TAKE_NAME, where=text.TAKE_NAME)
    project, take = chosen_take(studio, values)
    rename_take(take, name or "")
    return _listed(studio, project, take.id) | {"inference.take_name": ""}


def delete(studio: Studio, values: Values) -> Updates:
    """Delete the chosen take with its recordings."""
    project, take = chosen_take(studio, values)
    delete_take(take)
    # The players must not keep a file that is gone.
    is_shown = values.get("inference.current") == take.id
    cleared = {"inference.whole": None, "inference.player": None, "inference.status": "", "inference.current": ""}
    return _listed(studio, project, None) | (cleared if is_shown else {}) | {TOAST: text.TAKE_DELETED}


def write_file(studio: Studio, values: Values) -> Updates:
    """Return the chosen take as one file; m4b has a chapter for each line."""
    _, take = chosen_take(studio, values)
    file = recording_file(take, str(values["inference.take_format"] or ""))
    return {"inference.zip": Change(value=str(file), visible=True)}


def _listed(studio: Studio, project: Project, chosen: str | None) -> Updates:
    takes = studio.takes.newest(project)
    return {"inference.take": Change(choices=[(take.label, take.id) for take in takes], value=chosen)}
