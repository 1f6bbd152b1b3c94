"""Compare recognized text with the transcript."""

import unicodedata

import jiwer

from utils.text.case import same_case


def character_error_rate(transcript: str, heard: str) -> float:
    """Share of the transcript's letters and digits that a recogniser heard otherwise; it may exceed 1.

    Case, punctuation, white space and the way accents are written do not count: recognisers differ in them from people.

    Args:
        transcript: with at least one letter or digit.
        heard: may be empty.

    Source: Levenshtein distance over the reference's length, by jiwer.
    """
    expected, got = letters(transcript), letters(heard)
    assert expected, transcript
    return float(jiwer.cer(expected, got)) if got else 1.0


def letters(text: str) -> str:
    """The letters, digits and combining marks of a text, in one case and one way of writing."""
    plain = unicodedata.normalize("NFKC", same_case(text))
    return "".join(char for char in plain if unicodedata.category(char)[0] in "LNM")
