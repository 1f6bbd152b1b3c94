"""List a project's models that can speak: the exported model, checkpoints of runs, and bases."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError, safe_open

from utils.bases.catalog import known_bases, project_bases
from utils.errors import UserError
from utils.project.paths import Project
from utils.runs.layout import READY, REFERENCE, REFERENCE_FILE, VOICE, VOICE_FILE, ModelRef, Which, find_run, newest_of

Kind = Literal["ready", "run", "base", "voice"]


@dataclass(frozen=True, kw_only=True)
class SpeakingModel:
    """One model to speak with."""

    id: str
    """ready, voice, run/ID/best, run/ID/last, or base/NAME: what the page and scripts name it by."""
    kind: Kind
    source: str
    """What the worker loads: a folder for ready, run and a base made for the project, the name of another base, the
    file of a voice."""
    checkpoint: Which | Literal[""] = ""
    """Which of the run's; empty for others."""
    step: int | None = None
    """Optimizer steps of the checkpoint when it was listed."""
    reference: Path | None = None
    """The model's own recording, see `own_recording`; None for a LoRA voice and where there is none."""
    project: str = ""
    """Folder of the project whose pronunciations apply."""

    def request(self) -> dict[str, Any]:
        """How a request to the worker names it."""
        return {"kind": self.kind, "source": self.source, "checkpoint": self.checkpoint, "project": self.project}


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
    ref = ModelRef.parse(model_id)
    offered = _of_run(find_run(project, ref.name)) if ref.kind == "run" else [*_exported(project), *_bases(project)]
    found = [model for model in offered if model.id == model_id]
    if not found:
        raise UserError(
            what=f"there is no model {model_id!r}",
            where=str(project.folder),
            fix=f"use one of: {', '.join(model.id for model in offered)}, or export it first",
        )
    return replace(found[0], project=str(project.folder.absolute()))


def own_recording(model: SpeakingModel, scratch: Path) -> Path | None:
    """A model's own recording; None where its voices are in speakers_xtts.pth only.

    Args:
        model: which one.
        scratch: a folder for the recording of a LoRA voice, which is a part of its file.

    Raises:
        UserError: the file of the voice cannot be read.
    """
    if model.kind != "voice":
        return model.reference
    try:
        # As arrays: nothing here loads torch.
        with safe_open(model.source, framework="np") as file:
            content = file.get_tensor(REFERENCE).tobytes()
    except (SafetensorError, OSError) as error:
        what = f"the recording of the LoRA voice cannot be read: {error}"
        raise UserError(what=what, where=model.source, fix="export the voice again") from error
    recording = scratch / REFERENCE_FILE
    recording.write_bytes(content)
    return recording


def named_model(name: str, project: Project | None) -> dict[str, Any]:
    """A model by any of its names, as `ModelCache.load` takes it.

    Args:
        name: of a base, or its folder; of a project: ready, voice, run/ID/best, run/ID/last, run/ID/STEP, base/NAME.
        project: whose model it is; None for a base.

    Raises:
        UserError: the project has no such model, or the name is one of a project's model and there is none.
    """
    ref = ModelRef.parse(name)
    if project is None and ref.kind != "base":
        raise UserError(what=f"{name} is a model of a project", fix="name the project, too")
    of_project = {"project": str(project.folder.absolute())} if project else {}
    if project is None or (ref.kind == "base" and name != VOICE and not name.startswith("base/")):
        return {"kind": "base", "source": name, **of_project}
    if ref.kind == "base":
        return find_model(project, name).request()
    folder = ref.resolve(project)
    if ref.kind == "ready":
        return {"kind": "ready", "source": str(folder), **of_project}
    return {"kind": "run", "source": str(folder.parent.parent), "checkpoint": ref.which, **of_project}


def _exported(project: Project) -> list[SpeakingModel]:
    ready, voice, found = project.ready, project.ready / VOICE_FILE, []
    if (ready / "model.pth").is_file():
        found = [SpeakingModel(id=READY, kind="ready", source=str(ready.absolute()), reference=_existing(ready))]
    if voice.is_file():
        found.append(SpeakingModel(id=VOICE, kind="voice", source=str(voice.absolute())))
    return found


def _runs(project: Project) -> list[SpeakingModel]:
    if not project.runs.is_dir():
        return []
    folders = sorted((path for path in project.runs.iterdir() if path.is_dir()), reverse=True)
    return [model for folder in folders if not folder.is_symlink() for model in _of_run(folder)]


def _of_run(run: Path) -> list[SpeakingModel]:
    return [
        SpeakingModel(
            id=str(ModelRef(kind="run", name=run.name, which=which)),
            kind="run",
            source=str(run.absolute()),
            checkpoint=which,
            step=checkpoint.step,
            reference=_existing(run),
        )
        for which, checkpoint in newest_of(run).items()
    ]


def _bases(project: Project) -> list[SpeakingModel]:
    """Bases that anybody can name, then those that were made for the project, by their folders' names."""
    made = [entry.folder.absolute() for entry in project_bases(project) if entry.folder]
    return [*named_bases(), *(_base(folder.name, str(folder), folder) for folder in made)]


def named_bases() -> list[SpeakingModel]:
    """Bases that anybody can name and that need no download."""
    return [_base(entry.name, entry.name, entry.folder) for entry in known_bases() if entry.is_here]


def _base(name: str, source: str, folder: Path | None) -> SpeakingModel:
    return SpeakingModel(id=f"base/{name}", kind="base", source=source, reference=_existing(folder) if folder else None)


def _existing(folder: Path) -> Path | None:
    reference = folder / "reference.wav"
    return reference if reference.is_file() else None
