"""Which models and voices the server offers, by their names; without torch."""

import threading
from functools import lru_cache
from pathlib import Path

from utils.errors import UserError, disk_errors
from utils.options import DATASET_RATE
from utils.project.projects import find_project, list_projects
from utils.speech.generation import UnknownModelError
from utils.speech.models import SpeakingModel, find_model, named_bases, speaking_models
from utils.speech.voice_library import DEFAULT_VOICE, VOICE_S, VOICE_SUFFIX, NamedVoice, VoiceLibrary

IMPORTS = threading.RLock()
"""Held while modules that load torchaudio are imported: two threads that import it at once both fail."""
MAX_LISTS = 100
"""Lists of models' voices and languages that are kept."""


def list_models(output: Path) -> list[tuple[str, SpeakingModel]]:
    """All models by id: of projects `PROJECT/ready`, `PROJECT/run/ID/best` and such, then bases by their names."""
    found = []
    for project in list_projects(output):
        # Bases that anybody can name come once, below.
        own = [model for model in speaking_models(project) if model.kind != "base" or Path(model.source).is_dir()]
        found += [(f"{project.name}/{model.id}", model) for model in own]
    return [*found, *_bases()]


def find_listed(output: Path, model_id: str) -> SpeakingModel:
    """The model of an id.

    Raises:
        UnknownModelError: there is none.
    """
    for name, model in _bases():
        if name == model_id:
            return model
    project, _, inner = model_id.partition("/")
    try:
        return find_model(find_project(project, output), inner)
    except (UserError, OSError, ValueError) as error:
        raise UnknownModelError(
            what=f"the model {model_id!r} does not exist", fix="GET /v1/models lists those that do"
        ) from error


def model_folder(model: SpeakingModel) -> Path:
    """Where the files of a model lie; of a run's, those of its base.

    Raises:
        UserError: they are gone.
    """
    # Imported late: they load torch.
    with IMPORTS:
        from utils.bases.find import find_base, run_base
        from utils.inference.voice_file import base_of_voice

    if model.kind == "voice":
        return base_of_voice(Path(model.source)).folder
    if model.kind == "run":
        return run_base(Path(model.source)).folder
    return find_base(model.source).folder if model.kind == "base" else Path(model.source)


def model_voices(model: SpeakingModel) -> list[str]:
    """Names of a model's own voice and of those that came with it.

    Raises:
        UserError: its files are gone or damaged.
    """
    path = model_folder(model) / "speakers_xtts.pth"
    return [DEFAULT_VOICE, *(_voices_in(path, path.stat().st_mtime_ns) if path.is_file() else ())]


def model_languages(model: SpeakingModel) -> list[str]:
    """Codes of the languages that a model reads.

    Raises:
        UserError: its files are gone or damaged.
    """
    folder = model_folder(model)
    return _languages_in(folder, (folder / "vocab.json").stat().st_mtime_ns)


def model_language(model: SpeakingModel) -> str:
    """Code of the language that a model speaks where none is named; empty where it has none.

    Raises:
        UserError: its files are gone or damaged.
    """
    with IMPORTS:
        from utils.bases.base import Base
        from utils.inference.model_cache import own_language

    return own_language(Base(model_folder(model)), Path(model.source) if model.kind == "run" else None)


# Both keep what they have read by the file and when it changed.


@lru_cache(MAX_LISTS)
def _voices_in(path: Path, changed_ns: int) -> list[str]:
    with IMPORTS:
        from utils.inference.engine import read_speakers

    return sorted(read_speakers(path))


@lru_cache(MAX_LISTS)
def _languages_in(folder: Path, changed_ns: int) -> list[str]:
    with IMPORTS:
        from utils.bases.base import Base

    return list(Base(folder).tokenizer().languages)


def _bases() -> list[tuple[str, SpeakingModel]]:
    return [(model.source, model) for model in named_bases()]


class Recordings(VoiceLibrary):
    """The voices of an output folder, and those that clients of the server upload."""

    @disk_errors()
    def add(self, name: str, upload: Path) -> NamedVoice:
        """Keep a recording as a voice, in place of an older one of the same name.

        Raises:
            UserError: the name cannot be used, the recording cannot be read or is too short, or there is no room.
        """
        name = self.usable_name(name)
        # Imported late: they load torch.
        with IMPORTS:
            from utils.audio.write import write_wav
            from utils.model.voices import ReferenceLimits, load_reference

        wav = load_reference(upload, ReferenceLimits(max_seconds=VOICE_S))
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.wav"
        write_wav(path, wav, DATASET_RATE)
        # A mixture of that name, made on the page, gives way as a recording would.
        path.with_suffix(VOICE_SUFFIX).unlink(missing_ok=True)
        return NamedVoice(name, path)
