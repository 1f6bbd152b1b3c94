"""Convert Japanese numbers to kanji: coqui-tts keeps digits, XTTS v2 has no token for 0, and cutlet reads kanji."""

import re

_NUMBER = re.compile(r"(?<![0-9])[0-9]+(?:,[0-9]{3}(?![0-9]))*(?:\.[0-9]+)?")
_DIGITS = "〇一二三四五六七八九"
_CURRENCY = re.compile(rf"([¥￥$€£])\s*({_NUMBER.pattern})")
_CURRENCIES = {"¥": "円", "￥": "円", "$": "ドル", "€": "ユーロ", "£": "ポンド"}
_SYMBOLS = _CURRENCIES | {"%": "パーセント", "％": "パーセント", "&": "アンド", "＆": "アンド"}
MOST_DIGITS = 16
"""Longer numbers are read digit by digit."""


def expand_numbers(text: str) -> str:
    """`text` with its numbers in kanji, percent and money in kana.

    >>> expand_numbers("2024年、50%")
    '二千二十四年、五十パーセント'
    """
    text = _CURRENCY.sub(lambda match: match[2] + _CURRENCIES[match[1]], text)
    text = _NUMBER.sub(lambda match: number(match[0]), text)
    for symbol, words in _SYMBOLS.items():
        text = text.replace(symbol, words)
    return text


def number(written: str) -> str:
    """A number as people write it, 1,234.5, in kanji."""
    from num2words import num2words

    whole, _, fraction = written.replace(",", "").partition(".")
    # A leading zero belongs to a telephone, not to an amount.
    plain = len(whole) <= MOST_DIGITS and (whole == "0" or not whole.startswith("0"))
    words = "ゼロ" if whole == "0" else str(num2words(int(whole), lang="ja")) if plain else _digits(whole)
    return f"{words}点{_digits(fraction)}" if fraction else words


def _digits(written: str) -> str:
    return "".join("ゼロ" if digit == "0" else _DIGITS[int(digit)] for digit in written)
