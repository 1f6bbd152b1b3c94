"""Find a base model by its name or folder, or as a run's."""

import json
from pathlib import Path

from utils.bases.base import Base, where_it_lies
from utils.bases.catalog import DOWNLOADED, EMBEDDED, base_folder
from utils.bases.verify import check_files
from utils.errors import UserError
from utils.options import STARTER
from utils.project.advice import command


def find_base(name: str) -> Base:
    """The base of that name or folder; `tiny` is made when it is first asked for.

    Args:
        name: v2.0.2, starter, a folder, ...

    Raises:
        UserError: not downloaded yet, no such base, a folder without a model, or a packed base with a changed file.
    """
    if name == "tiny":
        from utils.bases.tiny import ensure_tiny

        return Base(ensure_tiny())
    folder = base_folder(name)
    if not folder.is_dir():
        known = ", ".join(EMBEDDED + DOWNLOADED)
        fix = f"use one of {known}, a model folder, an earlier run's ready/ folder, or run/ID/best"
        if name in DOWNLOADED:
            fix = f"download it first: {command('base', 'download', name)}"
        raise UserError(what=f"there is no base {name!r}", where=str(folder), fix=fix)
    base = Base(folder)
    check_files(folder, base.about, must_list=name == STARTER)
    _ = base.weights, base.config
    return base


def run_base(run: Path, base: Base | None = None) -> Base:
    """The base a run started from, also where it was moved together with the project.

    Args:
        run: its folder.
        base: where the run's settings name it, so that it need not be where it was.

    Raises:
        UserError: its folder is gone, or holds another version now.
    """
    try:
        origin = json.loads((run / "base.json").read_text(encoding="utf-8"))
        folder = Path(origin["folder"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(what=f"the run does not say which base it started from: {error}", where=str(run)) from error
    project = run.absolute().parent.parent
    # Beside the output folder lies a base that was named by a relative path, and was moved with it.
    base = base or Base(where_it_lies(folder, project, project / "dataset", project.parent.parent))
    if not base.folder.is_dir():
        raise UserError(
            what=f"the run's base {origin['name']} is gone",
            where=str(base.folder),
            fix="download or make it again there",
        )
    return base.require_version(origin, what=f"the run {run.name}", where=run)
