"""Below the project bar: what a project takes, and its renaming, duplication and deletion."""

from utils.errors import UserError
from utils.hardware.resources import size_of
from utils.jobs.projects import delete_project, duplicate_project, rename_project
from utils.project.paths import Project
from utils.project.uploads import UPLOADS_FOLDER
from webui import forms, text
from webui.change import TOAST, Change, Updates, Values
from webui.handlers.project import bar
from webui.studio import Studio
from webui.views import project as view
from webui.views.parts import gigabytes


def manage(studio: Studio, values: Values) -> Updates:
    """Show what the project takes on the disk, and what can be done with it; hide it where it is shown."""
    if values.get("project.is_managed"):
        return {"project.manage_box": Change(visible=False), "project.is_managed": False}
    project = studio.project(values)
    places = {
        text.UPLOADED_FILES: project.folder / UPLOADS_FOLDER,
        text.DATASET: project.dataset,
        text.RUNS: project.runs,
        text.EXPORTED_MODEL: project.ready,
    }
    sizes = {name: size_of(folder) for name, folder in places.items() if folder.is_dir()}
    shown = view.contents(sizes, size_of(project.folder))
    return {"project.manage_box": Change(visible=True), "project.is_managed": True, "project.contents": shown}


def rename(studio: Studio, values: Values) -> Updates:
    """Give the project another name; its runs can still be resumed."""
    project = rename_project(studio.project(values), _name(values))
    return _done(studio, project, text.PROJECT_RENAMED.format(name=project.name))


def duplicate(studio: Studio, values: Values) -> Updates:
    """Copy the project's uploads, dataset and choices under another name, without runs and models, and select it."""
    project = duplicate_project(studio.project(values), _name(values))
    return _done(studio, project, text.PROJECT_DUPLICATED.format(name=project.name))


def delete(studio: Studio, values: Values) -> Updates:
    """Delete the project with all that it holds; its name must be entered to confirm it."""
    project = studio.project(values)
    if _name(values) != project.name:
        raise UserError(
            what=text.NOT_CONFIRMED, where=text.NEW_PROJECT, fix=text.CONFIRM_WITH.format(name=project.name)
        )
    freed = delete_project(project)
    return _done(studio, None, text.PROJECT_DELETED.format(name=project.name, freed=gigabytes(freed)))


def _name(values: Values) -> str:
    """The name that was entered.

    Raises:
        UserError: none was.
    """
    name = values["project.new_name"]
    return forms.required(name, what=text.NO_NAME, where=text.NEW_PROJECT, fix=text.NO_NAME_FIX)


def _done(studio: Studio, project: Project | None, said: str) -> Updates:
    return bar(studio, project.name if project else None) | {"project.new_project": "", TOAST: said}
