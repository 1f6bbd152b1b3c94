"""Loaded models, the least recently used of which make room for others."""

import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from utils.bases.base import Base
from utils.bases.find import find_base, known_name, run_base, weights_hash
from utils.errors import UserError, is_out_of_memory
from utils.inference.engine import SLOTS, Synthesizer
from utils.inference.voice_file import base_of_voice
from utils.model.weights import State
from utils.options import SpeechPrecision, UsedDevice
from utils.performance_utils.device import settle_device
from utils.runs.checkpoints import load_checkpoint
from utils.runs.layout import REFERENCE_FILE, checkpoint_of
from utils.settings import Config
from utils.speech.models import Kind
from utils.text.pronunciations import PRONUNCIATIONS_FILE

log = logging.getLogger(__name__)

MAX_TRIES = 3
"""A run in training replaces its checkpoints; another one is looked for as often."""
LOADING = 1.5
"""Memory that a model takes over the size of its file, before it is known."""


class NoRoomError(Exception):
    """A model does not fit beside those that are speaking."""


class ModelCache:
    """Loads models and keeps as many as fit.

    Args:
        device: cpu, mps, cuda or cuda:N; of several GPUs it is the first that this process sees.
        precision: of the models' weights; see `resolve_precision`.
        slots: sentences that a model decodes side by side.
        max_bytes: of all models together; one model is loaded however large it is.
        pronounces: whether tables of pronunciations apply. Where models are compared, all speak the texts as they are.
    """

    def __init__(
        self,
        device: str,
        *,
        precision: SpeechPrecision = "auto",
        slots: int = SLOTS,
        max_bytes: int = 0,
        pronounces: bool = True,
    ) -> None:
        kinds: dict[str, UsedDevice] = {"cpu": "cpu", "mps": "mps"}
        self.device, reason = settle_device(kinds.get(device, "auto"))
        if reason:
            log.warning(reason)
        self.models: dict[str, Synthesizer] = {}
        """By name, the one that was asked for last at the end."""
        self._precision, self._slots, self._max_bytes, self._pronounces = precision, slots, max_bytes, pronounces

    def load(
        self,
        *,
        kind: Kind,
        source: str,
        checkpoint: str = "",
        name: str = "",
        project: str = "",
    ) -> Synthesizer:
        """A model, from memory where it is there and unchanged on disk.

        Args:
            kind: what `source` is.
            source: a folder with an exported model, a run's folder, the name of a base, or a voice's file: it speaks
                over its base, which is loaded once for all its voices.
            checkpoint: best or last, of a run; empty for the base that it started from.
            name: the model takes the place of one of the same name; that a run's other checkpoint of the same base
                does, brings its weights only.
            project: folder of the project whose pronunciations apply; else those beside an exported model's folder do.

        Raises:
            NoRoomError: it does not fit beside those that are speaking.
            UserError: it is gone or damaged.
        """
        if kind == "voice":
            base = base_of(kind, source)
            of_base = known_name(base)
            # Names are shown to clients of the server, who are not to see paths.
            label = of_base or f"{base.name} {weights_hash(base)[:12]}"
            over = self.load(kind="base", source=of_base or str(base.folder), name=name and label, project=project)
            voice = over.adapted(Path(source))
            voice.pronunciations = over.pronunciations
            return voice
        model = self.models.get(name)
        if model is None or not model.generations:
            # A later checkpoint, or another export: not while the old one speaks.
            run = Path(source) if kind == "run" else None
            base = base_of(kind, source)
            weights = base.weights.stat()
            if model is None:
                self._make_room(LOADING * weights.st_size)
            key: tuple[Any, ...] = (base.folder, weights.st_mtime_ns)
            state, key = _checkpoint(run, checkpoint, key, model) if run and checkpoint else (None, key)
            if model is None or key != model.key:
                begun = time.perf_counter()
                former = model if model and state and model.key[:2] == key[:2] else None
                # The old one is freed first: two may not fit, and one whose renewal fails cannot speak.
                model = None
                self._drop(name)
                if former and state:
                    former.renew(state)
                model = former or Synthesizer(
                    base, gpt_state=state, device=self.device, precision=self._precision, slots=self._slots
                )
                own = [folder / REFERENCE_FILE for folder in (run, base.folder) if folder]
                model.key, model.own_voice = key, next(filter(Path.is_file, own), own[-1])
                model.language = own_language(base, run)
                log.info("loaded %s on %s in %.1f s", name or source, self.device, time.perf_counter() - begun)
        if self._pronounces:
            model.pronunciations = Path(project or model.base.folder.parent) / PRONUNCIATIONS_FILE
        # A plain dict, replaced as a whole: other threads list it meanwhile.
        self.models.pop(name, None)
        self.models[name] = model
        return model

    def reset(self, model: Synthesizer, slots: int) -> bool:
        """Drop all that a model decodes, and decode up to `slots` sentences side by side from now on.

        If memory does not suffice for them, fewer are tried; a model that has none for one is unloaded.

        Returns:
            Whether it can speak.
        """
        while True:
            try:
                model.batch.reset(slots)
            except Exception as error:  # noqa: BLE001
                if slots == 1 or not is_out_of_memory(error):
                    log.error("%s is unloaded, it cannot speak any more: %s", model.base.name, error)
                    # Of a LoRA voice, the base that it speaks over.
                    self._drop(*(name for name, one in self.models.items() if one.batch is model.batch))
                    return False
                slots //= 2
            else:
                return True

    def clear(self) -> None:
        """Free all memory."""
        self._drop(*self.models)

    def _make_room(self, wanted: float) -> None:
        while self.models and wanted + sum(one.num_bytes for one in self.models.values()) > self._max_bytes:
            idle = next((name for name, one in self.models.items() if not one.generations), None)
            if idle is None:
                raise NoRoomError
            log.info("unloaded %s to make room", idle)
            self._drop(idle)

    def _drop(self, *names: str) -> None:
        # Not in place: other threads list them meanwhile.
        self.models = {name: one for name, one in self.models.items() if name not in names}
        if self.device == "cuda":
            # After a device error even this fails.
            with suppress(RuntimeError):
                torch.cuda.empty_cache()


def base_of(kind: Kind, source: str) -> Base:
    """The base that a model is, or that it speaks over; see `ModelCache.load`.

    Raises:
        UserError: it is gone or damaged.
    """
    if kind == "base":
        return find_base(source)
    if kind == "voice":
        return base_of_voice(Path(source))
    return run_base(Path(source)) if kind == "run" else Base(Path(source))


def own_language(base: Base, run: Path | None) -> str:
    """Code of the language that a model speaks where none is named; empty where it has none.

    Args:
        base: the model, or the base of a run.
        run: folder of the run.
    """
    return base.about.get("language") or (Config.read(run / "config.yaml").get("language") if run else "") or ""


def _checkpoint(
    run: Path, which: str, base: tuple[Any, ...], known: Synthesizer | None
) -> tuple[State | None, tuple[Any, ...]]:
    """Weights of a run's checkpoint, None where `known` has them, and the key of a model that has them."""
    for attempt in range(1, MAX_TRIES + 1):
        folder = checkpoint_of(run, which)
        key = (*base, folder)
        if known is not None and key == known.key:
            break
        try:
            return load_checkpoint(folder), key
        except UserError:
            # Replaced while it was being read; a damaged one is there every time.
            if attempt == MAX_TRIES:
                raise
    return None, key
