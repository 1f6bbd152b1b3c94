"""Everything in a project that can speak: its exported model, its runs' checkpoints, and the bases."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from utils.bases.catalog import known_bases, project_bases
from utils.checkpoints.layout import CheckpointFolder, checkpoints_of, find_run
from utils.errors import UserError
from utils.project.paths import Project, check_name

READY = "ready"
Kind = Literal["ready", "run", "base"]


@dataclass(frozen=True, kw_only=True)
class SpeakingModel:
    """One model to speak with."""

    id: str
    """ready, run/ID/best, run/ID/last, or base/NAME: what the page and scripts name it by."""
    kind: Kind
    source: str
    """What the worker loads: a folder for ready, run and a base made for the project, the name of another base."""
    checkpoint: Literal["", "best", "last"] = ""
    """Which of the run's; empty for others."""
    step: int | None = None
    """Optimizer steps of the checkpoint when it was listed."""
    reference: Path | None = None
    """The model's own recording; None when its voices are in speakers_xtts.pth only."""

    def request(self) -> dict[str, Any]:
        """How the worker is told to load it."""
        return {"kind": self.kind, "source": self.source, "checkpoint": self.checkpoint}


def speaking_models(project: Project) -> list[SpeakingModel]:
    """What can speak in a project, without a download: what was exported first, then runs from the newest, then bases.

    Only complete checkpoints count; a run in training has those that it wrote so far.
    """
    return [*_exported(project), *_runs(project), *_bases(project)]


def find_model(project: Project, model_id: str) -> SpeakingModel:
    """The model that an id names.

    Raises:
        UserError: there is none, or no longer.
    """
    kind, _, rest = model_id.partition("/")
    if kind == "run":
        run, _, which = rest.partition("/")
        found = [
            model for model in _of_run(find_run(project, check_name(run, kind="run"))) if model.checkpoint == which
        ]
    else:
        found = [model for model in (*_exported(project), *_bases(project)) if model.id == model_id]
    if not found:
        raise UserError(
            what=f"there is no model {model_id!r}",
            where=str(project.folder),
            fix="select another one in the list",
        )
    return found[0]


def _exported(project: Project) -> list[SpeakingModel]:
    ready = project.ready
    if not (ready / "model.pth").is_file():
        return []
    return [SpeakingModel(id=READY, kind="ready", source=str(ready.absolute()), reference=_existing(ready))]


def _runs(project: Project) -> list[SpeakingModel]:
    if not project.runs.is_dir():
        return []
    folders = sorted((path for path in project.runs.iterdir() if path.is_dir()), reverse=True)
    return [model for folder in folders if not folder.is_symlink() for model in _of_run(folder)]


def _of_run(run: Path) -> list[SpeakingModel]:
    complete = [checkpoint for checkpoint in checkpoints_of(run) if checkpoint.is_complete]
    newest: dict[Literal["best", "last"], CheckpointFolder] = {}
    for checkpoint in complete:
        newest["best" if checkpoint.is_best else "last"] = checkpoint
    return [
        SpeakingModel(
            id=f"run/{run.name}/{which}",
            kind="run",
            source=str(run.absolute()),
            checkpoint=which,
            step=newest[which].step,
            reference=_existing(run),
        )
        for which in ("best", "last")
        if which in newest
    ]


def _bases(project: Project) -> list[SpeakingModel]:
    """Bases that anybody can name, then those that were made for the project, by their folders' names."""
    named = [(entry.name, entry.name, entry.folder) for entry in known_bases() if entry.is_here]
    made = [
        (entry.folder.name, str(entry.folder.absolute()), entry.folder)
        for entry in project_bases(project)
        if entry.folder
    ]
    return [
        SpeakingModel(id=f"base/{name}", kind="base", source=source, reference=_existing(folder) if folder else None)
        for name, source, folder in (*named, *made)
    ]


def _existing(folder: Path) -> Path | None:
    reference = folder / "reference.wav"
    return reference if reference.is_file() else None
