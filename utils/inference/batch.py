"""Continuous batching: sentences of all texts and callers, from their tokens to waveforms, on one device.

For one thread, which owns the device. Sentences wait in the order they came, an interrupted one first; each is decoded,
judged by the guards, perhaps decoded again, and made audible in chunks or whole.
"""

import hashlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from utils.inference.adapters import Adapter
from utils.inference.decode import Decoder
from utils.inference.guards import GRAVE, Judgement, TailCut, judge, usual_codes
from utils.inference.sentence import Sentence
from utils.inference.vocoder import Vocoder, WaveformStream
from utils.model.gpt import XttsGpt
from utils.model.voices import Voice
from utils.options import CODE_SAMPLES, DATASET_RATE, OUTPUT_RATE, SpeechPrecision, SpeechSettings

PATIENCE = (3.0, 0.5)
"""Seconds, and seconds a token, that a piece may last before it is cut off. Slow speech takes 0.2 s a token: what lasts
longer never ends."""
PRACTICE_PATIENCE = (0.5, 0.06)
"""Of a base that does not speak, and so never ends a sentence: about as long as the text would last."""
MAX_ATTEMPTS = 3
"""So often a sentence is spoken when the guards find grave faults."""
FIRST_CODES, MOST_CODES = 4, 32
"""Codes of sound in a stream's first chunk; each next one has twice as many as the one before, up to this."""
FADE_S = 0.005
"""Ends are faded over this time: a sentence that is cut off does not end at zero."""

log = logging.getLogger(__name__)


class Piece(NamedTuple):
    """What is spoken in one go."""

    text: str
    tokens: list[int]
    pause_s: float = 0.0
    """Silence after it."""
    language: str = ""
    """Code of the language that its tokens are of."""
    voice: str = ""
    """Name of who says it; empty where the text's own voice does."""
    unread: tuple[str, ...] = ()
    """Of a text's first piece: what of the text is not spoken, because the model cannot read it."""
    said: tuple[str, ...] = ()
    """Of a text's first piece: words of the text that are said otherwise, as `GPU: gee pee you`."""
    sentences: tuple["Piece", ...] = ()
    """Its sentences, where it has several: spoken one by one if all attempts at the whole fail a guard."""


class Attempt(NamedTuple):
    """One try at a sentence, for the report."""

    seed: int | None
    """Fixed its codes; None where no seed was given."""
    codes: int
    faults: tuple[str, ...]


class Spoken(NamedTuple):
    """A piece as sound."""

    text: str
    wav: Tensor
    """float32 in [-1, 1] at 24 000 Hz, [1, N]; of a stream, all its chunks."""
    finished: bool
    """Whether the model ended by itself; it was cut off otherwise."""
    attempts: tuple[Attempt, ...] = ()
    """What the guards saw; the kept one is the one with `faults` as below."""
    faults: tuple[str, ...] = ()
    """What is still wrong with it."""
    tail_cut_s: float = 0.0
    """Quiet at its end that was cut."""
    unread: tuple[str, ...] = ()
    """As of its piece."""
    said: tuple[str, ...] = ()
    """As of its piece."""


@dataclass(eq=False, kw_only=True)
class Utterance:
    """One piece, from the queue to its waveform."""

    piece: Piece
    voice: Voice
    settings: SpeechSettings
    """How it is spoken; but for the seed, which is its own."""
    seed: int | None = None
    """Fixes the speech whatever is spoken beside it; None draws another each time."""
    adapter: Adapter | None = None
    """What the voice adds to the weights."""
    guard: bool = True
    """Whether faults are repaired; without it the model's speech is given as it is."""
    word_error: Callable[[Piece, Tensor], float] | None = None
    """Share of a piece's letters that a recognizer takes for others, of a waveform [1, N]; a guard. Not asked about
    streamed speech, which is not spoken again."""
    max_codes: int | None = None
    """Codes at most; as many as a very slow speaker takes for the text when not given."""
    on_chunk: Callable[[Tensor], None] | None = None
    """Given samples [1, n] as soon as they are certain. A streamed sentence is spoken once: what was played stays."""
    spoken: Spoken | None = None
    """What came of it; None while it waits, or when it was dropped."""
    _attempts: list[tuple[Attempt, Judgement, Tensor]] = field(init=False, default_factory=list)
    _reports: list[Attempt] = field(init=False, default_factory=list)
    """Of attempts whose result is decided."""
    _faults: list[str] = field(init=False, default_factory=list)
    _rest: list[Piece] = field(init=False, default_factory=list)
    """Sentences still to be spoken where the whole failed; the first is being decoded."""
    _cut_s: float = 0.0
    _attempt_seed: int | None = None
    """Of the attempt that is being decoded: each has one of its own."""
    _sentence: Sentence | None = None
    _stream: "WaveformStream | None" = None
    _tail: TailCut = field(init=False, default_factory=TailCut)
    _chunks: list[Tensor] = field(init=False, default_factory=list)
    _next_codes: int = 0
    _chunk_codes: int = 2 * FIRST_CODES

    @property
    def part(self) -> Piece:
        """What of it is being decoded."""
        return self._rest[0] if self._rest else self.piece


class SpeechBatch:
    """Speaks utterances side by side.

    Args:
        gpt: in evaluation mode, on its device.
        vocoder: of the same model.
        slots: sentences decoded side by side at most.
        precision: of the GPT's products.
        release: see `Decoder`.
        patience: as `PATIENCE`.
    """

    def __init__(
        self,
        gpt: XttsGpt,
        vocoder: Vocoder,
        *,
        slots: int = 8,
        precision: SpeechPrecision = "fp32",
        release: bool = False,
        patience: tuple[float, float] = PATIENCE,
    ) -> None:
        self._patience = patience
        self.decoder = Decoder(gpt, slots=slots, precision=precision, release=release)
        self._vocoder = vocoder
        self._waiting: deque[Utterance] = deque()
        self._active: dict[Sentence, Utterance] = {}
        self.steps: dict[int, int] = {}
        """Steps by the number of sentences that were decoded side by side: the proof of batching."""

    def reset(self, slots: int) -> None:
        """Drop all utterances, and decode up to `slots` of them side by side from now on; see `Decoder.reset`."""
        self._waiting.clear()
        self._active.clear()
        self.decoder.reset(slots)

    def add(self, utterance: Utterance) -> None:
        """Queue it."""
        self._waiting.append(utterance)

    def drop(self, utterance: Utterance) -> None:
        """Forget it, wherever it is; one that was spoken stays so."""
        if utterance in self._waiting:
            self._waiting.remove(utterance)
        sentence = utterance._sentence
        if sentence is not None and sentence in self._active:
            del self._active[sentence]
            self.decoder.leave(sentence)

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._active

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def step(self) -> list[Utterance]:
        """One more code of each sentence, and all that follows from it.

        Returns:
            Utterances that were spoken.
        """
        while self._waiting and self.decoder.takes(self._waiting[0].adapter):
            self._join(self._waiting.popleft())
        if not self._active:
            return []
        num = len(self._active)
        self.steps[num] = self.steps.get(num, 0) + 1
        ended = self.decoder.step()
        for utterance in self._active.values():
            self._give_chunk(utterance)
        done = []
        for sentence in ended:
            utterance = self._active.pop(sentence)
            if self._conclude(utterance, sentence):
                done.append(utterance)
        return done

    def speak(self, utterances: Sequence[Utterance]) -> Iterator[Spoken]:
        """Speak utterances side by side and give each as soon as it and those before it are spoken.

        An iterator that is closed drops what is left.
        """
        for utterance in utterances:
            self.add(utterance)
        try:
            for utterance in utterances:
                while utterance.spoken is None:
                    self.step()
                yield utterance.spoken
        finally:
            for utterance in utterances:
                self.drop(utterance)

    def speak_texts(self, texts: Sequence[Sequence[Utterance]]) -> Iterator[list[Spoken]]:
        """As `speak`, of several texts, which are given one by one."""
        spoken = self.speak([utterance for text in texts for utterance in text])
        for text in texts:
            yield [next(spoken) for _ in text]

    def _join(self, utterance: Utterance) -> None:
        tokens = utterance.part.tokens
        seed, number = utterance.seed, len(utterance._reports) + len(utterance._attempts)
        if seed is not None and number:
            seed = derived_seed(seed, number)
        utterance._attempt_seed = seed
        least, a_token = self._patience
        limit = int((least + a_token * len(tokens)) * DATASET_RATE / CODE_SAMPLES)
        sentence = Sentence(
            latents=utterance.voice.latents,
            tokens=tokens,
            settings=utterance.settings,
            adapter=utterance.adapter,
            limit=utterance.max_codes or limit,
            generator=None if seed is None else torch.Generator().manual_seed(seed),
        )
        utterance._sentence = sentence
        if utterance.on_chunk is not None:
            utterance._stream = self._vocoder.stream(utterance.voice.embedding, speed=utterance.settings.speed)
            utterance._next_codes = self._vocoder.delay_codes + FIRST_CODES
        self._active[sentence] = utterance
        self.decoder.join(sentence)

    def _give_chunk(self, utterance: Utterance) -> None:
        """Make what is new of a stream audible, when enough of it is."""
        sentence = utterance._sentence
        assert sentence is not None
        if utterance._stream is None or len(sentence.codes) < utterance._next_codes:
            return
        utterance._next_codes = len(sentence.codes) + utterance._chunk_codes
        utterance._chunk_codes = min(2 * utterance._chunk_codes, MOST_CODES)
        self._give(utterance, utterance._stream.add(self.decoder.hidden(sentence)[None], is_last=False))

    def _give(self, utterance: Utterance, wav: Tensor, *, is_last: bool = False) -> None:
        if utterance.guard:
            wav = utterance._tail.add(wav, is_last=is_last)
        if is_last:
            wav = ended(wav, utterance.part.pause_s)
        if wav.size(1):
            utterance._chunks.append(wav)
            if utterance.on_chunk is not None:
                utterance.on_chunk(wav)

    def _conclude(self, utterance: Utterance, sentence: Sentence) -> bool:
        """Judge a decoded sentence: make it audible, or queue it once more; whether the utterance is done."""
        part, is_streamed = utterance.part, utterance._stream is not None
        verdict = judge(
            sentence.codes, sentence.stop_logprobs, stopped=sentence.stopped, expected=usual_codes(part.text)
        )
        hidden = self.decoder.hidden(sentence)
        if utterance.guard and utterance.word_error and not is_streamed and not verdict.is_grave:
            wav = self._vocoder(hidden[None], utterance.voice.embedding, speed=utterance.settings.speed)
            verdict = verdict.with_words(utterance.word_error(part, wav))
        attempt = Attempt(utterance._attempt_seed, len(sentence.codes), verdict.faults)
        utterance._attempts.append((attempt, verdict, hidden))
        if utterance.guard and verdict.is_grave and not is_streamed:
            if len(utterance._attempts) < MAX_ATTEMPTS:
                log.info("spoken again (%s): %r", ", ".join(verdict.faults), part.text)
                self._waiting.appendleft(utterance)
                return False
            if part.sentences:
                log.info("spoken sentence by sentence (%s): %r", ", ".join(verdict.faults), part.text)
                utterance._rest = list(part.sentences)
                self._next_part(utterance)
                return False
        self._keep_best(utterance)
        if len(utterance._rest) > 1:
            utterance._rest.pop(0)
            self._next_part(utterance)
            return False
        utterance.spoken = Spoken(
            text=utterance.piece.text,
            wav=torch.cat(utterance._chunks, dim=1),
            finished="unfinished" not in utterance._faults,
            attempts=(*utterance._reports, *(one[0] for one in utterance._attempts)),
            faults=tuple(dict.fromkeys(utterance._faults)),
            tail_cut_s=round(utterance._cut_s, 3),
            unread=utterance.piece.unread,
            said=utterance.piece.said,
        )
        utterance._attempts.clear()
        return True

    def _next_part(self, utterance: Utterance) -> None:
        """Queue the first of an utterance's sentences that are left, before all others."""
        utterance._reports += [one[0] for one in utterance._attempts]
        utterance._attempts.clear()
        utterance._tail = TailCut()
        self._waiting.appendleft(utterance)

    def _keep_best(self, utterance: Utterance) -> None:
        """Make the best attempt at a part audible, and report what is still wrong with it."""
        part, is_streamed = utterance.part, utterance._stream is not None
        attempts = utterance._attempts if utterance.guard else utterance._attempts[-1:]
        _, verdict, hidden = min(attempts, key=lambda one: one[1].penalty)
        if utterance.guard and not is_streamed:
            hidden = hidden[: max(1, verdict.kept)]
        stream = utterance._stream or self._vocoder.stream(utterance.voice.embedding, speed=utterance.settings.speed)
        self._give(utterance, stream.add(hidden[None], is_last=True), is_last=True)
        if grave := [fault for fault in verdict.faults if fault in GRAVE]:
            tried = f"after {len(attempts)} attempts" if len(attempts) > 1 else "not retried"
            log.warning("check this sentence (%s, %s): %s", ", ".join(grave), tried, part.text)
        utterance._cut_s += utterance._tail.cut_s
        utterance._faults += [*verdict.faults, *(["quiet tail"] if utterance._tail.cut_s else [])]


def ended(wav: Tensor, pause_s: float) -> Tensor:
    """The last chunk of a sentence with its end faded and the pause after it."""
    wav = wav.clone()
    num = min(wav.size(1), int(FADE_S * OUTPUT_RATE))
    if num:
        wav[:, -num:] *= torch.linspace(1, 0, num)
    return torch.cat([wav, torch.zeros(1, int(pause_s * OUTPUT_RATE))], dim=1)


def derived_seed(seed: int, *numbers: int) -> int:
    """A seed that differs for each of the numbers, the same on every machine."""
    name = "/".join(map(str, (seed, *numbers)))
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1
