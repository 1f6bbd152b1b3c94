"""Voices of recordings on disk, by content: a recording is read by a model once, whichever process asks.

A voice depends on the bytes of the recording, on the weights that read it, on the mel statistics and on the limits of a
reference. All of them make the key, so a changed file or checkpoint is another voice, and nothing has to be renewed.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from utils.files import file_hash, replacing
from utils.model.gpt import XttsGpt
from utils.model.voices import ReferenceLimits, Voice
from utils.model.weights import State, write_weights
from utils.project.paths import bases_folder

FORMAT = 1
"""Part of each key: raised when `make_voice` gives other numbers for the same content."""
MAX_VOICES, MAX_HELD = 1_000, 64
"""On disk and in memory, of 0.13 MB each at full size; those that were not used for longest make room."""

log = logging.getLogger(__name__)


class VoiceCache:
    """Voices as files of one folder, which processes may share, and the last ones in memory.

    Args:
        folder: beside the bases in the user's cache when not given.
        max_voices: more are deleted.
    """

    def __init__(self, folder: Path | None = None, *, max_voices: int = MAX_VOICES) -> None:
        self._folder = bases_folder() / ".voices" if folder is None else folder
        self._max_voices = max_voices
        self._held: dict[tuple[Path, int, str], Voice] = {}
        """By recording, when it was changed, and model; the one that was used last at the end."""

    def voice(self, recording: Path, model: str, make: Callable[[], Voice]) -> Voice:
        """The voice of a recording, made where it is not on disk.

        Args:
            recording: an existing file.
            model: from `model_key`.
            make: makes it.
        """
        key = recording, recording.stat().st_mtime_ns, model
        voice = self._held.pop(key, None) or self._stored(recording, model, make)
        self._held[key] = voice
        if len(self._held) > MAX_HELD:
            del self._held[next(iter(self._held))]
        return voice

    def _stored(self, recording: Path, model: str, make: Callable[[], Voice]) -> Voice:
        key = hashlib.sha256(f"{FORMAT}/{model}/{file_hash(recording)}".encode()).hexdigest()
        path = self._folder / f"{key}.safetensors"
        if (found := _read(path)) is None:
            found = make()
            self._keep(path, found)
        return found

    def _keep(self, path: Path, voice: Voice) -> None:
        """Write a voice; where that fails it is made again next time."""
        state = {"latents": voice.latents, "embedding": voice.embedding}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                write_weights(temporary, state, {"sha256": state_hash(state)})
            voices = sorted(self._folder.glob("*.safetensors"), key=_last_use, reverse=True)
            for old in voices[self._max_voices :]:
                old.unlink(missing_ok=True)
        except OSError as error:
            log.warning("the voice cannot be kept in %s: %s", self._folder, error)


def model_key(gpt: XttsGpt, speaker_encoder: torch.nn.Module, mel_stats: torch.Tensor, limits: ReferenceLimits) -> str:
    """What a voice depends on besides the recording: weights, scales, limits, and where it is computed."""
    parts = (gpt.conditioning_encoder, gpt.conditioning_perceiver, speaker_encoder)
    hashes = [state_hash(part.state_dict()) for part in parts]
    device = gpt.final_norm.weight.device.type
    return "/".join([*hashes, state_hash({"mel_stats": mel_stats}), repr(limits), device])


def state_hash(state: State) -> str:
    """SHA-256 of tensors with their names, types and shapes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _read(path: Path) -> Voice | None:
    """A voice from disk; None where there is none, or a damaged one."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            state = {name: file.get_tensor(name) for name in ("latents", "embedding")}
            if (file.metadata() or {}).get("sha256") != state_hash(state):
                raise ValueError("its content has changed")
        with suppress(OSError):
            os.utime(path)
        return Voice(**state)
    except (OSError, SafetensorError, ValueError) as error:
        log.warning("the voice %s is damaged and made anew: %s", path, error)
        return None


def _last_use(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
