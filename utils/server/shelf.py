"""Loaded models, the least recently used of which make room for others."""

import logging
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import torch

from utils.config import SpeechPrecision
from utils.inference.batch import Batch
from utils.inference.loaded import LoadedModel, Models
from utils.model.voices import Voice, mixed
from utils.performance_utils.memory import is_out_of_memory
from utils.server.catalog import model_folder
from utils.server.speaking import Speaking
from utils.server.ticket import UnknownVoiceError
from utils.speech.models import SpeakingModel
from utils.speech.voice_library import DEFAULT_VOICE, voice_parts

MAX_VOICES = 64
"""Voices of recordings that are kept for a model, 0.1 MB each at full size."""
LOADING = 1.5
"""Memory that a model takes over the size of its files, before it is known."""

log = logging.getLogger(__name__)


class ShelvedModel:
    """A loaded model and the requests that it speaks."""

    def __init__(self, models: Models, loaded: LoadedModel) -> None:
        self.models, self.loaded = models, loaded
        self.speakings: list[Speaking] = []
        self.slots = self.batch.decoder.slots
        """Sentences side by side; fewer once memory ran out."""
        self._voices: OrderedDict[tuple[str, int], Voice] = OrderedDict()

    @property
    def batch(self) -> Batch:
        return self.loaded.synthesizer.batch

    @property
    def num_bytes(self) -> int:
        """Memory of its tensors."""
        return self.loaded.synthesizer.num_bytes

    def reset_batch(self, slots: int | None = None) -> None:
        """Drop all that is being decoded, and decode up to `slots` sentences side by side from now on.

        If memory does not suffice for them, fewer are tried.

        Raises:
            RuntimeError: memory does not suffice for one, or the device has failed.
        """
        self.slots = slots or self.slots
        while True:
            try:
                return self.batch.reset(self.slots)
            except (RuntimeError, MemoryError) as error:
                if self.slots == 1 or not is_out_of_memory(error):
                    raise
                self.slots //= 2

    def feed(self) -> None:
        """Fill free slots.

        The first sentence of a request goes before all others, then the one whose listener would hear silence first.
        Some slots stay free for first sentences.
        """
        decoder = self.batch.decoder
        free = decoder.slots - len(decoder.sentences) - self.batch.num_waiting
        if any(speaking.failures for speaking in self.speakings):
            self._feed_suspect()
            return
        kept = max(1, decoder.slots // 4) if decoder.slots > 1 else 0
        while free > 0:
            ready = [one for one in self.speakings if one.wants_slot]
            ready.sort(key=lambda one: (one.has_begun, one.lead_s))
            if not ready or (ready[0].has_begun and free <= kept):
                return
            self.batch.add(ready[0].begin())
            free -= 1

    def _feed_suspect(self) -> None:
        """After an error that one of several requests caused: speak each alone, so that only that one fails."""
        if not self.batch.is_idle:
            return
        suspect = next(one for one in self.speakings if one.failures)
        if suspect.wants_slot:
            self.batch.add(suspect.begin())
        else:
            suspect.failures = 0

    def voice(self, spec: str, references: Mapping[str, Path]) -> Voice:
        """The voice of a request, on the model's device.

        Args:
            spec: a name, or a mixture.
            references: recordings of uploaded voices, which go before those that came with the model.

        Raises:
            UnknownVoiceError: there is none of that name.
            UserError: a recording cannot be used.
        """
        parts = [(self._one_voice(name, references.get(name)), weight) for name, weight in voice_parts(spec)]
        return parts[0][0] if len(parts) == 1 else mixed(parts)

    def _one_voice(self, name: str, reference: Path | None) -> Voice:
        """A voice on the model's device.

        Args:
            name: of a voice that came with the model, or `default`.
            reference: the recording of an uploaded voice, which goes before.

        Raises:
            UnknownVoiceError: there is none of that name.
            UserError: the recording cannot be used.
        """
        if reference is None and name != DEFAULT_VOICE and name not in self.loaded.speakers:
            known = ", ".join([DEFAULT_VOICE, *sorted(self.loaded.speakers)][:8])
            raise UnknownVoiceError(what=f"there is no voice {name!r}", fix=f"use one of: {known}")
        changed = reference.stat().st_mtime_ns if reference is not None else 0
        key = (str(reference or name), changed)
        if key not in self._voices:
            synthesizer = self.loaded.synthesizer
            if reference is not None:
                voice = synthesizer.voice(reference)
            else:
                voice = self.loaded.voice(None, None if name == DEFAULT_VOICE else name)
            self._voices[key] = voice.to(synthesizer.device)
        self._voices.move_to_end(key)
        while len(self._voices) > MAX_VOICES:
            self._voices.popitem(last=False)
        return self._voices[key]


class Shelf:
    """Loads models and keeps as many as fit.

    Args:
        device: cpu or cuda.
        precision: of the models' weights.
        slots: sentences that a model decodes side by side.
        max_bytes: of all models together; one model is loaded however large it is.
    """

    def __init__(self, device: str, *, precision: SpeechPrecision, slots: int, max_bytes: int) -> None:
        self.device = device
        self.models: dict[str, ShelvedModel] = {}
        """By id, the one that was asked for last at the end."""
        self._precision, self._slots, self._max_bytes = precision, slots, max_bytes

    @property
    def is_busy(self) -> bool:
        return any(model.speakings for model in self.models.values())

    @property
    def num_bytes(self) -> int:
        return sum(model.num_bytes for model in self.models.values())

    def find(self, model_id: str, model: SpeakingModel) -> ShelvedModel | None:
        """A model, loaded if need be; None while there is no room beside those that are speaking.

        Raises:
            UserError: it is gone or damaged.
        """
        shelved = self.models.get(model_id)
        if shelved is None:
            if not self._make_room(_file_bytes(model)):
                return None
            models = Models(self.device, precision=self._precision, slots=self._slots)
            begun = time.perf_counter()
            shelved = ShelvedModel(models, models.load(**model.request()))
            log.info("loaded %s on %s in %.1f s", model_id, self.device, time.perf_counter() - begun)
        elif not shelved.speakings:
            # A later checkpoint, or another export: not while the old one speaks.
            loaded = shelved.models.load(**model.request())
            if loaded is not shelved.loaded:
                shelved = ShelvedModel(shelved.models, loaded)
                log.info("loaded %s anew: it has changed on disk", model_id)
        # A plain dict, put in anew: other threads list it meanwhile.
        self.models.pop(model_id, None)
        self.models[model_id] = shelved
        return shelved

    def reset(self, model: ShelvedModel, slots: int) -> bool:
        """As `ShelvedModel.reset_batch`; a model that then has no memory to speak with is unloaded.

        Returns:
            Whether it can speak.
        """
        try:
            model.reset_batch(slots)
        except Exception as error:  # noqa: BLE001
            log.error("%s is unloaded, it cannot speak any more: %s", model.loaded.synthesizer.base.name, error)
            self.models = {name: one for name, one in self.models.items() if one is not model}
            self._release()
            return False
        return True

    def clear(self) -> None:
        """Free all memory."""
        self.models = {}
        self._release()

    def _make_room(self, wanted: float) -> bool:
        while self.models and self.num_bytes + wanted > self._max_bytes:
            idle = self._idle(self.models)
            if not idle:
                return False
            log.info("unloaded %s to make room", idle[0])
            del self.models[idle[0]]
            self._release()
        return True

    def _idle(self, ids: Collection[str]) -> list[str]:
        return [one for one in ids if not self.models[one].speakings]

    def _release(self) -> None:
        if self.device != "cpu":
            # After a device error even this fails.
            with suppress(RuntimeError):
                torch.cuda.empty_cache()


def _file_bytes(model: SpeakingModel) -> float:
    """Memory that a model will take, as far as its files tell."""
    folder = model_folder(model)
    sizes = [(folder / name).stat().st_size for name in ("model.safetensors", "model.pth") if (folder / name).is_file()]
    return LOADING * max(sizes, default=0)
