"""Unsupported characters: how often a dataset has them, and what to write instead."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from utils.options import STARTER
from utils.project.advice import CODE, extend_command
from utils.text.punctuation import INSTEAD


@dataclass(frozen=True)
class UnknownCharacter:
    """One character in all transcripts that hold it."""

    character: str
    name: str
    """Its code point and Unicode name."""
    count: int
    clips: int
    instead: str
    """What to do about it, in words."""

    @property
    def title(self) -> str:
        """The character and its name."""
        return f"{self.character} ({self.name})"

    @property
    def advice(self) -> str:
        """How often it occurs, and what to do about it."""
        times = f"{self.count} time{'s' * (self.count != 1)} in {self.clips} clip{'s' * (self.clips != 1)}"
        return f"{times}; {self.instead}"


def without_accents(text: str) -> str:
    """A text's letters and signs in their plain forms, without marks."""
    return "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))


def suggestion(character: str, is_known: Callable[[str], bool], *, extend: str = "") -> str:
    """What to write instead of a character, in words.

    Args:
        character: that the vocabulary lacks.
        is_known: whether it can express a text.
        extend: command that adds the language's letters to the base; with NAME and FILE when not given.
    """
    plain = without_accents(character)
    for text in (INSTEAD.get(character), plain, INSTEAD.get(plain)):
        if text and text != character and is_known(text):
            return f"write {text!r}" if text.strip() else "write a space"
    kind = unicodedata.category(character[0])[0] if character else "S"
    if kind in "LM":
        return f"add the language's letters to the base: {extend or extend_command(CODE, STARTER)}"
    return "write it as a word, or remove it"


def code_and_name(character: str) -> str:
    """Such as U+00DF latin small letter sharp s."""
    if len(character) != 1:
        return ""
    return f"U+{ord(character):04X} {unicodedata.name(character, 'unnamed').lower()}"


def count_unknown(texts: Iterable[tuple[str, dict[str, str]]]) -> list[UnknownCharacter]:
    """Every character that is lacking, the most frequent first.

    Args:
        texts: of each clip, what the tokenizer reads, and its unknown characters with what to do about them.
    """
    counts: Counter[str] = Counter()
    clips: Counter[str] = Counter()
    instead: dict[str, str] = {}
    for text, unknown in texts:
        for character, fix in unknown.items():
            counts[character] += max(1, text.count(character))
            clips[character] += 1
            instead[character] = fix
    return [
        UnknownCharacter(character, code_and_name(character), count, clips[character], instead[character])
        for character, count in counts.most_common()
    ]
