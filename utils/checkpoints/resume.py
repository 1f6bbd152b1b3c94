"""Which run, and which of its checkpoints, `--resume last|best|PATH` means; without reading any weights."""

from dataclasses import dataclass
from pathlib import Path

from utils.checkpoints.layout import COMPLETE_FILE, ModelRef, Which, checkpoint_of, checkpoints_of, find_run
from utils.errors import UserError
from utils.project.advice import command
from utils.project.paths import Project


@dataclass(frozen=True, kw_only=True)
class Resume:
    """What to resume."""

    run: Path
    """The run's folder."""
    which: Which = "last"
    """Its newest checkpoint, or its best weights; of no account when a checkpoint is named."""
    checkpoint: Path | None = None
    """The very checkpoint that was named."""


def find_resume(wanted: Path, project: Project) -> Resume:
    """What to resume.

    Args:
        wanted: `last` or `best`, of the run that saved last; a run's folder or name; run/ID/best, run/ID/last or
            run/ID/STEP; or a checkpoint's folder.
        project: where all but folders are looked up.

    Raises:
        UserError: there is no such run, or none that has saved anything.
    """
    kinds: dict[str, Which] = {"last": "last", "best": "best"}
    if which := kinds.get(str(wanted)):
        return Resume(run=_latest(project, which), which=which)
    ref = ModelRef.parse(wanted.as_posix())
    if ref.kind == "run":
        run = find_run(project, ref.name)
        if which := kinds.get(ref.which):
            return Resume(run=run, which=which)
        return Resume(run=run, checkpoint=checkpoint_of(run, ref.which))
    for folder in (wanted, project.runs / wanted):
        if (folder / "config.yaml").is_file():
            return Resume(run=folder)
    if (wanted.parent.parent / "config.yaml").is_file() and wanted.is_dir():
        return Resume(run=wanted.parent.parent, checkpoint=wanted)
    raise UserError(
        what="there is no run to resume, and so no complete checkpoint",
        where=str(wanted),
        fix="use last, best, a run's folder or one of its checkpoints",
    )


def _latest(project: Project, which: Which) -> Path:
    found = [one for run in project.runs.glob("*") for one in checkpoints_of(run) if one.is_best == (which == "best")]
    # By the mark alone: a run whose newest checkpoint is damaged is still the one to resume, from an older one.
    marks = [mark for one in found if (mark := one.path / COMPLETE_FILE).is_file()]
    if not marks:
        raise UserError(
            what=f"project {project.name!r} has no run with a {which} checkpoint to resume from",
            where=str(project.runs),
            fix=f"train: {command('train', project=project)}",
        )
    return max(marks, key=lambda mark: mark.stat().st_mtime).parents[2]
