"""The project bar: list the projects, choose one, and set its language and base."""

from dataclasses import replace

from utils import jobs
from utils.bases.catalog import BaseEntry, known_bases, project_bases
from utils.config import TrainConfig
from utils.errors import UserError
from utils.project.paths import Project
from utils.project.projects import ProjectSettings, create_project, list_projects, project_language
from webui import text
from webui.change import TOAST, Change, Updates, Values
from webui.studio import Studio

DEFAULT_BASE = TrainConfig(project="any").base
"""The base that needs no download: what the command line takes as well."""
DEFAULT_LANGUAGE = "en"


def show_projects(studio: Studio, values: Values) -> Updates:
    """List the projects and select one: the browser's last project, or the first."""
    names = _names(studio)
    wanted = (values.get("project.project"), values.get("project.last"))
    return bar(studio, next((name for name in wanted if name in names), None))


def create(studio: Studio, values: Values) -> Updates:
    """Create a project and select it."""
    words = str(values["project.new_project"] or "").split()
    # A folder's name has no spaces: "My voice" becomes my-voice.
    name = "-".join(words).lower() if len(words) > 1 else "".join(words)
    if not name:
        raise UserError(what=text.NO_NAME, where=text.NEW_PROJECT, fix=text.NO_NAME_FIX)
    # The bar may still name a base that belongs to another project.
    others = [entry.name for other in list_projects(studio.output) for entry in project_bases(other)]
    base = values["project.base"]
    base = DEFAULT_BASE if not base or base in others else checked_base(None, base)
    settings = ProjectSettings(language=values["project.language"] or DEFAULT_LANGUAGE, base=base)
    project = create_project(name, studio.output, settings)
    return bar(studio, project.name) | {
        "project.new_project": "",
        TOAST: text.PROJECT_CREATED.format(name=project.name),
    }


def choose(studio: Studio, values: Values) -> Updates:
    """Select an existing project."""
    return bar(studio, studio.project(values["project.project"]).name)


def keep_language(studio: Studio, values: Values) -> Updates:
    """Save the project's language. The language of an existing dataset does not change."""
    if not values["project.project"]:
        return {}
    project = studio.project(values["project.project"])
    replace(ProjectSettings.load(project), language=str(values["project.language"] or "")).save(project)
    return {"project.language": _language(project)}


def keep_base(studio: Studio, values: Values) -> Updates:
    """Save the project's base model."""
    if not values["project.project"]:
        return {}
    project = studio.project(values["project.project"])
    base = checked_base(project, values["project.base"])
    replace(ProjectSettings.load(project), base=base).save(project)
    return {"project.base": base}


def chosen_base(project: Project) -> str:
    """The base that a project is prepared and trained with."""
    return ProjectSettings.load(project).base or DEFAULT_BASE


def checked_base(project: Project | None, base: object) -> str:
    """A base that the page offers: a known one, or one that was made for the project.

    Raises:
        UserError: another one, such as a folder somewhere on the server.
    """
    known = [entry.name for entry in bases_of(project)]
    if base not in known:
        raise UserError(what=text.NO_BASE.format(name=str(base)), where=text.BASE, fix=text.use_one_of(known))
    return str(base)


def bases_of(project: Project | None) -> list[BaseEntry]:
    """The bases that a project can be made from."""
    return known_bases() + (project_bases(project) if project else [])


def base_choices(project: Project | None = None) -> list[tuple[str, str]]:
    """Every base as (what people read, its name)."""
    return [(text.base_choice(entry.name, is_here=entry.is_here), entry.name) for entry in bases_of(project)]


def kept(studio: Studio, project: Project | None) -> Updates:
    """What is kept of the bar, which another browser may have changed: projects, and the chosen one's settings."""
    updates: Updates = {"project.project": Change(choices=[(name, name) for name in _names(studio)])}
    if project is None:
        return updates
    base = Change(choices=base_choices(project), value=chosen_base(project))
    return updates | {"project.language": _language(project), "project.base": base}


def _names(studio: Studio) -> list[str]:
    return [project.name for project in list_projects(studio.output)]


def bar(studio: Studio, chosen: str | None = None) -> Updates:
    """The bar with this project selected, or the first; without any, a new one can be named at once."""
    names = _names(studio)
    chosen = chosen or next(iter(names), None)
    managed = {"project.manage_box": Change(visible=chosen is None), "project.is_managed": chosen is None}
    if chosen is None:
        return managed | {
            "project.project": Change(choices=names, value=None),
            "project.language": Change(value=DEFAULT_LANGUAGE, interactive=True, visible=True),
            "project.base": Change(choices=base_choices(), value=DEFAULT_BASE),
            "project.last": "",
        }
    own = {"project.project": Change(choices=names, value=chosen), "project.last": chosen}
    return managed | kept(studio, studio.project(chosen)) | own


def _language(project: Project) -> Change:
    """The language, which cannot be changed any more once there is a dataset."""
    has_dataset = project.language_file.is_file()
    return Change(
        value=project_language(project) or DEFAULT_LANGUAGE,
        interactive=not has_dataset,
        # The report names it then.
        visible=not has_dataset,
    )


def stop_running(studio: Studio, values: Values, kind: str, *, where: str, fix: str) -> None:
    """Stop the project's running job of a kind.

    Raises:
        UserError: none runs; says where it was to be stopped, and what to do instead.
    """
    project = studio.project(values["project.project"])
    job = next((job for job in jobs.list(project, kind=kind) if job.alive), None)
    if job is None:
        raise UserError(what=text.NOTHING_RUNS, where=where, fix=fix)
    jobs.stop(job.folder)
