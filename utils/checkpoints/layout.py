"""How a run's checkpoints lie on disk: names, which are complete, and which run a name means; without loading torch."""

import json
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from utils.errors import UserError
from utils.project.advice import command
from utils.project.disk import size_of
from utils.project.paths import Project, check_name

CHECKPOINTS = "checkpoints"
MODEL_FILE = "model.safetensors"
ADAPTER_FILE = "adapter.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
STATE_FILE = "state.json"
COMPLETE_FILE = "complete.json"
LAST, BEST = "step-", "best-"
ASIDE = ".writing-"
"""Prefix of a checkpoint that is being written."""
LEFT = "left-"
"""Prefix of a checkpoint that a resume from an earlier one went past."""
REMOVING = ".removing-"
"""A folder that is being removed gets this prefix first: what is half gone must not look whole."""


@dataclass(frozen=True, kw_only=True)
class CheckpointFolder:
    """One checkpoint on disk."""

    path: Path
    step: int
    is_best: bool
    """Holds weights only, of the best evaluation when it was written."""
    is_complete: bool
    num_bytes: int


def find_run(project: Project, name: str) -> Path:
    """The folder of a run.

    Raises:
        UserError: the project has no such run.
    """
    folder = project.runs / check_name(name, kind="run")
    # A link could lead out of the project.
    if not folder.is_dir() or folder.is_symlink():
        raise UserError(
            what=f"project {project.name!r} has no run {name!r}",
            where=str(project.runs),
            fix=f"see its runs: {command('runs', 'list', project=project)}",
        )
    return folder


def start_checkpoint(project: Project, base: str) -> Path | None:
    """The checkpoint that a training's base names: run/ID/best or run/ID/last, of a run of the project.

    Args:
        project: whose run.
        base: as in the settings.

    Returns:
        Its folder; None when the base is no run.

    Raises:
        UserError: there is no such run, or it has no such checkpoint that is complete.
    """
    kind, _, rest = base.partition("/")
    name, _, which = rest.partition("/")
    if kind != "run" or which not in ("best", "last"):
        return None
    run = find_run(project, name)
    found = [one.path for one in checkpoints_of(run) if one.is_complete and one.is_best == (which == "best")]
    if not found:
        raise UserError(
            what=f"run {name!r} has no complete {which} checkpoint to start from",
            where=str(run),
            fix="choose another checkpoint or another run",
        )
    return found[-1]


def starts_of(run: Path) -> list[str]:
    """What `start_checkpoint` finds of a run, by a glance: whether the marks are there, not whether they are true."""
    try:
        folders = list((run / CHECKPOINTS).iterdir())
    except OSError:
        return []
    kinds = {folder.name[: len(LAST)] for folder in folders if (folder / "complete.json").is_file()}
    return [f"run/{run.name}/{which}" for which, prefix in (("best", BEST), ("last", LAST)) if prefix in kinds]


def checkpoints_of(run: Path) -> list[CheckpointFolder]:
    """The checkpoints of a run, by step."""
    found = []
    for path in (run / CHECKPOINTS).glob("*-*"):
        name = path.name.removeprefix(ASIDE)
        kind, number = name[: len(LAST)], name[len(LAST) :]
        whole = is_complete(path)
        # A kill just before the last renaming leaves a checkpoint whole under its temporary name.
        if kind in (LAST, BEST) and number.isdigit() and path.is_dir() and (whole or name == path.name):
            found.append(
                CheckpointFolder(
                    path=path,
                    step=int(number),
                    is_best=kind == BEST,
                    is_complete=whole,
                    num_bytes=size_of(path),
                )
            )
    return sorted(found, key=lambda checkpoint: (checkpoint.step, checkpoint.is_best))


def discard(folder: Path) -> None:
    """Remove a folder under another name: what a kill in the middle leaves looks like nothing else, and can be found.

    Raises:
        OSError: the system does not allow it.
    """
    aside = folder
    if not folder.name.startswith(REMOVING):
        aside = folder.with_name(REMOVING + folder.name)
        shutil.rmtree(aside, ignore_errors=True)
    # Somebody else may be removing the same: then it is gone all the same.
    with suppress(FileNotFoundError):
        if aside != folder:
            folder.rename(aside)
        shutil.rmtree(aside)


def freed_by(checkpoint: Path) -> int:
    """Bytes that removing a checkpoint frees: weights that the best one shares stay."""
    files = [path.lstat() for path in checkpoint.rglob("*") if path.is_file()]
    return sum(facts.st_size for facts in files if facts.st_nlink == 1)


def is_complete(checkpoint: Path) -> bool:
    """Whether every file of a checkpoint is there in its full size, as utils.checkpoints.store marked it."""
    try:
        marks = json.loads((checkpoint / "complete.json").read_text(encoding="utf-8"))
        return all((checkpoint / name).stat().st_size == mark["size"] for name, mark in marks.items())
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False
