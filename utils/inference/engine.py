"""Load a model once and synthesize many times."""

import logging
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from utils.bases.base import Base
from utils.bases.loading import load_decoder, load_gpt
from utils.config import CODE_SAMPLES, DATASET_RATE, Split
from utils.errors import UserError
from utils.inference.decode import Sampling, decode
from utils.inference.vocoder import Vocoder
from utils.model.gpt import ForwardOptions
from utils.model.voices import ReferenceLimits, Voice, load_reference, make_voice
from utils.model.weights import State, read_pickle
from utils.model.xtts import build_gpt
from utils.text.split import split_quick, split_sentences, split_text

SENTENCE_CHARACTERS = 250
"""Longest piece spoken at once where the language has no shorter limit (coqui-tts, VoiceBpeTokenizer.char_limits)."""
CHARACTER_LIMITS = {
    "amh": 120,
    **{"zh": 82, "ja": 71, "ko": 95, "hi": 150, "ar": 166, "ru": 182, "cs": 186, "pt": 203, "it": 213},
}
"""Limits of languages whose letters take more tokens or time (same source). Amharic's is our own: an Ethiopic letter is
a consonant with its vowel, so that it takes as long to say as two Latin ones."""

PATIENCE_SECONDS, PATIENCE_PER_TOKEN = 3.0, 0.5
"""A piece may last this long before it is cut off. Slow speech takes 0.2 s a token: what lasts longer never ends."""

SPLITTERS: dict[Split, Callable[[str, int], list[str]]] = {
    "joined": split_text,
    "sentences": split_sentences,
    "quick": split_quick,
}

log = logging.getLogger(__name__)


class Piece(NamedTuple):
    """What is spoken in one go."""

    text: str
    tokens: list[int]


class Spoken(NamedTuple):
    """A piece as sound."""

    text: str
    wav: Tensor
    """float32 in [-1, 1] at 24 000 Hz, [1, N]."""
    finished: bool
    """Whether the model ended by itself; it was cut off otherwise."""


class Synthesizer:
    """A model ready to speak.

    Args:
        base: model folder: a base, or an exported ready/.
        gpt_state: GPT weights to speak with instead of the folder's own, such as a run's checkpoint.
        device: where to compute.

    Raises:
        UserError: the folder holds no model, or its files do not fit together.
    """

    def __init__(self, base: Base, *, gpt_state: State | None = None, device: str | torch.device = "cpu") -> None:
        self.base = base
        self.device = torch.device(device)
        self.tokenizer = base.tokenizer()
        options = ForwardOptions(sdpa=True)
        if gpt_state is None:
            gpt = load_gpt(base, options)
        else:
            gpt = build_gpt(base.gpt_shape(), gpt_state, where=str(base.folder), options=options)
        self.gpt = gpt.eval().requires_grad_(False).to(self.device)
        self.decoder = load_decoder(base).to(self.device)
        self.vocoder = Vocoder(self.decoder)
        self.limits = ReferenceLimits.of(base.config)

    def voice(self, reference: Path) -> Voice:
        """The voice of a recording; make it once and speak with it many times.

        Raises:
            UserError: the recording is not readable or too short.
        """
        wav = load_reference(reference, self.limits)
        return make_voice(self.gpt, self.decoder, self.base.mel_stats(), wav, self.limits)

    def speakers(self) -> dict[str, Voice]:
        """The reference voices that came with the model, by name."""
        if not self.base.speakers.is_file():
            return {}
        return read_speakers(self.base.speakers)

    def default_voice(self) -> Voice:
        """The model's own voice: its reference.wav, else its first reference voice.

        Raises:
            UserError: the model has neither.
        """
        reference = self.base.folder / "reference.wav"
        if reference.is_file():
            return self.voice(reference)
        for voice in self.speakers().values():
            return voice
        raise UserError(
            what="this model has no voice of its own", where=str(self.base.folder), fix="give a recording: --reference"
        )

    def speak(
        self,
        text: str,
        *,
        language: str,
        voice: Voice,
        sampling: Sampling | None = None,
        speed: float = 1.0,
        seed: int | None = None,
        split: Split = "joined",
    ) -> Tensor:
        """Speech of a text of any length.

        Args:
            text: what to say.
            language: code the model reads.
            voice: who says it.
            sampling: how codes are drawn.
            speed: 2 speaks twice as fast.
            seed: fixes the sampling; None draws anew each time.
            split: what is spoken in one go, see `SpeechSettings.split`.

        Returns:
            float32 in [-1, 1] at 24 000 Hz, [1, N].

        Raises:
            UserError: the language or characters of the text are not readable by this model, or it is empty.
        """
        pieces = self.pieces(text, language, split=split)
        spoken = self.sentences(pieces, voice=voice, sampling=sampling or Sampling(), speed=speed, seed=seed)
        return torch.cat([sentence.wav for sentence in spoken], dim=1)

    def sentences(
        self,
        pieces: list[Piece],
        *,
        voice: Voice,
        sampling: Sampling,
        speed: float = 1.0,
        seed: int | None = None,
        is_cancelled: Callable[[], bool] = bool,
    ) -> Iterator[Spoken]:
        """Speech piece by piece: the first can be heard while the rest is spoken.

        Args:
            pieces: what to say, from `pieces`.
            voice: who says it.
            sampling: how codes are drawn.
            speed: 2 speaks twice as fast.
            seed: fixes the sampling; None draws anew each time.
            is_cancelled: asked before each code; never, when not given.

        Raises:
            CancelledError: it was.
        """
        voice = voice.to(self.device)
        generator = torch.Generator().manual_seed(seed) if seed is not None else None
        for text, tokens in pieces:
            limit = int((PATIENCE_SECONDS + PATIENCE_PER_TOKEN * len(tokens)) * DATASET_RATE / CODE_SAMPLES)
            said = decode(
                self.gpt,
                voice.latents,
                tokens,
                sampling,
                generator=generator,
                max_codes=limit,
                is_cancelled=is_cancelled,
            )
            if not said.stopped:
                log.warning("cut off after %d codes: the model did not end %r", limit, text)
            wav = self.vocoder(said.latents, voice.embedding, speed=speed)
            yield Spoken(text=text, wav=wav, finished=said.stopped)

    def pieces(self, text: str, language: str, *, split: Split = "joined") -> list[Piece]:
        """What is spoken one after the other, all checked before the first is spoken.

        Args:
            text: what to say.
            language: code the model reads.
            split: see `SpeechSettings.split`.

        Raises:
            UserError: the language or characters of the text are not readable by this model, or it is empty.
        """
        code = self.tokenizer.check_language(language)
        limit = CHARACTER_LIMITS.get(code, SENTENCE_CHARACTERS)
        # Composed letters, as preparation writes them: the vocabulary has "é" but no accent of its own.
        text = unicodedata.normalize("NFC", text)
        texts = SPLITTERS[split](text, limit)
        if not texts:
            raise UserError(what="there is no text to speak", fix="give some words")
        unknown = self.tokenizer.unknown_characters(text, code)
        if unknown:
            raise UserError(
                what=f"this model cannot read: {' '.join(unknown)}", where=text[:60], fix="spell them differently"
            )
        pieces = [Piece(text=piece, tokens=self.tokenizer.encode(piece, code)) for piece in texts]
        longest = max(pieces, key=lambda piece: len(piece.tokens)).tokens
        if len(longest) > self.gpt.shape.max_text_tokens:
            raise UserError(
                what=f"a word takes {len(longest)} tokens; the model reads {self.gpt.shape.max_text_tokens}",
                fix="put spaces or full stops into it",
            )
        return pieces


def read_speakers(path: Path) -> dict[str, Voice]:
    """Reference voices of a speakers_xtts.pth, by name.

    Raises:
        UserError: missing, damaged, or not such a file.
    """
    content = read_pickle(path)
    try:
        return {
            name: Voice(latents=entry["gpt_cond_latent"], embedding=entry["speaker_embedding"])
            for name, entry in content.items()
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(what=f"not a file of reference voices: {error}", where=str(path)) from error
