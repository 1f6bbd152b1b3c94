"""Load a model once and synthesize many times."""

import logging
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import torch

from utils.bases.base import Base
from utils.bases.decoder import load_decoder
from utils.bases.loading import load_gpt
from utils.errors import UserError
from utils.files import file_hash
from utils.inference.adapters import MAX_ADAPTERS, Adapter
from utils.inference.batch import PATIENCE, PRACTICE_PATIENCE, Piece, SpeechBatch, Utterance, derived_seed
from utils.inference.generation import Generation
from utils.inference.products import resolve_precision, vocoder_in_bf16
from utils.inference.vocoder import Vocoder
from utils.inference.voice_file import read_voice_file
from utils.model.gpt import ForwardOptions
from utils.model.voices import ReferenceLimits, Voice, kept, load_reference, make_voice, mixed
from utils.model.weights import State, read_pickle
from utils.model.xtts import build_gpt
from utils.options import SentenceGrouping, SpeechPrecision, SpeechSettings
from utils.performance_utils.device import check_allocator
from utils.runs.layout import REFERENCE_FILE
from utils.speech.voice_library import VOICE_SUFFIX, opened
from utils.text.marks import read_marks
from utils.text.pronunciations import pronounce, read_pronunciations
from utils.text.readable import named
from utils.text.split import pause_after, split_quick, split_sentences, split_text

log = logging.getLogger(__name__)

SENTENCE_CHARACTERS = 250
"""Longest piece spoken at once where the language has no shorter limit (coqui-tts, VoiceBpeTokenizer.char_limits)."""
CHARACTER_LIMITS = {
    "amh": 120,
    **{"zh": 82, "ja": 71, "ko": 95, "hi": 150, "ar": 166, "ru": 182, "cs": 186, "pt": 203, "it": 213},
}
"""Limits of languages whose letters take more tokens or time (same source). Amharic's is our own: an Ethiopic letter is
a consonant with its vowel, so that it takes as long to say as two Latin ones."""

FINAL_MARKS = {"zh": "。", "ja": "。", "hi": "।", "am": "።", "amh": "።"}
"""What ends a sentence in languages that do not use the full stop."""

SPLITTERS: dict[SentenceGrouping, Callable[[str, int], list[str]]] = {
    "joined": split_text,
    "sentences": split_sentences,
    "quick": split_quick,
}

SLOTS = 8
"""Sentences decoded side by side; keys and values of each take 0.25 MB a position at full size in float32."""
MAX_VOICES = 64
"""Voices of recordings that a model keeps, of 0.13 MB each at full size."""
MAX_VOICE_FILES = 2 * MAX_ADAPTERS
"""LoRA voices that a model keeps, of 31.5 MB each at full size and rank 32."""


class Synthesizer:
    """A model ready to speak.

    Args:
        base: model folder: a base, or an exported ready/.
        gpt_state: GPT weights to speak with instead of the folder's own, such as a run's checkpoint.
        device: where to compute.
        precision: of the weights; see `resolve_precision`. float32 is the reference, which speaks what stock does.
        slots: sentences decoded side by side at most.

    Raises:
        UserError: the folder holds no model, its files do not fit together, or the device lacks the precision.
    """

    def __init__(
        self,
        base: Base,
        *,
        gpt_state: State | None = None,
        device: str | torch.device = "cpu",
        precision: SpeechPrecision = "fp32",
        slots: int = SLOTS,
    ) -> None:
        self.base = base
        self.word_check: Callable[..., float] | None = None
        """Share of letters in a piece that its sound says otherwise, see `utils.inference.word_check`; a guard."""
        self.device = torch.device(device)
        if fault := check_allocator(self.device):
            log.warning(fault)
        self.precision = resolve_precision(precision, self.device)
        self.tokenizer = base.tokenizer()
        self.decoder = load_decoder(base).to(self.device)
        self.vocoder = Vocoder(self.decoder, bf16=vocoder_in_bf16(self.precision, self.device))
        self.limits = ReferenceLimits.of(base.config)
        self.own_voice = base.folder / REFERENCE_FILE
        """The recording of the voice that speaks where none is named."""
        self.pronunciations = Path()
        """The table of words that are said otherwise; no file where there is none."""
        self.key: tuple[Any, ...] = ()
        """Its files as they were when it was loaded: folder and time of the base, and the checkpoint of a run."""
        self.language = ""
        """What it speaks when nothing else is said; may be empty."""
        self.generations: list[Generation] = []
        """Requests that it speaks; while there are any, it is neither renewed nor unloaded."""
        self.adapter: Adapter | None = None
        """What its voice adds to the weights, where it is one of several over them; see `adapted`."""
        self._speakers = dict[str, Voice]()
        self._own: Voice | None = None
        self._load(gpt_state, slots)

    def renew(self, gpt_state: State) -> None:
        """Take other GPT weights of the same shape, such as those of a later checkpoint.

        The old ones are freed first: if this fails, the synthesizer cannot speak.
        """
        slots = self.batch.decoder.slots
        del self.batch, self.gpt
        self._load(gpt_state, slots)

    def _load(self, gpt_state: State | None, slots: int) -> None:
        options = ForwardOptions(sdpa=True)
        if gpt_state is None:
            gpt = load_gpt(self.base, options)
        else:
            gpt = build_gpt(self.base.gpt_shape(), gpt_state, where=str(self.base.folder), options=options)
        self.gpt = gpt.eval().requires_grad_(False).to(self.device)
        self._has_other_weights = gpt_state is not None
        self._voices = dict[str, Voice]()
        """Of recordings, by their content; the one that was used last at the end."""
        self._adapted = dict[Path, tuple[tuple[float, int], Adapter, str, Voice]]()
        """LoRA voices by file, the one that was used last at the end: time and size of the file, what it adds, its
        language and its own voice. Not the synthesizers made of them: these share this dict, and in a circle the
        weights would outlive the model."""
        self.batch = SpeechBatch(
            self.gpt,
            self.vocoder,
            slots=slots,
            precision=self.precision,
            release=True,
            patience=PATIENCE if self.base.can_speak else PRACTICE_PATIENCE,
        )

    def adapted(self, path: Path) -> "Synthesizer":
        """This model with a voice of a LoRA run: another synthesizer over the same weights, slots and requests.

        Args:
            path: the voice's file; see `utils.inference.voice_file`. It is read once, and again when it has changed.

        Raises:
            UserError: it cannot be read, or belongs to another base.
        """
        facts, key = path.stat() if path.is_file() else None, path.absolute()
        change = (facts.st_mtime, facts.st_size) if facts else (0.0, 0)
        if key in self._adapted and self._adapted[key][0] != change:
            del self._adapted[key]
        new = partial(self._new_adapted, path, change)
        other = copy(self)
        _, other.adapter, language, other._own = kept(self._adapted, key, MAX_VOICE_FILES, new)
        other.language = language or self.language
        return other

    def _new_adapted(self, path: Path, change: tuple[float, int]) -> tuple[tuple[float, int], Adapter, str, Voice]:
        if self._has_other_weights:
            raise UserError(
                what="a voice is added to its base, not to a run", where=str(path), fix="name the base as the model"
            )
        adapter, recording, language = read_voice_file(path, self.base)
        own = make_voice(self.gpt, self.decoder, self.base.mel_stats(), recording, self.limits)
        return change, adapter, language, own

    @property
    def checkpoint(self) -> str:
        """Name of the checkpoint whose weights it has; empty for an exported model or a base."""
        return self.key[2].name if len(self.key) > 2 else ""

    @property
    def num_bytes(self) -> int:
        """Memory of its tensors: weights as they are, their prepared copies, caches and slots, files of voices."""
        modules = (self.gpt, self.decoder, self.vocoder.module)
        storages = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
            for module in modules
            for tensor in (*module.parameters(), *module.buffers())
        }
        # On a GPU, files of voices take the machine's memory, not its own.
        files = self._adapted.values() if self.device.type != "cuda" else ()
        return sum(storages.values()) + self.batch.decoder.num_bytes + sum(one[1].num_bytes for one in files)

    def voice(self, reference: Path) -> Voice:
        """The voice of a recording, on the model's device; make it once and speak with it many times.

        Args:
            reference: a recording, or several with their weights as `utils.speech.voice_library` keeps them.

        Raises:
            UserError: a recording is not readable or too short.
        """
        key = file_hash(reference) if reference.is_file() else ""
        return kept(self._voices, key, MAX_VOICES, partial(self._new_voice, reference))

    def _new_voice(self, reference: Path) -> Voice:
        if reference.suffix == VOICE_SUFFIX and reference.is_file():
            with opened(reference) as recordings:
                return mixed([(self._new_voice(recording), weight) for recording, weight in recordings])
        wav = load_reference(reference, self.limits)
        return make_voice(self.gpt, self.decoder, self.base.mel_stats(), wav, self.limits)

    def speakers(self) -> dict[str, Voice]:
        """The reference voices that came with the model, by name, on its device."""
        if not self._speakers and self.base.speakers.is_file():
            found = read_speakers(self.base.speakers)
            # Not replaced: voices over the same weights share it.
            self._speakers.update({name: voice.to(self.device) for name, voice in found.items()})
        return self._speakers

    def default_voice(self) -> Voice:
        """The model's own voice: its recording or that of its voice's file, else its first reference voice.

        Raises:
            UserError: the model has neither.
        """
        if self._own is not None:
            return self._own
        if self.own_voice.is_file():
            return self.voice(self.own_voice)
        for voice in self.speakers().values():
            return voice
        raise UserError(
            what="this model has no voice of its own", where=str(self.base.folder), fix="give a recording: --reference"
        )

    def utterances(
        self,
        pieces: list[Piece],
        *,
        voice: Voice,
        settings: SpeechSettings,
        named: Callable[[list[str]], dict[str, Voice]] | None = None,
        **options: Any,
    ) -> list[Utterance]:
        """What a batch takes to speak pieces, each with its own seed.

        Args:
            pieces: of a text.
            voice: who says it.
            settings: how; without a seed, another is drawn each time.
            named: finds the voices that marks in the text name.
            options: further fields of each `Utterance`.

        Raises:
            UserError: a mark names a voice that there is not.
        """
        names, seed = list(dict.fromkeys(piece.voice for piece in pieces if piece.voice)), settings.seed
        if names and named is None:
            raise UserError(what=f"the text is to be spoken with the voice {names[0]!r}; here it has one voice only")
        found = {"": voice} | (named(names) if named else {})
        voices = {name: one.to(self.device) for name, one in found.items()}
        return [
            Utterance(
                piece=piece,
                voice=voices[piece.voice],
                adapter=self.adapter,
                settings=settings,
                seed=None if seed is None else derived_seed(seed, number),
                word_error=None if self.word_check is None else partial(self.word_check, self.tokenizer),
                **options,
            )
            for number, piece in enumerate(pieces)
        ]

    def pieces(self, text: str, language: str, *, split: SentenceGrouping = "quick") -> list[Piece]:
        """What is spoken one after the other, all checked before the first is spoken.

        Args:
            text: what to say; see `utils.text.marks` for pauses, voices and languages within it. Words of the table
                `pronunciations` are replaced.
            language: code the model reads.
            split: see `SpeechSettings.split`.

        Raises:
            UserError: the language is not readable by this model, or nothing of the text is.
        """
        pieces: list[Piece] = []
        parts, unread, said = read_marks(text), dict[str, None](), dict[str, None]()
        table = read_pronunciations(self.pronunciations)
        for part in parts:
            code = self.tokenizer.check_language(part.language or language)
            spelled, used = pronounce(part.text, code, table)
            said |= dict.fromkeys(used)
            shown, left_out = self.tokenizer.readable(spelled, code)
            unread |= dict.fromkeys(left_out)
            found = [piece._replace(voice=part.voice) for piece in self._plain_pieces(shown, code, split)]
            if found and part.pause_s is not None:
                found[-1] = found[-1]._replace(pause_s=part.pause_s)
            elif not found and pieces and part.pause_s is not None:
                pieces[-1] = pieces[-1]._replace(pause_s=pieces[-1].pause_s + part.pause_s)
            pieces += found
        if unread:
            log.warning("not read, this model has no sound for it: %s", named(unread))
        if not pieces and unread:
            raise UserError(
                what=f"this model cannot read: {named(unread)}", where=text[:60], fix="spell them differently"
            )
        if not pieces:
            raise UserError(what="there is no text to speak", fix="give some words")
        if said:
            log.info("pronounced: %s", "; ".join(said))
        pieces[0] = pieces[0]._replace(unread=tuple(unread), said=tuple(said))
        if parts[-1].pause_s is None:
            # Nothing follows that its punctuation could be a pause before.
            pieces[-1] = pieces[-1]._replace(pause_s=0.0)
        longest = max(pieces, key=lambda piece: len(piece.tokens)).tokens
        if len(longest) > self.gpt.shape.max_text_tokens:
            raise UserError(
                what=f"a word takes {len(longest)} tokens; the model reads {self.gpt.shape.max_text_tokens}",
                fix="put spaces or full stops into it",
            )
        return pieces

    def _plain_pieces(self, text: str, code: str, split: SentenceGrouping) -> list[Piece]:
        limit = CHARACTER_LIMITS.get(code, SENTENCE_CHARACTERS)
        mark = self.tokenizer.normalize(FINAL_MARKS.get(code, "."), code)
        if self.tokenizer.unknown_characters(mark, code):
            mark = ""

        def made(texts: list[str]) -> list[Piece]:
            return [piece_of(one, words) for one in texts if any(map(str.isalnum, words := normalized(one, code)))]

        def piece_of(text: str, words: str) -> Piece:
            sentences = split_sentences(text, limit)
            # Without a mark at its end, a model speaks on: "No" takes three times as long as "No." It is set behind
            # the words, because a number before a full stop is an ordinal in many languages.
            spoken = words if pause_after(text) else words + mark
            return Piece(
                text=text,
                tokens=self.tokenizer.encode_normalized(spoken, code),
                pause_s=pause_after(text),
                language=code,
                sentences=tuple(made(sentences)) if len(sentences) > 1 else (),
            )

        normalized = self.tokenizer.normalize
        return made(SPLITTERS[split](text, limit))


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
