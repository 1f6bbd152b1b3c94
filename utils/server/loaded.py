"""What the server does with libraries that take seconds to load: the engine, files of models, uploaded recordings.

Every thread imports them through this module, and Python has the others wait meanwhile: two threads that import
torchaudio by ways of their own both fail.
"""

from functools import lru_cache
from pathlib import Path

import torch

from utils.audio.write import write_wav
from utils.bases.base import Base
from utils.errors import disk_errors
from utils.hardware.resources import GIB, memory
from utils.inference.engine import read_speakers
from utils.inference.model_cache import ModelCache, NoRoomError, base_of, own_language
from utils.inference.speaking import Engine
from utils.model.voices import ReferenceLimits, load_reference
from utils.options import DATASET_RATE
from utils.performance_utils.device import settle_device
from utils.server.settings import ServerConfig
from utils.speech.models import SpeakingModel
from utils.speech.voice_library import DEFAULT_VOICE, VOICE_S, VOICE_SUFFIX, NamedVoice, VoiceLibrary

__all__ = ["Engine", "ModelFiles", "NoRoomError", "keep_recording", "new_cache", "settle_device"]

MEMORY_SHARE = 0.6
"""Of the free memory, for models, when no limit is given."""
MAX_LISTS = 100
"""Lists of models' voices and languages that are kept."""


def new_cache(config: ServerConfig, device: str) -> ModelCache:
    """Of the server's models.

    Args:
        config: its settings.
        device: cpu, mps or cuda.
    """
    if config.max_model_gb is not None:
        most = config.max_model_gb * GIB
    else:
        most = MEMORY_SHARE * (torch.cuda.mem_get_info()[0] if device == "cuda" else memory().available_bytes)
    return ModelCache(device, precision=config.precision, slots=config.slots, max_bytes=int(most))


class ModelFiles:
    """What the files of a model say of it.

    Args:
        model: any; of a run's, the files are those of its base.

    Raises:
        UserError: they are gone; each property, too, where they are damaged.
    """

    def __init__(self, model: SpeakingModel) -> None:
        self._base = base_of(model.kind, model.source)
        self._run = Path(model.source) if model.kind == "run" else None

    @property
    def voices(self) -> list[str]:
        """Names of its own voice and of those that came with it."""
        path = self._base.speakers
        return [DEFAULT_VOICE, *(_voices_in(path, path.stat().st_mtime_ns) if path.is_file() else ())]

    @property
    def languages(self) -> list[str]:
        """Codes of those that it reads."""
        folder = self._base.folder
        return _languages_in(folder, (folder / "vocab.json").stat().st_mtime_ns)

    @property
    def language(self) -> str:
        """Code of what it speaks where none is named; empty where it has none."""
        return own_language(self._base, self._run)


# Both keep what they have read by the file and when it changed.


@lru_cache(MAX_LISTS)
def _voices_in(path: Path, changed_ns: int) -> list[str]:
    return sorted(read_speakers(path))


@lru_cache(MAX_LISTS)
def _languages_in(folder: Path, changed_ns: int) -> list[str]:
    return list(Base(folder).tokenizer().languages)


@disk_errors()
def keep_recording(library: VoiceLibrary, name: str, upload: Path) -> NamedVoice:
    """Keep a recording as a voice, in place of an older one of the same name.

    Raises:
        UserError: the name cannot be used, the recording cannot be read or is too short, or there is no room.
    """
    name = library.usable_name(name)
    wav = load_reference(upload, ReferenceLimits(max_seconds=VOICE_S))
    library.folder.mkdir(parents=True, exist_ok=True)
    path = library.folder / f"{name}.wav"
    write_wav(path, wav, DATASET_RATE)
    # A mixture of that name, made on the page, gives way as a recording would.
    path.with_suffix(VOICE_SUFFIX).unlink(missing_ok=True)
    return NamedVoice(name, path)
