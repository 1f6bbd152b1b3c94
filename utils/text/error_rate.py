"""Error rates of recognized text."""

import unicodedata
from collections.abc import Callable

import jiwer

from utils.text.languages import same_case


def character_error_rate(reference: str, recognized: str, *, count_spaces: bool = False) -> float:
    """Insertions, deletions and substitutions over the characters of the reference; it may exceed 1.

    Case, punctuation and the way accents are written do not count: recognizers differ in them from people.

    Args:
        reference: what should have been said.
        recognized: may be empty.
        count_spaces: whether a space between words is a character.

    Source: Levenshtein distance over the reference's length, by jiwer.
    """
    expected, got = letters(reference, keep_spaces=count_spaces), letters(recognized, keep_spaces=count_spaces)
    return float(jiwer.cer(expected, got)) if expected else float(bool(got))


def letters(text: str, *, keep_spaces: bool = False) -> str:
    """The letters, digits and combining marks of a text, in one case and one way of writing.

    Args:
        text: any.
        keep_spaces: put one space between words; an apostrophe does not end a word.
    """
    plain = unicodedata.normalize("NFKC", same_case(text))
    kept = (
        char if unicodedata.category(char)[0] in "LNM" else " " if keep_spaces and char not in "'’" else ""
        for char in plain
    )
    return " ".join("".join(kept).split())


def disagreement(text: str, recognized: str, normalize: Callable[[str], str]) -> float:
    """Share of a transcript's letters that were recognized otherwise: as written, or as read where that is nearer.

    A recognizer writes "1800" where the transcript says "eighteen hundred", or the other way round; that is no mistake.
    """
    if not letters(text):
        return 0.0
    rate = character_error_rate(text, recognized)
    read = normalize(text)
    if not rate or not recognized or not letters(read):
        return rate
    return min(rate, character_error_rate(read, normalize(recognized)))
