"""Spell out Amharic numbers: cardinals, ordinals, decimals, years, money, percent, times, Ge'ez numerals.

num2words' Amharic fails on most numbers and writes millions with a Latin letter, so these tables are our own.
"""

import re

_ONES = ["ዜሮ", "አንድ", "ሁለት", "ሶስት", "አራት", "አምስት", "ስድስት", "ሰባት", "ስምንት", "ዘጠኝ"]
_TENS = ["-", "አስር", "ሀያ", "ሰላሳ", "አርባ", "ሀምሳ", "ስልሳ", "ሰባ", "ሰማንያ", "ዘጠና"]
_SCALES = ((10**12, "ትሪሊዮን"), (10**9, "ቢሊዮን"), (10**6, "ሚሊዮን"), (10**3, "ሺህ"), (100, "መቶ"))
MOST_DIGITS = 15
"""Longer numbers are read digit by digit."""
_FINAL_ORDINALS = {"ሁለት": "ሁለተኛ", "ሶስት": "ሶስተኛ", "አንድ": "አንደኛ", "አራት": "አራተኛ", "አምስት": "አምስተኛ", "ስድስት": "ስድስተኛ"} | {
    "ሰባት": "ሰባተኛ",
    "ስምንት": "ስምንተኛ",
    "ዘጠኝ": "ዘጠነኛ",
    "አስር": "አስረኛ",
}
"""Ordinals change the last word; all others take ኛ as they are."""
_CURRENCIES = {"$": "ዶላር", "€": "ዩሮ", "£": "ፓውንድ", "¥": "የን"}

_GEEZ_DIGITS = {chr(0x1369 + number): number + 1 for number in range(9)} | {
    chr(0x1372 + number): 10 * (number + 1) for number in range(9)
}
_GEEZ_HUNDRED, _GEEZ_MYRIAD = "፻", "፼"
_GEEZ = re.compile("[፩-፼]+")

# Begun at the first digit only: tried from every digit, a long row of them would take the square of its length.
_NUMBER = r"(?<![0-9])[0-9]+(?:,[0-9]{3}(?![0-9]))*(?:\.[0-9]+)?"
_MONEY = re.compile(rf"([$€£¥])\s*({_NUMBER})|({_NUMBER})\s*([$€£¥])")
_PERCENT = re.compile(rf"({_NUMBER})\s*[%ፐ]|%\s*({_NUMBER})")
_ORDINAL = re.compile(r"(?<![0-9])([0-9]+)\s?ኛ")
_TIME = re.compile(r"(?<![0-9:])([0-9]{1,2}):([0-5][0-9])(?![0-9:])(?:\s*ሰአት)?")
YEAR = re.compile(r"(?<![0-9.,])(1[1-9][0-9]{2})(?=\s*ዓ[./]\s?ም)")
"""A year before its abbreviation, years of the world."""
_NEGATIVE = re.compile(r"(?<![\w-])[-−](?=[0-9])")
_PLAIN = re.compile(_NUMBER)


def expand_numbers(text: str) -> str:
    """`text` with every number as words; digits of all scripts and Ge'ez numerals are read."""
    text = _GEEZ.sub(lambda match: _apart(str(geez_value(match[0])), match), text)
    text = "".join(str(int(char)) if char.isdecimal() else char for char in text)
    text = _MONEY.sub(_money, text)
    text = _PERCENT.sub(lambda match: _apart(f"{number(match[1] or match[2])} በመቶ", match), text)
    text = _TIME.sub(_time, text)
    # What follows an ordinal is its ending: 10ኛው, the tenth.
    text = _ORDINAL.sub(lambda match: ordinal(match[1]), text)
    text = _NEGATIVE.sub("ነጌቲቭ ", text)
    return _PLAIN.sub(lambda match: _apart(number(match[0]), match), text)


def number(written: str) -> str:
    """A number as people write it, 1,234.5, in words."""
    whole, _, fraction = written.replace(",", "").partition(".")
    # A leading zero belongs to a telephone or a house, not to an amount.
    plain = len(whole) <= MOST_DIGITS and (whole == "0" or not whole.startswith("0"))
    words = cardinal(int(whole)) if plain else _digits(whole)
    return f"{words} ነጥብ {_digits(fraction)}" if fraction else words


def cardinal(value: int) -> str:
    """A whole number of at most `MOST_DIGITS` digits in words.

    >>> cardinal(1234)
    'አንድ ሺህ ሁለት መቶ ሰላሳ አራት'
    """
    if value < 10:
        return _ONES[value]
    words = []
    for size, name in _SCALES:
        count, value = divmod(value, size)
        if count:
            words += [cardinal(count), name]
    return " ".join([*words, *_below_hundred(value)])


def ordinal(written: str) -> str:
    """First, second, ...: አንደኛ, ሁለተኛ, ..."""
    words = number(written).split()
    return " ".join([*words[:-1], _FINAL_ORDINALS.get(words[-1], words[-1] + "ኛ")])


def year(value: int) -> str:
    """A year from 1100 to 1999, as people say it: nineteen hundred and ..."""
    hundreds, rest = divmod(value, 100)
    return " ".join([*_below_hundred(hundreds), "መቶ", *_below_hundred(rest)])


def geez_value(numeral: str) -> int:
    """The value of a Ge'ez numeral: ፳፻፲፭ is 2015, ፼ is 10 000.

    Source: The Unicode Standard, chapter 19.2, Ethiopic numbers: pairs of ten and one, then ፻ and ፼ in turn.
    """
    total = hundreds = below = 0
    for sign in numeral:
        if sign == _GEEZ_MYRIAD:
            total, hundreds, below = (total + hundreds + below or 1) * 10_000, 0, 0
        elif sign == _GEEZ_HUNDRED:
            hundreds, below = hundreds + (below or 1) * 100, 0
        else:
            below += _GEEZ_DIGITS[sign]
    return total + hundreds + below


def _below_hundred(value: int) -> list[str]:
    """Words of 0 to 99; none for 0."""
    tens, ones = divmod(value, 10)
    # Before a one, ten is አስራ: አስራ አንድ, eleven.
    words = [] if not tens else ["አስራ" if tens == 1 and ones else _TENS[tens]]
    return [*words, _ONES[ones]] if ones else words


def _money(match: re.Match[str]) -> str:
    sign, amount = (match[1], match[2]) if match[1] else (match[4], match[3])
    return _apart(f"{number(amount)} {_CURRENCIES[sign]}", match)


def _time(match: re.Match[str]) -> str:
    hour, minute = int(match[1]), int(match[2])
    words = f"{cardinal(hour)} ሰአት"
    return _apart(f"{words} ከ{cardinal(minute)} ደቂቃ" if minute else words, match)


def _digits(written: str) -> str:
    return " ".join(_ONES[int(digit)] for digit in written)


def _apart(words: str, match: re.Match[str]) -> str:
    """Keep numbers of their own apart from what touches them: a prefix such as በ or ከ is written with the word."""
    before = match.string[max(match.start() - 1, 0) : match.start()]
    after = match.string[match.end() : match.end() + 1]
    lead = " " if before.isdecimal() or (before.isalpha() and before.isascii()) else ""
    return lead + words + (" " if after.isalnum() else "")
