"""A request for speech and the way back to who asked: thread-safe, without torch."""

import asyncio
import math
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from utils.errors import UserError
from utils.options import OUTPUT_RATE, SpeechSettings
from utils.speech.models import SpeakingModel
from utils.speech.voice_library import DEFAULT_VOICE

BUFFER_S = 60.0
"""Speech that waits for a slow listener; beyond it, no further sentence of the request begins."""
FIRST_SOUND_BOUNDS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, math.inf)
"""Seconds."""
SAMPLE_BYTES = 2
MOST_CODES = 10_000
"""No model has as many codes to choose among."""


class NotSpokenError(UserError):
    """A request that is not spoken; with its status and words for programs, as HTTP clients know them."""

    status, code = 400, ""
    param: str | None = None
    """The field at fault."""
    retry_after_s = 0
    """When it is worth another try."""


class UnknownModelError(NotSpokenError):
    """No project and no base has such a model."""

    status, code, param = 404, "model_not_found", "model"


class UnknownVoiceError(NotSpokenError):
    """The model has no such voice, and none was uploaded under this name."""

    code, param = "voice_not_found", "voice"


class QueueFullError(NotSpokenError):
    """As many requests as are allowed are in progress."""

    status, code, retry_after_s = 429, "queue_full", 1


class UnavailableError(NotSpokenError):
    """The server cannot speak now, whatever is asked: a training has the device, or it is being stopped."""

    status, code, retry_after_s = 503, "unavailable", 30


class StalledError(NotSpokenError):
    """The client stopped reading."""

    status, code = 408, "client_stalled"


@dataclass(frozen=True, kw_only=True)
class SpeechRequest(SpeechSettings):
    """What is to be spoken, by whom, and how."""

    text: str
    """Of any length up to the server's limit."""
    seed: int | None = None
    """Fixes the speech, whatever else is spoken; drawn at random when not given."""
    voice: str = DEFAULT_VOICE
    """Name of a voice of the model, or an uploaded one; or a mixture: anna:0.7,ben:0.3."""
    stream: bool = True
    """Give sound as soon as there is some. Otherwise faulty sentences are spoken again before any sound is given."""

    def problems(self) -> list[str]:
        found = super().problems()
        if self.top_k > MOST_CODES:
            found.append(f"top_k is {self.top_k}; use {MOST_CODES} or less")
        return found


@dataclass
class SpeechCounts:
    """What was spoken so far."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Answers by route and status; `aborted` where one was begun and not finished."""
    speech_s: float = 0.0
    """Seconds of speech."""
    first_sound_s: float = 0.0
    """Seconds to the first sound, of all requests together."""
    first_sounds: Counter[float] = field(default_factory=Counter)
    """Requests by the least of `FIRST_SOUND_BOUNDS` in which they had their first sound."""
    out_of_memory: int = 0
    """How often the device's memory ran out."""
    steps: Counter[int] = field(default_factory=Counter)
    """Decoding steps by the number of sentences side by side."""


class Generation:
    """One request on its way.

    Args:
        request: what to speak.
        model: who speaks, and its id.
        references: recordings of uploaded voices that the request names.
    """

    def __init__(
        self,
        request: SpeechRequest,
        model: tuple[str, SpeakingModel],
        *,
        references: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        self.request, self.references = request, references
        self.model_id, self.model = model
        self.created = time.monotonic()
        self.first_sound_s: float | None = None
        """Seconds from the request to its first sound."""
        self.num_tokens = 0
        """Text tokens that the model read, and codes that it spoke, for the account in the reply."""
        self.num_codes = 0
        self.unread: tuple[str, ...] = ()
        """What of the text the model cannot read; known with the first sound."""
        self.error: Exception | None = None
        """Why it ended early."""
        self._changed = asyncio.Event()
        """Set when there is something to take, for the coroutine that waits."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """That coroutine's."""
        self._drained: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._waiting_since = self.created
        self._ended = threading.Event()
        self.is_cancelled = False

    @property
    def is_ended(self) -> bool:
        """Whether no more sound will come; what was not taken yet can still be."""
        return self._ended.is_set()

    @property
    def buffered_s(self) -> float:
        """Seconds of speech that were not taken yet."""
        return self._buffered / SAMPLE_BYTES / OUTPUT_RATE

    def take(self) -> list[bytes]:
        """All sound since the last call: mono, 24 000 Hz, 16 bit, little-endian."""
        with self._lock:
            chunks, was_full = list(self._chunks), self.buffered_s >= BUFFER_S
            self._chunks.clear()
            self._buffered = 0
        if was_full:
            self._drained()
        return chunks

    def cancel(self) -> None:
        """Cancel the request: its listener is gone."""
        self.is_cancelled = True
        self._drained()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it has ended; whether it has."""
        return self._ended.wait(timeout_s)

    async def begun(self) -> None:
        """Return at the first sound, or for speech that is not streamed at its end."""
        while not (self.is_ended or (self.request.stream and self._buffered)):
            await self._change()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Sound as it comes; the speech ends when its reader leaves.

        Raises:
            Exception: whatever ended it early.
        """
        try:
            while True:
                is_ended = self.is_ended
                if chunks := self.take():
                    yield b"".join(chunks)
                elif not is_ended:
                    await self._change()
                elif self.error is not None:
                    raise self.error
                else:
                    return
        finally:
            self.cancel()

    async def _change(self) -> None:
        if self._loop is None:
            # No one was notified before: the caller looks once more.
            self._loop = asyncio.get_running_loop()
            return
        await self._changed.wait()
        self._changed.clear()

    # What follows is called by the engine's thread.

    def on_drained(self, drained: Callable[[], None]) -> None:
        """Notify the engine when a full buffer was emptied, or the request was cancelled."""
        self._drained = drained

    def stalled_s(self) -> float:
        """How long a full buffer has not been read; 0 while there is room."""
        with self._lock:
            is_stalled = self.request.stream and self.buffered_s >= BUFFER_S
            return time.monotonic() - self._waiting_since if is_stalled else 0.0

    def give(self, pcm: bytes) -> None:
        """Pass on sound."""
        if not pcm or self.is_ended:
            return
        if self.first_sound_s is None:
            self.first_sound_s = time.monotonic() - self.created
        with self._lock:
            if not self._chunks:
                self._waiting_since = time.monotonic()
            self._chunks.append(pcm)
            self._buffered += len(pcm)
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """No more will come."""
        if not self.is_ended:
            self.error = error
            self._ended.set()
            self._wake()

    def _wake(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._changed.set)
