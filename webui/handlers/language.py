"""The language panel of tab 1: check how the base reads the language, extend the base, use the extended one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from utils import jobs
from utils.bases.catalog import base_home, newest_made
from utils.dataset.sources.intake import keep_corpus
from utils.errors import UserError
from utils.project.paths import Project
from utils.project.projects import ProjectSettings, project_language
from utils.text.language_settings import LanguageConfig
from utils.text.languages import AMHARIC
from webui import forms, text
from webui.change import TOAST, Change, Updates, Values
from webui.handlers.project import base_choices, checked_base, chosen_base
from webui.studio import Studio


def look(studio: Studio, values: Values) -> Updates:
    """Check how the base reads the language in a job: unknown letters, tokens per second, texts over the limit."""
    _start(studio, values)
    return {TOAST: text.LOOK_STARTED}


def extend(studio: Studio, values: Values) -> Updates:
    """Start a job that makes a base for the project, with new tokens learned from texts of the language."""
    return {
        TOAST: text.EXTENDING.format(
            name=_start(studio, values, extend=values["language.new_tokens"] or 0, another=True)
        )
    }


def latin(studio: Studio, values: Values) -> Updates:
    """Start a job that makes a base for the project that reads Amharic in a Latin transcription."""
    return {TOAST: text.LATIN_STARTED.format(name=_start(studio, values, g2p=AMHARIC, another=True))}


def adopt(studio: Studio, values: Values) -> Updates:
    """Select the base that was made last for the project's language."""
    project = studio.project(values)
    made = made_base(project)
    if made is None:
        raise UserError(what=text.NO_EXTENDED_BASE, where=text.LANGUAGE_PANEL, fix=text.NO_EXTENDED_BASE_FIX)
    replace(ProjectSettings.load(project), base=made).save(project)
    return {"project.base": Change(choices=base_choices(project), value=made), TOAST: text.ADOPTED}


def made_base(project: Project) -> str | None:
    """The base that was made for the project's language last; None when there is none."""
    found = newest_made(project, project_language(project))
    return found.name if found else None


def next_base(project: Project) -> str:
    """What the next base that is made for the project will be called."""
    return base_home(project.folder, project_language(project), another=True).name


def _start(studio: Studio, values: Values, **fixed: Any) -> str:
    """Begin a look.

    Returns:
        What the base will be called, where one is made.

    Raises:
        UserError: no language, no texts, or another look is being taken.
    """
    project = studio.project(values)
    language = str(values["project.language"] or project_language(project)).strip()
    if not language:
        raise UserError(what=text.NO_LANGUAGE, where=text.LANGUAGE, fix=text.NO_LANGUAGE_FIX)
    config = forms.settings(
        LanguageConfig,
        {},
        where=text.LANGUAGE_PANEL,
        project=project.name,
        output=project.output,
        language=language,
        base=checked_base(project, values["project.base"] or chosen_base(project)),
        **fixed,
    )
    if any(job.alive for job in jobs.list(project, kind="language")):
        raise UserError(what=text.LOOKING_NOW, where=project.name, fix=text.LOOKING_NOW_FIX)
    given = values["language.corpus"]
    corpus = keep_corpus(project, Path(str(given)), quota_bytes=studio.quota_bytes) if given else None
    if corpus is None and not project.train_csv.is_file():
        raise UserError(what=text.NO_TEXTS, where=text.LANGUAGE_PANEL, fix=text.NO_TEXTS_FIX)
    home = base_home(project.folder, language, another=True)
    jobs.start("language", replace(config, corpus=corpus))
    return home.name
