"""The model that a worker keeps loaded."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from utils.bases.base import Base
from utils.bases.find import find_base, run_base
from utils.config import SpeechPrecision
from utils.errors import UserError
from utils.inference.engine import SLOTS, Synthesizer
from utils.inference.voice_cache import VoiceCache
from utils.model.voices import Voice
from utils.model.weights import State
from utils.performance_utils.device import settle_device
from utils.runs.checkpoints import load_checkpoint
from utils.runs.layout import REFERENCE_FILE, checkpoint_of

log = logging.getLogger(__name__)

MAX_TRIES = 3
"""A run in training replaces its checkpoints; so often another one is looked for."""


@dataclass(kw_only=True)
class LoadedModel:
    """A model ready to speak."""

    synthesizer: Synthesizer
    checkpoint: str
    """Name of the checkpoint whose weights it has; empty for an exported model or a base."""
    run: Path | None
    """The run whose weights it has."""
    language: str
    """What it speaks when nothing else is said; may be empty."""
    speakers: dict[str, Voice]
    """Reference voices that came with it."""

    def voice(self, reference: str | None, speaker: str | None) -> Voice:
        """The voice of a recording, of a reference voice, or the model's own.

        Raises:
            UserError: the recording is not usable, or there is no such voice.
        """
        if reference:
            return self._of(Path(reference))
        if speaker:
            if speaker not in self.speakers:
                raise UserError(what=f"this model has no voice {speaker!r}", fix="choose one from its list")
            return self.speakers[speaker]
        if self.run is not None and (self.run / REFERENCE_FILE).is_file():
            return self._of(self.run / REFERENCE_FILE)
        return self.synthesizer.default_voice()

    def _of(self, recording: Path) -> Voice:
        if not recording.is_file():
            raise UserError(what="the reference recording is gone", where=str(recording), fix="choose it again")
        return self.synthesizer.voice(recording)


class Models:
    """Loads models and keeps the last one.

    Args:
        device: cpu or cuda.
        precision: of the models' weights; see `resolve_precision`.
        slots: sentences that a model decodes side by side.
    """

    def __init__(self, device: str, *, precision: SpeechPrecision = "auto", slots: int = SLOTS) -> None:
        kind, reason = settle_device("auto" if device == "cuda" else "cpu")
        if reason:
            log.warning(reason)
        self._device = torch.device(kind)
        self._precision, self._slots = precision, slots
        self._key: tuple[object, ...] = ()
        self._loaded: LoadedModel | None = None

    def load(self, *, kind: Literal["ready", "run", "base"], source: str, checkpoint: str = "") -> LoadedModel:
        """The model, from memory when it is the last one and unchanged on disk.

        Args:
            kind: what `source` is.
            source: a folder with an exported model, a run's folder, or the name of a base.
            checkpoint: best or last, of a run.

        Raises:
            UserError: it is gone or damaged.
        """
        if kind == "run":
            return self._of_run(Path(source), checkpoint)
        base = find_base(source) if kind == "base" else Base(Path(source))
        key = (base.folder, base.weights.stat().st_mtime_ns)
        if self._loaded is None or key != self._key:
            self._drop()
            self._loaded = self._described(self._new(base))
            self._key = key
        return self._loaded

    def _of_run(self, run: Path, which: str) -> LoadedModel:
        base = run_base(run)
        for attempt in range(1, MAX_TRIES + 1):
            folder = checkpoint_of(run, which)
            key = (base.folder, base.weights.stat().st_mtime_ns, folder)
            if self._loaded is not None and key == self._key:
                return self._loaded
            try:
                weights = load_checkpoint(folder)
                break
            except UserError:
                # Replaced while it was being read; a damaged one is there every time.
                if attempt == MAX_TRIES:
                    raise
        if self._loaded is not None and self._loaded.run is not None and self._key[:2] == key[:2]:
            # Same base: its decoder and vocabulary stay.
            synthesizer = self._loaded.synthesizer
            # Should these not fit, what is loaded is nothing that was asked for.
            self._loaded, self._key = None, ()
            synthesizer.renew(weights)
        else:
            self._drop()
            synthesizer = self._new(base, weights)
        self._loaded = self._described(synthesizer, run=run, checkpoint=folder.name)
        self._key = key
        return self._loaded

    def _new(self, base: Base, weights: State | None = None) -> Synthesizer:
        return Synthesizer(
            base,
            gpt_state=weights,
            device=self._device,
            precision=self._precision,
            slots=self._slots,
            voices=VoiceCache(),
        )

    def _described(self, synthesizer: Synthesizer, *, run: Path | None = None, checkpoint: str = "") -> LoadedModel:
        language = synthesizer.base.about.get("language") or _trained_language(run)
        return LoadedModel(
            synthesizer=synthesizer,
            checkpoint=checkpoint,
            run=run,
            language=language,
            speakers=synthesizer.speakers(),
        )

    def _drop(self) -> None:
        """Free the old model before the new one is loaded: two may not fit."""
        self._loaded, self._key = None, ()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()


def _trained_language(run: Path | None) -> str:
    if run is None:
        return ""
    from utils.config import TrainConfig

    return TrainConfig.load(run / "config.yaml").language or ""
