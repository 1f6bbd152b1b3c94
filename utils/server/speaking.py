"""The engine's side of a request: its pieces, which of them are being spoken, and their sound in order."""

import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from utils.audio.write import to_pcm16
from utils.config import OUTPUT_RATE
from utils.errors import UserError
from utils.inference.batch import Piece, Utterance, derived_seed
from utils.inference.model_cache import LoadedModel
from utils.inference.sampling import Sampling
from utils.model.voices import Voice, mixed
from utils.server.ticket import BUFFER_S, Ticket, UnknownVoiceError
from utils.speech.voice_library import DEFAULT_VOICE, voice_parts

MAX_PAUSES_S = 300.0
"""Silence in one text; it costs nothing to ask for, and memory to give."""
SECONDS_AHEAD = 2.0
"""A streamed text is spoken by one sentence more at a time for each of these seconds that its listener has in hand."""


class Speaking:
    """A ticket whose model is loaded.

    Args:
        ticket: of the request.
        pieces: its text.
        voice: on the model's device.

    Raises:
        UserError: the text asks for too much silence.
    """

    def __init__(self, ticket: Ticket, pieces: list[Piece], voice: Voice) -> None:
        pauses = sum(piece.pause_s for piece in pieces)
        if pauses > MAX_PAUSES_S:
            what = f"the text asks for {pauses:.0f} s of silence"
            raise UserError(what=what, fix=f"use {MAX_PAUSES_S:.0f} s at most")
        self.ticket = ticket
        self.underway: dict[Utterance, int] = {}
        """Those that were given to a batch, and the numbers of their pieces."""
        self.failures = 0
        """How often a step failed while this was spoken alone."""
        request = ticket.request
        # Also a speech that nobody wants again has a seed: after an error it is spoken again from where it was.
        self._seed = int(torch.randint(2**62, ())) if request.seed is None else request.seed
        self._sampling = Sampling.of(request)
        self._pieces, self._voice = pieces, voice
        self._again: list[int] = []
        """Pieces to be spoken once more."""
        self._next = 0
        self._heard = 0
        """The piece whose sound is being passed on."""
        self._waiting: dict[int, list[bytes]] = {}
        """Sound of pieces behind it."""
        self._done: set[int] = set()
        self._given = [0] * len(pieces)
        """Samples of each piece so far."""
        self._total = 0
        self._first_sound = 0.0
        ticket.unread = pieces[0].unread
        ticket.num_tokens = sum(len(piece.tokens) for piece in pieces)

    @property
    def is_done(self) -> bool:
        return self._heard == len(self._pieces)

    @property
    def has_begun(self) -> bool:
        """Whether one of its pieces was given to a batch."""
        return self._next > 0

    @property
    def lead_s(self) -> float:
        """Speech that its listener has in hand; what was heard by now counts as heard."""
        if not self._first_sound:
            return 0.0
        return self._total / OUTPUT_RATE - (time.monotonic() - self._first_sound)

    @property
    def wants_slot(self) -> bool:
        """Whether another piece may be spoken now."""
        if self._next == len(self._pieces) and not self._again:
            return False
        if not self.ticket.request.stream:
            return True
        if self.ticket.buffered_s >= BUFFER_S:
            return False
        # Each sentence beside it slows the one that is being heard.
        return not self.underway or len(self.underway) <= self.lead_s / SECONDS_AHEAD

    def begin(self) -> Utterance:
        """The next piece, for a batch."""
        if self._again:
            number = self._again.pop(0)
        else:
            number, self._next = self._next, self._next + 1
        request, skip = self.ticket.request, self._given[number]
        position = 0

        def take(wav: Tensor) -> None:
            nonlocal position
            position += wav.size(1)
            # What was heard before an error is not heard twice.
            self._take(number, wav[:, max(0, wav.size(1) - max(0, position - skip)) :])

        utterance = Utterance(
            piece=self._pieces[number],
            voice=self._voice,
            sampling=self._sampling,
            speed=request.speed,
            seed=derived_seed(self._seed, number),
            on_chunk=take if request.stream else None,
            is_cancelled=lambda: self.ticket.is_cancelled,
        )
        self.underway[utterance] = number
        return utterance

    def repeat(self, utterance: Utterance) -> None:
        """Its batch was lost: speak it again, before others."""
        self._again = sorted([*self._again, self.underway.pop(utterance)])

    def conclude(self, utterance: Utterance) -> None:
        """One of its utterances was spoken."""
        number, spoken = self.underway.pop(utterance), utterance.spoken
        assert spoken is not None
        if not self.ticket.request.stream:
            self._take(number, spoken.wav)
        self.ticket.num_codes += spoken.attempts[-1].codes if spoken.attempts else 0
        self._done.add(number)
        while self._heard in self._done:
            self._heard += 1
            for pcm in self._waiting.pop(self._heard, []):
                self.ticket.give(pcm)

    def _take(self, number: int, wav: Tensor) -> None:
        if not wav.size(1):
            return
        self._first_sound = self._first_sound or time.monotonic()
        self._given[number] += wav.size(1)
        self._total += wav.size(1)
        pcm = to_pcm16(wav.cpu().float()).numpy().astype("<i2").tobytes()
        if number == self._heard:
            self.ticket.give(pcm)
        else:
            self._waiting.setdefault(number, []).append(pcm)


def feed(model: LoadedModel) -> None:
    """Fill free slots of a model.

    The first sentence of a request goes before all others, then the one whose listener would hear silence first. Some
    slots stay free for first sentences. After an error that one of several requests caused, each is spoken alone, so
    that only that one fails.
    """
    batch = model.synthesizer.batch
    if suspect := next((one for one in model.speakings if one.failures), None):
        if batch.is_idle and suspect.wants_slot:
            batch.add(suspect.begin())
        elif batch.is_idle:
            suspect.failures = 0
        return
    slots = batch.decoder.slots
    free = slots - len(batch.decoder.sentences) - batch.num_waiting
    kept = max(1, slots // 4) if slots > 1 else 0
    while free > 0:
        ready = [one for one in model.speakings if one.wants_slot]
        ready.sort(key=lambda one: (one.has_begun, one.lead_s))
        if not ready or (ready[0].has_begun and free <= kept):
            return
        batch.add(ready[0].begin())
        free -= 1


def find_voice(model: LoadedModel, spec: str, references: Mapping[str, Path]) -> Voice:
    """The voice of a request, on the model's device.

    Args:
        model: speaks with it.
        spec: a name, or a mixture.
        references: recordings of uploaded voices, which go before those that came with the model.

    Raises:
        UnknownVoiceError: there is none of that name.
        UserError: a recording cannot be used.
    """
    parts = []
    for name, weight in voice_parts(spec):
        if name not in references and name != DEFAULT_VOICE and name not in model.speakers:
            known = ", ".join([DEFAULT_VOICE, *sorted(model.speakers)][:8])
            raise UnknownVoiceError(what=f"there is no voice {name!r}", fix=f"use one of: {known}")
        parts.append((model.voice(references.get(name), None if name == DEFAULT_VOICE else name), weight))
    return parts[0][0] if len(parts) == 1 else mixed(parts)
