"""Base models: python -m utils.cli.base list | download v2.0.2 | make-tiny --out DIR."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from utils.bases.catalog import DOWNLOADED, EMBEDDED, BaseEntry, known_bases
from utils.bases.find import REMEDY
from utils.cli.common import progress_phases, run_subcommands
from utils.errors import UserError
from utils.options import STARTER
from utils.project.advice import NAME, command
from utils.project.paths import bases_folder


def list_bases() -> None:
    """Show which base models are here and which can be downloaded."""
    known = {entry.name: entry for entry in known_bases()}
    for name in EMBEDDED + DOWNLOADED:
        print(f"{name:8}  {_where(known[name]) if name in known else REMEDY}")


def download(
    version: Annotated[str, tyro.conf.Positional],
    /,
    repository: str | None = None,
    accept_license: bool = False,
) -> None:
    """Bring a published XTTS v2 base to this computer; a download that was cut is continued.

    Args:
        version: v2.0.2, v2.0.3 or main.
        repository: owner/name on the hub; coqui/XTTS-v2 when not given.
        accept_license: accept the model's license without being asked.
    """
    from utils.bases.download import download_base

    # The bar opens with the first byte of the weights: a question inside it could be neither read nor answered.
    with progress_phases() as report:
        folder = download_base(
            version,
            folder=bases_folder() / version,
            repository=repository,
            accept_license=accept_license,
            ask=_ask if sys.stdin.isatty() else None,
            progress=lambda file, done, total: report(f"downloading {version} (bytes)", done, total),
        )
    print(folder)
    print(f"next: {_next(version)}")


def _next(version: str) -> str:
    """How to train from a base."""
    return command("train", project=NAME, base=version)


def make_tiny(out: Path) -> None:
    """Write the tiny base to a folder of your own.

    Args:
        out: folder to make; it must not exist or be empty.
    """
    from utils.bases.tiny import make_tiny as make

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(what="the folder is not empty", where=str(out), fix="name a folder that does not exist")
    print(make(out))


def _where(entry: BaseEntry) -> str:
    if entry.name == STARTER:
        return f"{entry.folder}, ships with the project: small, English"
    if entry.name in EMBEDDED:
        return "made when first used; speaks noise"
    assert entry.folder is not None, "downloaded bases have a folder"
    return str(entry.folder) if _is_here(entry.folder) else f"not here: {command('base', 'download', entry.name)}"


def _is_here(folder: Path) -> bool:
    from utils.bases.find import verify_base

    try:
        verify_base(folder)
    except UserError:
        return False
    return True


def _ask(notice: str) -> bool:
    print(notice)
    return input("Do you accept this license? [y/N] ").strip().lower() in ("y", "yes")


main = partial(
    run_subcommands,
    {"list": list_bases, "download": download, "make-tiny": make_tiny},
    "List, download and make base models.",
)
"""The command; see `utils.cli.common.run_command` for its exit statuses."""


if __name__ == "__main__":
    main()
