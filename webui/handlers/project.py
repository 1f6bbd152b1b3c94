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
    known = names(studio)
    wanted = (values.get("project.project"), values.get("project.last"))
    return bar(studio, next((name for name in wanted if name in known), None))


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
    return bar(studio, studio.project(values).name)


def keep_language(studio: Studio, values: Values) -> Updates:
    """Save the project's language. The language of an existing dataset does not change."""
    if not values["project.project"]:
        return {}
    project = studio.project(values)
    replace(ProjectSettings.load(project), language=str(values["project.language"] or "")).save(project)
    return {"project.language": _language(project)}


def keep_base(studio: Studio, values: Values) -> Updates:
    """Save the project's base model."""
    if not values["project.project"]:
        return {}
    project = studio.project(values)
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
    return [
        (text.base_name(entry.name) + ("" if entry.is_here else f" ({text.NOT_HERE})"), entry.name)
        for entry in bases_of(project)
    ]


def kept(studio: Studio, project: Project | None) -> Updates:
    """What is kept of the bar, which another browser may have changed: projects, and the chosen one's settings."""
    updates: Updates = {"project.project": Change(choices=[(name, name) for name in names(studio)])}
    return updates | _settings(project) if project else updates


def names(studio: Studio) -> list[str]:
    """All projects by name."""
    return [project.name for project in list_projects(studio.output)]


def bar(studio: Studio, chosen: str | None = None) -> Updates:
    """The bar with this project selected, or the first; without any, a new one can be named at once."""
    known = names(studio)
    chosen = chosen or next(iter(known), None)
    project = studio.project({"project.project": chosen}) if chosen else None
    return {
        "project.manage_box": Change(visible=project is None),
        "project.is_managed": project is None,
        "project.project": Change(choices=known, value=chosen),
        **_settings(project),
        "project.last": chosen or "",
    }


def _settings(project: Project | None) -> Updates:
    base = chosen_base(project) if project else DEFAULT_BASE
    return {
        "project.language": _language(project),
        "project.base": Change(choices=base_choices(project), value=base),
    }


def _language(project: Project | None) -> Change:
    """The language, which cannot be changed any more once there is a dataset, and the report names it."""
    is_open = project is None or not project.language_file.is_file()
    language = project_language(project) if project else ""
    return Change(value=language or DEFAULT_LANGUAGE, interactive=is_open, visible=is_open)


def stop_running(studio: Studio, values: Values, kind: str, *, where: str, fix: str) -> None:
    """Stop the project's running job of a kind.

    Raises:
        UserError: none runs; says where it was to be stopped, and what to do instead.
    """
    project = studio.project(values)
    job = next((job for job in jobs.list(project, kind=kind) if job.alive), None)
    if job is None:
        raise UserError(what=text.NOTHING_RUNS, where=where, fix=fix)
    jobs.stop(job.folder)
