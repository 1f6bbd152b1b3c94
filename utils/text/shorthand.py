"""Signs, fractions, versions and decades for which stock's rules of the 17 languages have no words."""

import re

from num2words import num2words

from utils.text.number_words import words_table

_FRACTION = re.compile(r"(?<![\w/.,])([123]/[234])(?![\d/]|[.,]\d)")
_TENS = "tens twenties thirties forties fifties sixties seventies eighties nineties"
_VERSION = re.compile(r"\bv\.? ?(\d+(?:\.\d+)+)", re.IGNORECASE)
_SPACED = ("es", "fr", "de", "it", "pt", "pl", "ru", "cs", "hu")
"""Languages that write a space between thousands."""
_THOUSANDS = re.compile(r"(?<![\d.,:/-])(?<!\d )(?:[1-9]\d{0,2} \d{3}|[1-9]\d?(?: \d{3}){2,3})(?![.:/-]?\d| \d)")
_RUSSIAN_THOUSANDS = re.compile(r"(?<=\d)\.(?=\d{3} ?[€$£₽])")
"""Elsewhere in Russian a point is taken for the decimal sign."""
_DECADE = re.compile(r"(?<!\w)(?:'?(1[1-9]|20)?([2-9]0)|(1[1-9]|20)([01]0))s\b")
_HOURS = re.compile(r"(?<![\d.,:])(2[0-3]|[01]?\d) ?h ?([0-5]\d)(?!\w| min)")


def write_shorthand(text: str, code: str) -> str:
    """`text` with such shorthand in words, or as numbers and times that other rules read.

    Args:
        text: digits in ASCII.
        code: one of the 17 languages.
    """
    words = words_table()[code]
    for sign, word in words["signs"].items():
        text = re.sub(f"{sign}+ ?", f"{word} ", text)
    # Stock's Chinese rules read all fractions.
    text = _FRACTION.sub(lambda match: words.get("fractions", {}).get(match[1], match[1]), text)
    point = " point " if code == "en" else " "
    text = _VERSION.sub(lambda match: "v " + match[1].replace(".", point), text)
    if code in _SPACED:
        text = _THOUSANDS.sub(lambda match: match[0].replace(" ", ""), text)
    if code == "ru":
        text = _RUSSIAN_THOUSANDS.sub("", text)
    if code == "en":
        text = _DECADE.sub(_decade, text)
    return _HOURS.sub(r"\1:\2", text) if code in ("fr", "pt") else text


def _decade(match: re.Match[str]) -> str:
    century, tens = match[1] or match[3], int(match[2] or match[4]) // 10
    if not tens:
        return "two thousands" if century == "20" else f"{num2words(int(century))} hundreds"
    return f"{num2words(int(century))} {_TENS.split()[tens - 1]}" if century else _TENS.split()[tens - 1]
