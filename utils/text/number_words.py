"""Spell out numbers, money and percentages in the languages of num2words, with corrections.

The table of words has those that num2words lacks and that do not inflect with the number; nothing is guessed.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

_DIGIT = re.compile(r"\d")
_ARABIC_MARKS = str.maketrans("٫٬", ".,")
"""Decimal and thousands separators of Arabic scripts; only ASCII marks stand between two meanings."""


def _pattern(group: str) -> str:
    """Grouped in threes, with or without a fraction; else a decimal; else whole. 1.234 is taken for a thousand."""
    thousands = rf"[1-9]\d{{0,2}}(?P<{group}>[.,٬\u00a0\u202f])\d{{3}}(?:(?P={group})\d{{3}})*"
    return rf"{thousands}(?:[.,٫]\d+)?(?!\d)|\d+[.,٫]\d+|\d+"


_NUMBER = re.compile(_pattern("group"))
# Atomic, and begun at the first digit only: a long row of digits would otherwise take the square of its length.
_MONEY = re.compile(rf"(?P<before>[$€£])\s?(?>{_pattern('group')})|(?<!\d)(?>{_pattern('other')})\s?(?P<after>[$€£])")
_PERCENT = re.compile(r"(?<=\d)\s?%")
_NEGATIVE = re.compile(r"(?<![\w.,)-])[-−](?=\d)")

_NAMES = {"kk": "kz", "nb": "no"}
"""num2words' names of codes that it writes in its own way."""
_CURRENCIES = {"$": "USD", "€": "EUR", "£": "GBP"}
_MONEY_LANGUAGES = ("be", "ca", "ce", "cy", "eo", "fi", "he", "lt", "lv", "tg", "uk")
"""Those whose money num2words writes whole; others fail there, or mix English in."""
_END = "\u241f"
"""Set between whole money and its hundredths, to separate them."""
Report = Callable[[str], None]


@cache
def words_table() -> dict[str, dict[str, Any]]:
    """Words for which stock's rules, or num2words, have none or the wrong ones, of words.json, by plain code.

    Forms of a word stand for one, for few and for many of a thing, as far as a language has them: `час|часа|часов`.

    - `months`, `date` (where it is not day, month, year), `first` (day of a month).
    - `time`: with minutes, and on the hour, of the clock that was written, of 12 or of 24; `seconds` behind it;
      `hours`, `minutes`: the words that it counts; `one o'clock`: the number of that hour.
    - `money`: by sign; `hundredths`: by sign, and of all others. Signs that stock reads are absent.
    - `units`: by sign; `/h` per hour, `°` degrees of `C` and `F`.
    - `percent`, `minus`, `point` (before decimals).
    - `gender`: how a feminine word ends, its numbers that agree with it, and those of other words where stock's differ.
    - `signs`: № and §; `fractions`: those in words.
    """
    return dict(json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8")))


def spell_numbers(text: str, code: str, report: Report) -> str:
    """`text` with its numbers in words; digits of any script without words become ASCII digits, which bases read.

    Args:
        text: normalized, in a language without rules of its own.
        code: its plain code.
        report: called with a note for each number or sign that has no words.
    """
    text = _DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text)
    if code in _MONEY_LANGUAGES:
        text = _MONEY.sub(lambda match: keep_apart(_money(match, code), match), text)
    words = words_table().get(code, {})
    if "percent" in words:
        text = _PERCENT.sub(f" {words['percent']}", text)
    if "minus" in words:
        text = _NEGATIVE.sub(f"{words['minus']} ", text)

    def spell(match: re.Match[str]) -> str:
        spoken = _number(match[0], match["group"], code)
        if spoken is None:
            report(f"no number words for {code}: {match[0]} stays digits")
        return keep_apart(spoken, match)

    return _NUMBER.sub(spell, text).translate(_ARABIC_MARKS)


@lru_cache(maxsize=1)
def number_languages() -> frozenset[str]:
    """Codes that num2words knows, without Amharic, which is broken there."""
    from num2words import CONVERTER_CLASSES

    return frozenset(_NAMES) | {name for name in CONVERTER_CLASSES if "_" not in name and name != "am"}


def _money(match: re.Match[str], code: str) -> str | None:
    """Words of an amount, or None where the rule breaks."""
    sign = match["before"] or match["after"]
    written = match[0].replace(sign, "").strip()
    amount = _plain(written, match["group"] or match["other"])
    whole, _, fraction = amount.partition(".")
    # The hundredths are always spoken there, be they none.
    separator = {} if fraction.strip("0") else {"separator": _END}
    words = _words(f"{whole}.{fraction or 0}", code, to="currency", currency=_CURRENCIES[sign], **separator)
    return words.split(_END)[0].strip() if words else None


def _number(written: str, group: str | None, code: str) -> str | None:
    """Words of a number, or None where there is no rule or the rule breaks."""
    plain = _plain(written, group)
    whole, point, fraction = plain.partition(".")
    spoken = words_table().get(code, {}).get("point")
    if not point or spoken is None:
        return _words(plain, code)
    parts = [_words(part, code) for part in (whole, *fraction)]
    return " ".join([str(parts[0]), spoken, *map(str, parts[1:])]) if all(parts) else None


def _plain(written: str, group: str | None) -> str:
    """A number as Python writes it."""
    return re.sub("[,٫]", ".", written.replace(group, "") if group else written)


def _words(plain: str, code: str, **options: str) -> str | None:
    from num2words import num2words

    if code not in number_languages():
        return None
    try:
        value = float(plain) if "." in plain else int(plain)
        words = str(num2words(value, lang=_NAMES.get(code, code), **options)).lower()
    except Exception:  # noqa: BLE001 - every language is other people's code; a broken rule is a missing one
        return None
    return None if any(map(str.isdecimal, words)) else words


def sign_and_amount(match: re.Match[str]) -> tuple[str, str]:
    """The groups of money whose sign stands before the amount, or else behind it."""
    return (match[1], match[2]) if match[1] else (match[4], match[3])


def keep_apart(words: str | None, match: re.Match[str]) -> str:
    """Words apart from letters that touch the number; the number itself where there are no words."""
    if words is None:
        return match[0]
    after = match.string[match.end() : match.end() + 1]
    before = match.string[max(match.start() - 1, 0) : match.start()]
    return (" " if before.isalpha() else "") + words + (" " if after.isalpha() else "")
