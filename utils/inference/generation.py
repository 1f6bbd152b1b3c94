"""A request for speech: what was asked, how far it is spoken, and the way back to who asked; without torch."""

import asyncio
import math
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from utils.audio.sound_file import as_pcm16
from utils.errors import UserError
from utils.options import OUTPUT_RATE, SpeechSettings
from utils.speech.models import SpeakingModel
from utils.speech.voice_library import DEFAULT_VOICE

if TYPE_CHECKING:
    from torch import Tensor

    from utils.inference.batch import Spoken, Utterance

BUFFER_S = 60.0
"""Speech that waits for a slow listener; beyond it, no further sentence of the request begins."""
FIRST_SOUND_BOUNDS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, math.inf)
"""Seconds."""
SECONDS_AHEAD = 2.0
"""A streamed text is spoken by one sentence more at a time for each of these seconds that its listener has in hand."""
SAMPLE_BYTES = 2
MOST_CODES = 10_000
"""No model has as many codes to choose among."""


class RequestError(UserError):
    """A request that is not answered as it was meant, with its status and words for programs, as of HTTP.

    Args:
        status: of HTTP.
        code: a word for programs.
        param: the field at fault.
        retry_after_s: when it is worth another try.
        words: as of `UserError`.
    """

    def __init__(
        self, *, status: int = 400, code: str = "", param: str | None = None, retry_after_s: int = 0, **words: str
    ) -> None:
        super().__init__(**words)
        self.status, self.code, self.param, self.retry_after_s = status, code, param, retry_after_s


def unavailable(what: str, fix: str = "", code: str = "unavailable") -> RequestError:
    """The server cannot speak now, whatever is asked: a training has the device, or it is being stopped."""
    return RequestError(what=what, fix=fix, status=503, code=code, retry_after_s=30)


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
    """One request on its way, from who asked to its sound. Any thread may call what does not say otherwise.

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
        self.on_drained: Callable[[], None] = lambda: None
        """Called when a full buffer was emptied, or the request was cancelled."""
        self._lock = threading.Lock()
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._waiting_since = self.created
        self._ended = threading.Event()
        self.is_cancelled = False
        self.failures = 0
        """How often a step failed while this was spoken alone."""
        self.underway: dict[Utterance, int] = {}
        """Pieces that were given to a batch, and their numbers."""
        self._utterances: Sequence[Utterance] = ()
        self.has_begun = False
        """Whether one of its pieces was given to a batch."""
        self._ahead: list[int] = []
        """Numbers of the pieces to be given to a batch."""
        self._passed_on = 0
        """The piece whose sound is being passed on."""
        self._behind: dict[int, list[bytes]] = {}
        """Sound of pieces behind it."""
        self._spoken: dict[int, Spoken] = {}
        """Pieces behind it that were spoken."""
        self._num_samples: list[int] = []
        """Of each piece so far."""
        self.on_spoken: Callable[[Spoken], None] = lambda spoken: None
        """Called by the engine's thread with each piece that was spoken, in order."""

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
            self.on_drained()
        return chunks

    def cancel(self) -> None:
        """Cancel the request: its listener is gone."""
        self.is_cancelled = True
        self.on_drained()

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

    def prepare(self, utterances: "Sequence[Utterance]") -> None:
        """What is to be spoken, in order; at least one piece."""
        self._utterances, self._ahead = utterances, list(range(len(utterances)))
        self._num_samples = [0] * len(utterances)
        self.unread = utterances[0].piece.unread
        self.num_tokens = sum(len(utterance.piece.tokens) for utterance in utterances)

    @property
    def lead_s(self) -> float:
        """Speech that its listener has in hand; what was played by now counts as played."""
        if self.first_sound_s is None:
            return 0.0
        return sum(self._num_samples) / OUTPUT_RATE - (time.monotonic() - self.created - self.first_sound_s)

    @property
    def wants_slot(self) -> bool:
        """Whether another piece may be spoken now."""
        if not self._ahead or not self.request.stream:
            return bool(self._ahead)
        if self.buffered_s >= BUFFER_S:
            return False
        # Each sentence beside it slows the one that is being played.
        return not self.underway or len(self.underway) <= self.lead_s / SECONDS_AHEAD

    def next_piece(self) -> "Utterance":
        """The next piece, for a batch."""
        number, self.has_begun = self._ahead.pop(0), True
        known, position = self._num_samples[number], 0

        def give(wav: "Tensor") -> None:
            nonlocal position
            position += wav.size(1)
            # What was given before an error is not given twice.
            self._give(number, wav[:, max(0, wav.size(1) - max(0, position - known)) :])

        # A new one each time: of one that failed, attempts and chunks are there already.
        utterance = replace(self._utterances[number], on_chunk=give if self.request.stream else None)
        self.underway[utterance] = number
        return utterance

    def requeue(self, utterance: "Utterance") -> None:
        """Its batch was lost: it is spoken once more, before others."""
        self._ahead = sorted([*self._ahead, self.underway.pop(utterance)])

    def conclude(self, utterance: "Utterance") -> bool:
        """One of its pieces was spoken; whether all are."""
        number, spoken = self.underway.pop(utterance), utterance.spoken
        assert spoken is not None
        if not self.request.stream:
            self._give(number, spoken.wav)
        self.num_codes += spoken.attempts[-1].codes if spoken.attempts else 0
        self._spoken[number] = spoken
        while self._passed_on in self._spoken:
            self.on_spoken(self._spoken.pop(self._passed_on))
            self._passed_on += 1
            for pcm in self._behind.pop(self._passed_on, []):
                self._pass_on(pcm)
        return self._passed_on == len(self._utterances)

    def stalled_s(self) -> float:
        """How long a full buffer has not been read; 0 while there is room."""
        with self._lock:
            is_stalled = self.request.stream and self.buffered_s >= BUFFER_S
            return time.monotonic() - self._waiting_since if is_stalled else 0.0

    def end(self, error: Exception | None = None) -> None:
        """No more will come."""
        if not self.is_ended:
            self.error = error
            self._ended.set()
            self._wake()

    def _give(self, number: int, wav: "Tensor") -> None:
        """Sound of a piece, [1, n]."""
        self._num_samples[number] += wav.size(1)
        pcm = as_pcm16(wav.cpu().float().numpy()).astype("<i2").tobytes()
        if number == self._passed_on:
            self._pass_on(pcm)
        else:
            self._behind.setdefault(number, []).append(pcm)

    def _pass_on(self, pcm: bytes) -> None:
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

    def _wake(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._changed.set)
