"""The thread that owns the device: it loads models, speaks requests side by side, and ends on request."""

import gc
import logging
import math
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from utils.errors import UserError
from utils.jobs.device import CPU, device_holder, free_device, wanted_device
from utils.server.catalog import IMPORTS
from utils.server.settings import ServerConfig
from utils.speech.generation import (
    FIRST_SOUND_BOUNDS,
    Generation,
    QueueFullError,
    SpeechCounts,
    SpeechRequest,
    StalledError,
    UnavailableError,
)
from utils.speech.models import SpeakingModel

if TYPE_CHECKING:
    from utils.inference.engine import Synthesizer
    from utils.inference.speaking import Engine, Speaking

POLL_S = 0.5
"""So often is looked whether a training has claimed the device."""
STALL_S = 60.0
"""A client that does not read for this long, with a full buffer, is disconnected."""
WARM_UP = "1."  # numbers are read in every language
MEMORY_SHARE = 0.6
"""Of the free memory, for models, when no limit is given."""

log = logging.getLogger(__name__)


class SpeechService:
    """Speaks generations; any thread may call.

    Args:
        config: the server's settings.
        stall_s: see STALL_S.
    """

    def __init__(self, config: ServerConfig, *, stall_s: float = STALL_S) -> None:
        self.config, self.output, self._stall_s = config, config.output.resolve(), stall_s
        self.counts = SpeechCounts()
        self._last_used = time.monotonic()
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._inbox: deque[Generation] = deque()
        """Generations whose model is not loaded yet."""
        self.num_live = 0
        """Generations that have not ended."""
        self.is_ready = False
        """Whether the libraries and the first model are loaded."""
        self._closing = ""
        self._preload: tuple[str, SpeakingModel] | None = None
        self._engine: Engine | None = None
        self.device = CPU
        """As claims name it: cpu or cuda:N."""
        self._looked = 0.0
        self._thread = threading.Thread(target=self._run, name="speech", daemon=True)

    def start(self, preload: tuple[str, SpeakingModel] | None = None) -> None:
        """Begin; the libraries are loaded in the thread, and requests wait for them.

        Args:
            preload: a model and its id, loaded before anybody asks for it.
        """
        self._preload = preload
        self._thread.start()

    def submit(self, generation: Generation) -> None:
        """Have a request spoken.

        Raises:
            QueueFullError: too many are in progress.
            UnavailableError: the service is being stopped.
        """
        with self._lock:
            if self._closing:
                raise UnavailableError(what=self._closing)
            if self.has_died:
                raise UnavailableError(what="the speech engine has ended", fix="restart the server; its log says why")
            if self.num_live >= self.config.max_requests:
                full = QueueFullError(
                    what=f"{self.num_live} requests are being spoken or waiting, the most that this server takes",
                    fix="try again in some seconds",
                )
                full.retry_after_s = max(1, min(30, self.num_live // self.config.slots))
                raise full
            self.num_live += 1
            generation.on_drained(self._woken.set)
            self._inbox.append(generation)
            self._woken.set()

    def stop(self, reason: str = "the server is being stopped") -> None:
        """End all requests with an error, soon; returns at once, also in a signal handler."""
        self._closing = reason

    def close(self, timeout_s: float = 10.0) -> None:
        """Stop, and wait for the thread's end."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    @property
    def has_died(self) -> bool:
        """Whether the thread was started and has ended without being asked."""
        return self._thread.ident is not None and not self._thread.is_alive() and not self._closing

    def loaded(self) -> dict[str, int]:
        """Bytes of each loaded model."""
        models = self._engine.cache.models if self._engine else {}
        return {name: model.num_bytes for name, model in models.items()}

    def num_active(self) -> int:
        """Sentences being decoded."""
        return sum(len(model.batch.decoder.sentences) for model in self._all())

    def num_waiting(self) -> int:
        """Requests of which no sentence was begun."""
        return len(self._inbox) + sum(not one.has_begun for model in self._all() for one in list(model.speakings))

    def _all(self) -> "list[Synthesizer]":
        return list(self._engine.cache.models.values()) if self._engine else []

    # All that follows runs in the thread.

    @property
    def engine(self) -> "Engine":
        """Of the thread, once it has begun."""
        assert self._engine is not None
        return self._engine

    def _run(self) -> None:
        try:
            self._engine = self._new_engine()
        except Exception as error:
            log.exception("the speech engine cannot start")  # /health says that it has ended
            return self._end_all(error)
        while not self._closing:
            # Before it looks: what comes while it looks must not wait.
            self._woken.clear()
            try:
                if not self._turn():
                    self._woken.wait(POLL_S)
            except Exception as error:
                # No request may end the thread that all others need.
                log.exception("the engine's turn failed; its models are unloaded")
                self._end_all(error)
                self.engine.cache.clear()
        with self._lock:
            pass  # later requests see that it is closing
        self._end_all(UnavailableError(what=self._closing))
        self.engine.cache.clear()

    def _turn(self) -> bool:
        """One step of every model; whether there was anything to do."""
        from utils.inference.speaking import feed

        if not self.is_ready:
            try:
                self._load_first()
            finally:
                self.is_ready = True
        # No model is loaded onto a device without a look: it may have been given up a moment ago.
        is_due = time.monotonic() - self._looked > POLL_S if self.engine.cache.models else bool(self._inbox)
        if is_due and self._mind_trainings():
            return True
        self._admit()
        is_busy = False
        for model in self._all():
            self._sweep(model)
            slots = model.batch.decoder.slots
            feed(model, kept=max(1, slots // 4) if slots > 1 else 0)
            if not model.batch.is_idle:
                self.engine.step(model)
                is_busy = True
        if is_busy or self._inbox:
            self._last_used = time.monotonic()
        elif time.monotonic() - self._last_used > (60 * self.config.unload_after or math.inf):
            self.engine.cache.clear()
        return is_busy

    def _load_first(self) -> None:
        if self._preload is None or device_holder(self.device, self.output) is not None:
            return
        try:
            model = self.engine.cache.load(**self._preload[1].request(), name=self._preload[0])
            self._warm_up(model, Generation(SpeechRequest(text=WARM_UP, seed=0), self._preload))
        except UserError as error:
            log.warning("%s cannot be loaded: %s", self._preload[0], error)

    def _warm_up(self, model: "Synthesizer", generation: Generation) -> None:
        """Speak a word that is discarded: the first calls of a model's kernels take a second longer than all others."""
        from utils.inference.speaking import feed

        model.speakings.append(self._speaking(generation, model))
        self.num_live += 1
        while not generation.is_ended and not self._closing:
            feed(model)
            self.engine.step(model)
        self.counts.speech_s = self.counts.first_sound_s = 0.0
        self.counts.steps.clear()
        self.counts.first_sounds.clear()

    def _new_engine(self) -> "Engine":
        with IMPORTS:  # which take seconds: the port is open already
            import torch

            from utils.hardware.resources import GIB, memory
            from utils.inference.model_cache import ModelCache
            from utils.inference.speaking import Engine
            from utils.performance_utils.device import settle_device

        kind, reason = settle_device(self.config.device)
        if reason:
            log.warning(reason)
        self.device = self._choose_device() if kind != CPU else CPU
        kind = kind if self.device != CPU else "cpu"
        if self.config.max_model_gb is not None:
            most = self.config.max_model_gb * GIB
        else:
            most = MEMORY_SHARE * (memory().available_bytes if kind != "cuda" else torch.cuda.mem_get_info()[0])
        cache = ModelCache(kind, precision=self.config.precision, slots=self.config.slots, max_bytes=int(most))
        return Engine(cache, self._end, self.counts)

    def _choose_device(self) -> str:
        """cpu or cuda:N; auto avoids a GPU that a training has."""
        wanted = self.config.device
        return free_device("auto", self.output) if wanted == "auto" else wanted_device(wanted)

    def _mind_trainings(self) -> bool:
        """Give the device up when a training has claimed it (True); go back to a GPU that is free again."""
        self._looked = time.monotonic()
        holder = device_holder(self.device, self.output)
        if holder is not None:
            error = UnavailableError(
                what=f"the {holder.kind} job {holder.name!r} has started and needs the device",
                fix="try again when it has ended",
            )
            if self.engine.cache.models:
                log.warning("unloaded all models: %s", error.what)
            # With auto, requests that wait are spoken on the CPU.
            self._end_all(error, waiting=self._choose_device() == self.device)
            self.engine.cache.clear()
        if not self.engine.cache.is_busy and self._choose_device() != self.device:
            self.engine.cache.clear()
            self._engine = self._new_engine()
        return holder is not None

    def _admit(self) -> None:
        """Load what the oldest generations need, as long as it fits."""
        from utils.inference.model_cache import NoRoomError

        while self._inbox:
            generation = self._inbox[0]
            if generation.is_cancelled:
                self._inbox.popleft()
                self._end(generation)
                continue
            try:
                model = self.engine.cache.load(**generation.model.request(), name=generation.model_id)
                self._inbox.popleft()
                model.speakings.append(self._speaking(generation, model))
            except NoRoomError:
                return
            except Exception as error:
                if self._inbox and self._inbox[0] is generation:
                    self._inbox.popleft()
                if not isinstance(error, UserError):
                    log.exception("a request for %s cannot be spoken", generation.model_id)
                self._end(generation, error)
                gc.collect()  # what was loaded in vain

    def _speaking(self, generation: Generation, model: "Synthesizer") -> "Speaking":
        from utils.inference.speaking import Speaking
        from utils.inference.voice_spec import find_voice, named_voice

        request = generation.request
        language = request.language or model.language or self.config.language
        voice = find_voice(model, request.voice, recordings=generation.references, has_files=False)
        try:
            pieces = model.pieces(request.text, language, split=request.split)
        except RecursionError:
            raise UserError(what="the SSML is nested too deeply", fix="use p and s within speak") from None
        return Speaking(generation, model, pieces, voice, named=partial(named_voice, model, self.output))

    def _sweep(self, model: "Synthesizer") -> None:
        """Drop requests without a listener."""
        for speaking in list(model.speakings):
            generation = speaking.generation
            if generation.stalled_s() > self._stall_s:
                stalled = StalledError(what=f"the client has not read for {self._stall_s:.0f} s")
                self.engine.drop(model, speaking, stalled)
            elif generation.is_cancelled:
                self.engine.drop(model, speaking)

    def _end(self, generation: Generation, error: Exception | None = None) -> None:
        with self._lock:
            self.num_live -= 1
        if (seconds := generation.first_sound_s) is not None:
            self.counts.first_sound_s += seconds
            self.counts.first_sounds[next(bound for bound in FIRST_SOUND_BOUNDS if seconds <= bound)] += 1
        generation.end(error)

    def _end_all(self, error: Exception, *, waiting: bool = True) -> None:
        """End every request."""
        for model in self._all():
            for speaking in list(model.speakings):
                self.engine.drop(model, speaking, error)
        while waiting and self._inbox:
            self._end(self._inbox.popleft(), error)
