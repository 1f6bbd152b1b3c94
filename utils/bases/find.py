"""Find a base model by its name or folder."""

from utils.bases.base import Base
from utils.bases.catalog import DOWNLOADED, EMBEDDED, base_folder
from utils.bases.shipped import check_files
from utils.config import STARTER
from utils.errors import UserError
from utils.project.advice import command


def find_base(name: str) -> Base:
    """The base of that name or folder; `tiny` is made when it is first asked for.

    Raises:
        UserError: not downloaded yet, no such base, a folder without a model, or a packed base with a changed file.
    """
    if name == "tiny":
        from utils.bases.tiny import ensure_tiny

        return Base(ensure_tiny())
    folder = base_folder(name)
    if not folder.is_dir():
        raise UserError(what=f"there is no base {name!r}", where=str(folder), fix=_advice(name))
    base = Base(folder)
    check_files(folder, base.about, must_list=name == STARTER)
    _ = base.weights, base.config
    return base


def _advice(name: str) -> str:
    if name in DOWNLOADED:
        return f"download it first: {command('base', 'download', name)}"
    return (
        f"use one of {', '.join(EMBEDDED + DOWNLOADED)}, a model folder, an earlier run's ready/ folder, or run/ID/best"
    )
