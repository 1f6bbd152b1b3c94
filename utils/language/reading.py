"""How a base reads a language: missing characters, tokens per word and second, texts over the limit, and advice."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from utils.audio.sound_file import sound_seconds
from utils.bases.base import Base
from utils.dataset.storage.manifest import read_manifest
from utils.errors import UserError, raise_problems
from utils.options import CODE_SAMPLES
from utils.text.amharic.sounds import to_latin_text
from utils.text.languages import AMHARIC, plain_code, require_packages
from utils.text.normalize import normalize
from utils.text.tokenizer import UNKNOWN, Tokenizer
from utils.text.vocabulary.corpus import iter_texts
from utils.text.vocabulary.learn import words_of
from utils.training.data.clip_list import limit_problems

MOST_TEXTS = 20_000
"""Texts that are read for a plan."""
NUM_SAMPLES = 3
LONG_TEXT, LONG_AUDIO = 400, 330_750
"""Limits of a base for a new language: tokens, and samples (15 s). New languages take more tokens for what they say."""
DENSE = 2.5
"""Tokens a word above which an extension is worth it: the base's own languages need 1.5 to 2.5."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How one tokenizer reads the texts."""

    unknown: Counter[str]
    """Characters without a token, with how often they occur."""
    num_tokens: int
    num_words: int
    seconds: float
    """Sound that belongs to the texts; 0 where there is none."""
    over_limit: int
    """Texts of more tokens than the base's limit."""
    num_texts: int
    samples: list[list[str]]
    """Tokens of the first texts."""
    notes: Counter[str] = field(default_factory=Counter)
    """What has no rule and is read literally, with how often."""

    @property
    def tokens_per_word(self) -> float:
        return self.num_tokens / max(self.num_words, 1)

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens a second of sound; None without sound."""
        return self.num_tokens / self.seconds if self.seconds else None


def texts_of(path: Path, *, is_manifest: bool) -> list[tuple[str, float]]:
    """(text, seconds of sound) of a corpus or a project's clips, at most `MOST_TEXTS`.

    Raises:
        UserError: it cannot be read.
    """
    if is_manifest:
        return [(clip.text, sound_seconds(clip.audio) or 0.0) for clip in read_manifest(path)[:MOST_TEXTS]]
    return [(text, 0.0) for text, _ in zip(iter_texts(path), range(MOST_TEXTS), strict=False)]


def read_texts(texts: Iterable[tuple[str, float]], language: str, tokenizer: Tokenizer, *, limit: int) -> Coverage:
    """How a tokenizer reads texts in this language, whether it has a token for it or not.

    Args:
        texts: (text, seconds of sound).
        language: their code.
        tokenizer: whose letters and merges count; its own Latin form of Amharic is used where it has one.
        limit: longest text, in tokens.

    Raises:
        UserError: the language's rules need a package that is not installed.
    """
    code = plain_code(language)
    unknown: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    samples: list[list[str]] = []
    num_tokens = num_words = over = count = 0
    seconds = 0.0
    segments = cache(tokenizer.segments)
    require_packages(code)
    for text, duration in texts:
        try:
            normalized = normalize(text, code)
        except UserError as error:
            notes[f"skipped: {error.what}"] += 1
            continue
        spoken = to_latin_text(normalized.text) if tokenizer.amharic_g2p and code == AMHARIC else normalized.text
        tokens = tokenizer.segments(spoken)
        unknown.update(char for char in spoken if not char.isspace() and UNKNOWN in segments(char))
        notes.update(normalized.notes)
        # The language token counts too.
        over += len(tokens) + 1 > limit
        num_tokens += len(tokens)
        num_words += len(words_of(normalized.text))
        seconds += duration
        count += 1
        if len(samples) < NUM_SAMPLES:
            samples.append(tokens)
    return Coverage(
        unknown=unknown,
        num_tokens=num_tokens,
        num_words=num_words,
        seconds=seconds,
        over_limit=over,
        num_texts=count,
        samples=samples,
        notes=notes,
    )


def advice(reading: Coverage, language: str, base: Base) -> str:
    """What to do about this language: nothing, transliterate, or extend."""
    code = plain_code(language)
    # A sign without a word is no reason for another vocabulary.
    lacks = sum(count for char, count in reading.unknown.items() if unicodedata.category(char)[0] in "LM")
    if not lacks and code in base.tokenizer().languages and reading.tokens_per_word <= DENSE:
        return "nothing needed: the base reads this language as it is"
    if lacks and code == AMHARIC:
        return "extend (--extend 2000) with hours of speech or more, transliterate (--g2p amh) with less"
    if lacks:
        return "extend (--extend 2000): the base lacks letters of this language"
    if code not in base.tokenizer().languages:
        return "add the language's token (--extend 0): the base reads its letters already"
    return "extend (--extend 2000) to shorten the texts, if its letters are not those of the base's own languages"


def long_limits(base: Base, *, max_text_length: int | None, max_audio_length: int | None) -> dict[str, int]:
    """The training limits of a base for a new language, text and audio together.

    Args:
        base: whose position tables must hold them.
        max_text_length: tokens; `LONG_TEXT`, or what the model takes, when None.
        max_audio_length: samples at 22 050 Hz; `LONG_AUDIO` likewise.

    Raises:
        UserError: a limit is more than the model takes.
    """
    shape = base.gpt_shape()
    audio = LONG_AUDIO if max_audio_length is None else max_audio_length
    text = LONG_TEXT if max_text_length is None else max_text_length
    found = limit_problems(shape, max_audio_length=audio, max_text_length=text)
    # Limits that the user did not set give way to a smaller model.
    given = {"max_text_length": max_text_length, "max_audio_length": max_audio_length}
    found = [one for one in found if any(one.startswith(name) and given[name] for name in given)]
    raise_problems(found, where=f"base {base.name}")
    return {
        "max_text_length": min(text, shape.max_text_tokens),
        "max_audio_length": min(audio, (shape.max_audio_tokens - 1) * CODE_SAMPLES),
    }
