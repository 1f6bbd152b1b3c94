"""The engine's side of a request: its pieces, which of them are being spoken, and their sound in order."""

import gc
import logging
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from utils.audio.write import to_pcm16
from utils.errors import UserError
from utils.inference.batch import Piece, Spoken, Utterance
from utils.inference.engine import Synthesizer
from utils.inference.model_cache import ModelCache
from utils.model.voices import Voice
from utils.options import OUTPUT_RATE
from utils.performance_utils.memory import is_out_of_memory
from utils.speech.generation import BUFFER_S, Generation, SpeechCounts

MAX_PAUSES_S = 300.0
"""Silence in one text; it costs nothing to ask for, and memory to give."""
SECONDS_AHEAD = 2.0
"""A streamed text is spoken by one sentence more at a time for each of these seconds that its listener has in hand."""

log = logging.getLogger(__name__)


class Speaking:
    """A generation whose model is loaded.

    Args:
        generation: of the request.
        synthesizer: of the model.
        pieces: its text.
        voice: on the model's device.
        named: see `Synthesizer.utterances`.
        on_spoken: called with each piece that was spoken, in order.

    Raises:
        UserError: the text asks for too much silence, or names a voice that there is not.
    """

    def __init__(
        self,
        generation: Generation,
        synthesizer: Synthesizer,
        pieces: list[Piece],
        voice: Voice,
        *,
        named: Callable[[str], Voice] | None = None,
        on_spoken: Callable[[Spoken], None] = lambda spoken: None,
    ) -> None:
        pauses = sum(piece.pause_s for piece in pieces)
        if pauses > MAX_PAUSES_S:
            what = f"the text asks for {pauses:.0f} s of silence"
            raise UserError(what=what, fix=f"use {MAX_PAUSES_S:.0f} s at most")
        self.generation = generation
        self.underway: dict[Utterance, int] = {}
        """Those that were given to a batch, and the numbers of their pieces."""
        self.failures = 0
        """How often a step failed while this was spoken alone."""
        request = generation.request
        # Also a speech without a requested seed has one: after an error it is spoken again from where it was.
        seed = int(torch.randint(2**62, ())) if request.seed is None else request.seed
        self._utterances = synthesizer.utterances(
            pieces,
            voice=voice,
            named=named,
            settings=replace(request, seed=seed),
        )
        self._on_spoken = on_spoken
        self._again: list[int] = []
        """Pieces to be spoken once more."""
        self._next = 0
        self.passed_on = 0
        """The piece whose sound is being passed on."""
        self._waiting: dict[int, list[bytes]] = {}
        """Sound of pieces behind it."""
        self._done: dict[int, Spoken] = {}
        self._given = [0] * len(pieces)
        """Samples of each piece so far."""
        self._total = 0
        self._first_sound = 0.0
        generation.unread = pieces[0].unread
        generation.num_tokens = sum(len(piece.tokens) for piece in pieces)

    @property
    def is_done(self) -> bool:
        return self.passed_on == len(self._utterances)

    @property
    def has_begun(self) -> bool:
        """Whether one of its pieces was given to a batch."""
        return self._next > 0

    @property
    def lead_s(self) -> float:
        """Speech that its listener has in hand; what was played by now counts as played."""
        if not self._first_sound:
            return 0.0
        return self._total / OUTPUT_RATE - (time.monotonic() - self._first_sound)

    @property
    def wants_slot(self) -> bool:
        """Whether another piece may be spoken now."""
        if self._next == len(self._utterances) and not self._again:
            return False
        if not self.generation.request.stream:
            return True
        if self.generation.buffered_s >= BUFFER_S:
            return False
        # Each sentence beside it slows the one that is being played.
        return not self.underway or len(self.underway) <= self.lead_s / SECONDS_AHEAD

    def begin(self) -> Utterance:
        """The next piece, for a batch."""
        if self._again:
            number = self._again.pop(0)
        else:
            number, self._next = self._next, self._next + 1
        skip, position = self._given[number], 0

        def take(wav: Tensor) -> None:
            nonlocal position
            position += wav.size(1)
            # What was given before an error is not given twice.
            self._take(number, wav[:, max(0, wav.size(1) - max(0, position - skip)) :])

        # A new one each time: of one that failed, attempts and chunks are there already.
        utterance = replace(self._utterances[number], on_chunk=take if self.generation.request.stream else None)
        self.underway[utterance] = number
        return utterance

    def repeat(self, utterance: Utterance) -> None:
        """Its batch was lost: speak it again, before others."""
        self._again = sorted([*self._again, self.underway.pop(utterance)])

    def conclude(self, utterance: Utterance) -> None:
        """One of its utterances was spoken."""
        number, spoken = self.underway.pop(utterance), utterance.spoken
        assert spoken is not None
        if not self.generation.request.stream:
            self._take(number, spoken.wav)
        self.generation.num_codes += spoken.attempts[-1].codes if spoken.attempts else 0
        self._done[number] = spoken
        while self.passed_on in self._done:
            self._on_spoken(self._done.pop(self.passed_on))
            self.passed_on += 1
            for pcm in self._waiting.pop(self.passed_on, []):
                self.generation.give(pcm)

    def _take(self, number: int, wav: Tensor) -> None:
        if not wav.size(1):
            return
        self._first_sound = self._first_sound or time.monotonic()
        self._given[number] += wav.size(1)
        self._total += wav.size(1)
        pcm = to_pcm16(wav.cpu().float()).numpy().astype("<i2").tobytes()
        if number == self.passed_on:
            self.generation.give(pcm)
        else:
            self._waiting.setdefault(number, []).append(pcm)


class Engine:
    """Speaks what the models of a cache are given, one code of each sentence at a time; for one thread.

    Args:
        cache: of the models.
        end: called with a generation that was spoken, or that cannot be, and the error.
        counts: of what was spoken.
    """

    def __init__(
        self, cache: ModelCache, end: Callable[[Generation, Exception | None], None], counts: SpeechCounts
    ) -> None:
        self.cache, self._end, self._counts = cache, end, counts

    def step(self, model: Synthesizer) -> None:
        """One code of each sentence of a model."""
        begun = {utterance: speaking for speaking in model.speakings for utterance in speaking.underway}
        batch = model.batch
        self._counts.steps[len(batch.decoder.sentences) + batch.num_waiting] += 1
        try:
            ended = batch.step()
        except Exception as error:  # noqa: BLE001
            self._recover(model, begun, error)
            return
        for utterance in ended:
            speaking = begun[utterance]
            assert utterance.spoken is not None
            self._counts.speech_s += utterance.spoken.wav.size(1) / OUTPUT_RATE
            speaking.conclude(utterance)
            speaking.failures = 0
            if speaking.is_done:
                model.speakings.remove(speaking)
                self._end(speaking.generation, None)

    def drop(self, model: Synthesizer, speaking: Speaking, error: Exception | None = None) -> None:
        """Speak no more of it."""
        try:
            for utterance in speaking.underway:
                model.batch.drop(utterance)
        finally:
            model.speakings.remove(speaking)
            self._end(speaking.generation, error)

    def _recover(self, model: Synthesizer, begun: dict[Utterance, Speaking], error: Exception) -> None:
        """A step failed: all that was being decoded is spoken again, in fewer slots or each request alone."""
        is_shortage = is_out_of_memory(error)
        before = model.batch.decoder.slots
        slots = before // 2 if is_shortage else before
        if is_shortage:
            self._counts.out_of_memory += 1
            log.warning("memory ran out with %d sentences side by side; %d from now on", before, max(1, slots))
        else:
            log.exception("a step with %d sentences failed", len(begun))
        guilty = next(iter(begun.values()), None) if len(begun) == 1 else None
        error.__traceback__ = None  # it holds the tensors that did not fit
        gc.collect()
        if not self.cache.reset(model, max(1, slots)):
            for speaking in model.speakings:
                self._end(speaking.generation, error)
            return
        for utterance, speaking in begun.items():
            speaking.repeat(utterance)
            if not is_shortage:
                speaking.failures += 1
        if guilty is not None and (guilty.failures > 1 or not slots):
            self.drop(model, guilty, error)


def feed(model: Synthesizer, *, kept: int = 0) -> None:
    """Fill free slots of a model.

    The first sentence of a request goes before all others, then the one whose listener would hear silence first. After
    an error that one of several requests caused, each is spoken alone, so that only that one fails.

    Args:
        model: speaks them.
        kept: slots that stay free for first sentences.
    """
    batch = model.batch
    if suspect := next((one for one in model.speakings if one.failures), None):
        if batch.is_idle and suspect.wants_slot:
            batch.add(suspect.begin())
        elif batch.is_idle:
            suspect.failures = 0
        return
    slots = batch.decoder.slots
    free = slots - len(batch.decoder.sentences) - batch.num_waiting
    while free > 0:
        ready = [one for one in model.speakings if one.wants_slot]
        ready.sort(key=lambda one: (one.has_begun, one.lead_s))
        if not ready or (ready[0].has_begun and free <= kept):
            return
        batch.add(ready[0].begin())
        free -= 1
