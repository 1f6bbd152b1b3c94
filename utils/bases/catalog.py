"""List the available base models, their folders and recommended settings, without loading torch."""

import json
import re
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

from utils.options import STARTER
from utils.project.paths import Project, assets_folder, bases_folder
from utils.settings import Config
from utils.text.languages import plain_code

DOWNLOADED = ("v2.0.2", "v2.0.3", "main")
"""Published XTTS v2 revisions."""
LICENSE_ID = "CPML"
"""License of their weights."""
EMBEDDED = (STARTER, "tiny")
"""Bases that need no download."""
TINY_VERSION = 2
"""Part of the folder's name: raise it when the recipe changes, so that old copies are not mistaken for new ones."""


@dataclass(frozen=True, kw_only=True)
class BaseEntry:
    """A base model by its name."""

    name: str
    folder: Path | None
    """Where it lies; None when it is made on first use."""
    is_here: bool
    """Whether it can be used without a download."""
    about: dict[str, Any] = field(default_factory=dict)
    """The folder's about.json; empty when there is none."""

    @property
    def training(self) -> dict[str, Any]:
        """The base's own training defaults, as far as its about.json names them."""
        own = self.about.get("training")
        return own if isinstance(own, dict) else {}

    @property
    def license(self) -> str:
        return str(self.about.get("license", LICENSE_ID if self.name in DOWNLOADED else ""))


@dataclass(frozen=True, kw_only=True)
class DownloadConfig(Config):
    """Download a published XTTS v2 base."""

    version: str
    """Base to download: v2.0.2, v2.0.3 or main."""
    accept_license: bool = False
    """Accept the license of the weights, which you have read."""
    output: Path = Path("output")
    """The folder that holds all projects, where the download is recorded as a job."""


def known_bases() -> list[BaseEntry]:
    """Every base that can be named, those that need no download first."""
    starter = assets_folder() / STARTER
    entries = [_entry(STARTER, starter, is_here=True)] if (starter / "config.json").is_file() else []
    made = sorted(bases_folder().glob("tiny-*/about.json"), key=lambda path: path.stat().st_mtime)
    entries.append(_entry("tiny", made[-1].parent if made else None, is_here=True))
    for name in DOWNLOADED:
        folder = bases_folder() / name
        entries.append(_entry(name, folder, is_here=has_weights(folder)))
    return entries


def base_folder(name: str) -> Path:
    """Where the base of that name lies, or would; any other name is a folder's own."""
    if name == "tiny":
        return bases_folder() / f"tiny-{TINY_VERSION}"
    if name in DOWNLOADED:
        return bases_folder() / name
    return assets_folder() / STARTER if name == STARTER else Path(name).expanduser()


def project_bases(project: Project) -> list[BaseEntry]:
    """The bases that were made for a project by adding a language; each is named by its folder."""
    folders = sorted(project.folder.glob("base-*")) if project.folder.is_dir() else []
    # A link could lead out of the project.
    return [
        _entry(str(folder), folder, is_here=True)
        for folder in folders
        if not folder.is_symlink() and (folder / "config.json").is_file() and has_weights(folder)
    ]


def base_home(folder: Path, language: str, *, own_dvae: bool = False, another: bool = False) -> Path:
    """Where a base that is made for a language lies in a project's folder.

    Args:
        folder: the project's.
        language: code of the language.
        own_dvae: it gets a DVAE of its own.
        another: beside those that are there, under the first number that is free: base-ka, base-ka-2, base-ka-3, ...
    """
    first = folder / f"base-{plain_code(language)}{'-dvae' if own_dvae else ''}"
    if not another:
        return first
    names = chain([first.name], (f"{first.name}-{number}" for number in count(2)))
    # A link that leads nowhere takes its name, too.
    return next(home for name in names if not ((home := folder / name).exists() or home.is_symlink()))


def newest_made(project: Project, language: str) -> BaseEntry | None:
    """The base that was made last for a project's language, one with a DVAE of its own not counted."""
    name = re.compile(rf"base-{re.escape(plain_code(language))}(-\d+)?")
    made = {
        # Of two of one moment the higher number is the later.
        ((entry.folder / "config.json").stat().st_mtime_ns, len(entry.folder.name), entry.folder.name): entry
        for entry in project_bases(project)
        if entry.folder and name.fullmatch(entry.folder.name)
    }
    return made[max(made)] if made else None


def has_weights(folder: Path) -> bool:
    """Whether a folder holds a model that can be loaded."""
    return any((folder / name).is_file() for name in ("model.safetensors", "model.pth"))


def _entry(name: str, folder: Path | None, *, is_here: bool) -> BaseEntry:
    return BaseEntry(name=name, folder=folder, is_here=is_here, about=read_about(folder) if folder else {})


def read_about(folder: Path) -> dict[str, Any]:
    """A model folder's about.json; empty when it is missing or spoiled."""
    try:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}
