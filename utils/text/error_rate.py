"""Error rates of recognized text."""

import unicodedata
from collections.abc import Callable

import jiwer

from utils.text.languages import same_case


def character_error_rate(reference: str, recognized: str) -> float:
    """Insertions, deletions and substitutions over the characters of the reference; it may exceed 1.

    Case, punctuation and the way accents are written do not count: recognizers differ in them from people.

    Args:
        reference: what should have been said.
        recognized: may be empty.

    Source: Levenshtein distance over the reference's length, by jiwer.
    """
    expected, got = letters(reference), letters(recognized)
    return float(jiwer.cer(expected, got)) if expected else float(bool(got))


def letters(text: str) -> str:
    """The letters, digits and combining marks of a text, in one case and one way of writing."""
    plain = unicodedata.normalize("NFKC", same_case(text))
    return "".join(char for char in plain if unicodedata.category(char)[0] in "LNM")


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
