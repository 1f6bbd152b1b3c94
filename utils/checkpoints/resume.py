"""Which run, and which of its checkpoints, `--resume last|best|PATH` means; without reading any weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from utils.errors import UserError
from utils.project.advice import command
from utils.project.paths import Project

PREFIXES = {"last": "step-", "best": "best-"}
"""Names of checkpoint folders by what they are."""


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Where to go on from."""

    run: Path
    """The run's folder."""
    which: Literal["last", "best"] = "last"
    """Its newest checkpoint, or its best weights; of no account when a checkpoint is named."""
    checkpoint: Path | None = None
    """The very checkpoint that was named."""


def find_resume(wanted: Path, project: Project) -> Resume:
    """What to go on from.

    Args:
        wanted: `last` or `best`, of the run that saved last; a run's folder or name; or a checkpoint's folder.
        project: where `last`, `best` and names are looked up.

    Raises:
        UserError: there is no such run, or none that has saved anything.
    """
    for which in ("last", "best"):
        if str(wanted) == which:
            return Resume(run=_latest(project, which), which="best" if which == "best" else "last")
    for folder in (wanted, project.runs / wanted):
        if (folder / "config.yaml").is_file():
            return Resume(run=folder)
    if (wanted.parent.parent / "config.yaml").is_file() and wanted.is_dir():
        return Resume(run=wanted.parent.parent, checkpoint=wanted)
    raise UserError(
        what="there is no run to go on with, and so no complete checkpoint",
        where=str(wanted),
        fix="use last, best, a run's folder or one of its checkpoints",
    )


def _latest(project: Project, which: str) -> Path:
    marks = list(project.runs.glob(f"*/checkpoints/{PREFIXES[which]}*/complete.json"))
    if not marks:
        raise UserError(
            what=f"project {project.name!r} has no run with a {which} checkpoint to go on from",
            where=str(project.runs),
            fix=f"train: {command('train', project=project)}",
        )
    return max(marks, key=lambda mark: mark.stat().st_mtime).parents[2]
