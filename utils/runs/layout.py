"""How a run's checkpoints lie on disk: names, which are complete, and which run a name means; without loading torch."""

import json
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from utils.bases.catalog import base_folder, has_weights
from utils.errors import UserError
from utils.hardware.resources import size_of
from utils.project.advice import command
from utils.project.paths import Project, check_name

CHECKPOINTS = "checkpoints"
BASE_FOLDER = "base"
"""Folder in a run with the small files of its base."""
REFERENCE_FILE = "reference.wav"
"""Recording in a run or an exported model whose voice it speaks with."""
SAMPLES_FOLDER = "samples"
VOICE = "voice"
"""Names a project's LoRA voice."""
VOICE_FILE = "voice.safetensors"
"""Beside an exported model, or alone in its place."""
REFERENCE = "reference"
"""Names the recording in it, the bytes of a wav."""
READY = "ready"
"""Names a project's exported model."""
MODEL_FILE = "model.safetensors"
ADAPTER_FILE = "adapter.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
OPTIMIZER_PARTS = "optimizer"
"""In its place where weights are sharded among processes: a folder in which each has written its part."""
STATE_FILE = "state.json"
COMPLETE_FILE = "complete.json"
LAST, BEST = "step-", "best-"
ASIDE = ".writing-"
"""Prefix of a checkpoint that is being written."""
LEFT = "left-"
"""Prefix of a checkpoint that a resume from an earlier one went past."""
OURS = re.compile(r"(\.removing-)?(\.writing-|left-)?(step|best|parts)-\d+(-\d+)?")
"""Names of the folders that this program makes among checkpoints."""
REMOVING = ".removing-"
"""A folder that is being removed gets this prefix first: what is half gone must not look whole."""


Which = Literal["best", "last"]


@dataclass(frozen=True, kw_only=True)
class CheckpointFolder:
    """One checkpoint on disk."""

    path: Path
    step: int
    is_best: bool
    """Holds weights only: the best ones when it was written."""

    @cached_property
    def is_complete(self) -> bool:
        """Whether every file is there in its full size."""
        return is_complete(self.path)

    @property
    def num_bytes(self) -> int:
        return size_of(self.path)


@dataclass(frozen=True, kw_only=True)
class ModelRef:
    """A model by the one name that commands, settings, scripts and the page use for it."""

    kind: Literal["base", "run", "ready"]
    name: str
    """A base's name or folder, or a run's name."""
    which: str = ""
    """Of a run: best, last, or the step of a checkpoint."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """run/ID/best, run/ID/last, run/ID/STEP or ready; anything else is a base's name or folder."""
        if text == READY:
            return cls(kind="ready", name=READY)
        match text.split("/"):
            case ["run", name, which] if which in ("best", "last") or which.isdecimal():
                return cls(kind="run", name=name, which=which)
        return cls(kind="base", name=text)

    def __str__(self) -> str:
        return f"run/{self.name}/{self.which}" if self.kind == "run" else self.name

    def resolve(self, project: Project) -> Path:
        """The folder that holds the model's weights; for `tiny`, where it is once it was made.

        Raises:
            UserError: the project has no such run, complete checkpoint or exported model.
        """
        if self.kind == "base":
            return base_folder(self.name)
        if self.kind == "run":
            return checkpoint_of(find_run(project, self.name), self.which)
        if not has_weights(project.ready):
            raise UserError(
                what=f"project {project.name!r} has no exported model yet",
                where=str(project.ready),
                fix=f"run: {command('export', project=project)}",
            )
        return project.ready


def sample_file(step: int, sentence: int) -> Path:
    """What was spoken after an optimizer step, 0 for the base's own voice, below the run's folder."""
    return Path(SAMPLES_FOLDER) / f"step-{step:08d}-{sentence}.wav"


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


def newest_run(project: Project, which: Which) -> Path:
    """The newest run with such a complete checkpoint.

    Raises:
        UserError: the project has none.
    """
    runs = sorted((path.parent for path in project.runs.glob("*/config.yaml")), reverse=True)
    found = next((run for run in runs if which in newest_of(run)), None)
    if found is None:
        raise UserError(
            what=f"project {project.name!r} has no trained run",
            where=str(project.runs),
            fix=f"train one first: {command('train', project=project)}",
        )
    return found


def checkpoint_of(run: Path, which: str) -> Path:
    """A complete checkpoint of a run: its best or last one, or that of a step.

    Raises:
        UserError: the run has none.
    """
    complete = [one for one in checkpoints_of(run) if one.is_complete]
    if which.isdecimal():
        # The same weights may be there twice: those to resume from have the moments, too.
        found = sorted((one for one in complete if one.step == int(which)), key=lambda one: not one.is_best)
    else:
        found = [one for one in complete if one.is_best == (which == "best")]
    if not found:
        raise UserError(
            what=f"run {run.name!r} has no complete {which} checkpoint",
            where=str(run),
            fix="train it further, or choose another checkpoint or another run",
        )
    return found[-1].path


def newest_of(run: Path) -> dict[Which, CheckpointFolder]:
    """The newest complete checkpoint of each kind, the best one first."""
    newest = {one.is_best: one for one in checkpoints_of(run) if one.is_complete}
    kinds: tuple[tuple[Which, bool], ...] = (("best", True), ("last", False))
    return {which: newest[is_best] for which, is_best in kinds if is_best in newest}


def checkpoints_of(run: Path) -> list[CheckpointFolder]:
    """All checkpoints of a run by step, those that are not complete among them."""
    found = []
    # A checkpoint in its place comes after one of the same step that still lies aside.
    for path in sorted((run / CHECKPOINTS).glob("*-*"), key=lambda path: not path.name.startswith(ASIDE)):
        name = path.name.removeprefix(ASIDE)
        kind, number = name[: len(LAST)], name[len(LAST) :]
        if kind in (LAST, BEST) and number.isdigit() and path.is_dir():
            one = CheckpointFolder(path=path, step=int(number), is_best=kind == BEST)
            # A kill just before the last renaming leaves a checkpoint complete under its temporary name.
            if name == path.name or one.is_complete:
                found.append(one)
    return sorted(found, key=lambda one: (one.step, one.is_best))


def strays_of(run: Path) -> list[Path]:
    """What lies among a run's checkpoints and is none: no program of ours wrote it, or people renamed it."""
    found = (run / CHECKPOINTS).iterdir() if (run / CHECKPOINTS).is_dir() else ()
    return sorted(path for path in found if not (path.is_dir() and OURS.fullmatch(path.name)))


def discard(folder: Path) -> None:
    """Remove a folder under another name: what a kill in the middle leaves looks like nothing else, and can be found.

    Raises:
        OSError: the system does not allow it.
    """
    aside = folder
    if not folder.name.startswith(REMOVING):
        aside = folder.with_name(REMOVING + folder.name)
        shutil.rmtree(aside, ignore_errors=True)
    # Another process may be removing the same: then it is gone all the same.
    with suppress(FileNotFoundError):
        if aside != folder:
            folder.rename(aside)
        shutil.rmtree(aside)


def freed_by(checkpoint: Path) -> int:
    """Bytes that removing a checkpoint frees: weights that the best one shares stay."""
    files = [path.lstat() for path in checkpoint.rglob("*") if path.is_file()]
    return sum(facts.st_size for facts in files if facts.st_nlink == 1)


def is_complete(checkpoint: Path) -> bool:
    """Whether every file of a checkpoint is there in its full size, as utils.runs.checkpoints marked it."""
    try:
        marks = json.loads((checkpoint / COMPLETE_FILE).read_text(encoding="utf-8"))
        sizes = [(checkpoint / name).stat().st_size == mark["size"] for name, mark in marks.items()]
        return bool(sizes) and all(sizes)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False


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
        every = (one for run in project.runs.glob("*") for one in checkpoints_of(run))
        # By the mark alone: a run whose newest checkpoint is damaged is still the one to resume, from an older one.
        marks = [one.path / COMPLETE_FILE for one in every if one.is_best == (which == "best")]
        if not (marks := [mark for mark in marks if mark.is_file()]):
            raise UserError(
                what=f"project {project.name!r} has no run with a {which} checkpoint to resume from",
                where=str(project.runs),
                fix=f"train: {command('train', project=project)}",
            )
        return Resume(run=max(marks, key=lambda mark: mark.stat().st_mtime).parents[2], which=which)
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
