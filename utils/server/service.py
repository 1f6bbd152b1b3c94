"""The thread that owns the device: it loads models, speaks requests side by side, and ends on request."""

import gc
import logging
import math
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from utils.errors import UserError
from utils.inference.generation import (
    FIRST_SOUND_BOUNDS,
    Generation,
    RequestError,
    SpeechCounts,
    SpeechRequest,
    unavailable,
)
from utils.jobs.device import CPU, device_holder, free_device, require_usable, wanted_device
from utils.server.settings import ServerConfig
from utils.speech.models import SpeakingModel

if TYPE_CHECKING:
    from utils.inference.engine import Synthesizer
    from utils.inference.speaking import Engine

POLL_S = 0.5
"""So often is looked whether a training has claimed the device."""
STALL_S = 60.0
"""A client that does not read for this long, with a full buffer, is disconnected."""
WARM_UP = "1."  # numbers are read in every language

log = logging.getLogger(__name__)


class SpeechService:
    """Speaks generations; any thread may call.

    Args:
        config: the server's settings.
        stall_s: see STALL_S.

    Raises:
        UserError: the device cannot be used.
    """

    def __init__(self, config: ServerConfig, *, stall_s: float = STALL_S) -> None:
        require_usable(config.device)
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
            RequestError: too many are in progress, or the service is being stopped.
        """
        with self._lock:
            if self._closing:
                raise unavailable(self._closing)
            if self.has_died:
                raise unavailable("the speech engine has ended", fix="restart the server; its log says why")
            if self.num_live >= self.config.max_requests:
                raise RequestError(
                    what=f"{self.num_live} requests are being spoken or waiting, the most that this server takes",
                    fix="try again in some seconds",
                    status=429,
                    code="queue_full",
                    retry_after_s=max(1, min(30, self.num_live // self.config.slots)),
                )
            self.num_live += 1
            generation.on_drained = self._woken.set
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
        return len(self._inbox) + sum(not one.has_begun for model in self._all() for one in list(model.generations))

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
        self._end_all(unavailable(self._closing))
        self.engine.cache.clear()

    def _turn(self) -> bool:
        """One step of every model; whether there was anything to do."""
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
            slots = model.batch.decoder.slots
            is_busy |= self.engine.step(model, kept=max(1, slots // 4) if slots > 1 else 0)
        if is_busy or self._inbox:
            self._last_used = time.monotonic()
        elif time.monotonic() - self._last_used > (60 * self.config.unload_after or math.inf):
            self.engine.cache.clear()
        return is_busy

    def _load_first(self) -> None:
        """Load a model, and speak a word that is discarded: the first calls of its kernels take a second longer."""
        if self._preload is None or device_holder(self.device, self.output) is not None:
            return
        try:
            generation = Generation(SpeechRequest(text=WARM_UP, seed=0), self._preload)
            model = self._begin(generation)
        except UserError as error:
            log.warning("%s cannot be loaded: %s", self._preload[0], error)
            return
        self.num_live += 1
        while not generation.is_ended and not self._closing:
            self.engine.step(model)
        self.counts.speech_s = self.counts.first_sound_s = 0.0
        self.counts.steps.clear()
        self.counts.first_sounds.clear()

    def _new_engine(self) -> "Engine":
        from utils.server.loaded import Engine, new_cache, settle_device  # takes seconds: the port is open already

        kind, reason = settle_device(self.config.device)
        if reason:
            log.warning(reason)
        self.device = self._choose_device() if kind != CPU else CPU
        cache = new_cache(self.config, kind if self.device != CPU else CPU)
        return Engine(cache, self.output, end=self._end, counts=self.counts, stall_s=self._stall_s)

    def _choose_device(self) -> str:
        """cpu or cuda:N; auto avoids a GPU that a training has."""
        wanted = self.config.device
        return free_device("auto", self.output) if wanted == "auto" else wanted_device(wanted)

    def _mind_trainings(self) -> bool:
        """Give the device up when a training has claimed it (True); go back to a GPU that is free again."""
        self._looked = time.monotonic()
        holder = device_holder(self.device, self.output)
        if holder is not None:
            error = unavailable(
                f"the {holder.kind} job {holder.name!r} has started and needs the device",
                fix="try again when it has ended",
            )
            if self.engine.cache.models:
                log.warning("unloaded all models: %s", error.what)
            # With auto, requests that wait are spoken on the CPU.
            self._end_all(error, waiting=self._choose_device() == self.device)
            self.engine.cache.clear()
        is_busy = any(model.generations for model in self._all())
        if not is_busy and self._choose_device() != self.device:
            self.engine.cache.clear()
            self._engine = self._new_engine()
        return holder is not None

    def _admit(self) -> None:
        """Load what the oldest generations need, as long as it fits."""
        from utils.server.loaded import NoRoomError

        while self._inbox:
            generation = self._inbox[0]
            try:
                if generation.is_cancelled:
                    self._end(generation)
                else:
                    self._begin(generation)
            except NoRoomError:
                return
            except Exception as error:
                if not isinstance(error, UserError):
                    log.exception("a request for %s cannot be spoken", generation.model_id)
                self._end(generation, error)
                gc.collect()  # what was loaded in vain
            self._inbox.popleft()

    def _begin(self, generation: Generation) -> "Synthesizer":
        model = self.engine.cache.load(**generation.model.request(), name=generation.model_id)
        self.engine.begin(generation, model, model.language or self.config.language)
        return model

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
            for generation in list(model.generations):
                self.engine.drop(model, generation, error)
        while waiting and self._inbox:
            self._end(self._inbox.popleft(), error)
