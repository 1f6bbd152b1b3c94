"""Clips of other languages that a run mixes into its epochs, so that the base does not lose them."""

import re
from pathlib import Path
from typing import NamedTuple

from utils.bases.base import Base
from utils.config import TrainConfig
from utils.errors import UserError
from utils.project.paths import Project

SHARE, MOST = 0.1, 0.5
"""Of an epoch's clips: from a project that names no share, and from all together."""


class KeptLanguage(NamedTuple):
    """A prepared dataset in another language."""

    project: Project
    language: str
    """Code, as the tokenizer names it."""
    share: float
    """Of an epoch's clips."""


def kept_languages(config: TrainConfig, base: Base) -> list[KeptLanguage]:
    """What `keep_languages` names.

    Raises:
        UserError: a folder is no prepared dataset, the base does not read its language, or the shares are too large.
    """
    found, taken = list[KeptLanguage](), {Project(name=config.project, output=Path(config.output)).folder.resolve()}
    for folder, share in re.findall(r"\s*([^,]+?)(?::(\d*\.?\d+))?\s*(?:,|$)", config.keep_languages or ""):
        project = Project(name=Path(folder).name, output=Path(folder).parent)
        if not project.train_csv.is_file() or not project.language_file.is_file():
            fix = "name the folder of a project that was prepared in another language, such as output/spanish:0.1"
            raise UserError(what="keep_languages names no prepared dataset", where=folder, fix=fix)
        if project.folder.resolve() in taken:
            fix = "name each project of another language once"
            raise UserError(what="keep_languages names a project that the run has already", where=folder, fix=fix)
        taken.add(project.folder.resolve())
        language = base.tokenizer().check_language(project.language())
        found.append(KeptLanguage(project, language, float(share or SHARE)))
    if (whole := sum(one.share for one in found)) > MOST:
        what = f"keep_languages takes {whole:g} of an epoch's clips"
        raise UserError(what=what, where="training settings", fix=f"use {MOST} at most in all, such as {SHARE} each")
    return found
