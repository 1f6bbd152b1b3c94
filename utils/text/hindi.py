"""Spell out Hindi numbers: num2words has no Hindi, so stock coqui-tts fails on any digit."""

import re
import unicodedata

from utils.text.number_words import keep_apart, sign_and_amount

_BELOW_HUNDRED = unicodedata.normalize(
    "NFC",
    "शून्य एक दो तीन चार पाँच छह सात आठ नौ "
    "दस ग्यारह बारह तेरह चौदह पंद्रह सोलह सत्रह अठारह उन्नीस "
    "बीस इक्कीस बाईस तेईस चौबीस पच्चीस छब्बीस सत्ताईस अट्ठाईस उनतीस "
    "तीस इकतीस बत्तीस तैंतीस चौंतीस पैंतीस छत्तीस सैंतीस अड़तीस उनतालीस "
    "चालीस इकतालीस बयालीस तैंतालीस चवालीस पैंतालीस छियालीस सैंतालीस अड़तालीस उनचास "
    "पचास इक्यावन बावन तिरपन चौवन पचपन छप्पन सत्तावन अट्ठावन उनसठ "
    "साठ इकसठ बासठ तिरसठ चौंसठ पैंसठ छियासठ सड़सठ अड़सठ उनहत्तर "
    "सत्तर इकहत्तर बहत्तर तिहत्तर चौहत्तर पचहत्तर छिहत्तर सतहत्तर अठहत्तर उन्यासी "
    "अस्सी इक्यासी बयासी तिरासी चौरासी पचासी छियासी सत्तासी अट्ठासी नवासी "
    "नब्बे इक्यानवे बानवे तिरानवे चौरानवे पचानवे छियानवे सत्तानवे अट्ठानवे निन्यानवे",
).split()
_SCALES = ((10**9, "अरब"), (10**7, "करोड़"), (10**5, "लाख"), (10**3, "हज़ार"), (100, "सौ"))
_FIRST_ORDINALS = {"1": "पहला", "2": "दूसरा", "3": "तीसरा", "4": "चौथा", "6": "छठा"}
_CURRENCIES = {"$": "डॉलर", "₹": "रुपये", "€": "यूरो", "£": "पाउंड"}
MOST_DIGITS = 11
"""Longer numbers are read digit by digit: beyond 99 arab."""

# Begun at the first digit only: tried from every digit, a long row of them would take the square of its length.
_NUMBER = r"(?<!\d)\d+(?:,\d{2,3}(?!\d))*(?:\.\d+)?"
_MONEY = re.compile(rf"([$₹€£])\s*({_NUMBER})|({_NUMBER})\s*([$₹€£])")
_ORDINAL = re.compile(r"(?<!\d)(\d+)\s?(?:वाँ|वां|वीं|वें|(?i:st|nd|rd|th))")
_PLAIN = re.compile(_NUMBER)


def expand_numbers(text: str) -> str:
    """`text` with amounts of money, ordinals, decimals and whole numbers as words; all digits of Unicode are read."""
    text = _MONEY.sub(_money, text)
    text = _ORDINAL.sub(lambda match: keep_apart(ordinal(match[1]), match), text)
    return _PLAIN.sub(lambda match: keep_apart(number(match[0]), match), text)


def number(written: str) -> str:
    """A number as people write it, 1,23,456.78, in words."""
    whole, _, fraction = written.replace(",", "").partition(".")
    words = cardinal(int(whole)) if len(whole) <= MOST_DIGITS else _digits(whole)
    return f"{words} दशमलव {_digits(fraction)}" if fraction else words


def cardinal(value: int) -> str:
    """A whole number of at most `MOST_DIGITS` digits in words."""
    if value < 100:
        return _BELOW_HUNDRED[value]
    words = []
    for size, name in _SCALES:
        count, value = divmod(value, size)
        if count:
            words += [cardinal(count), unicodedata.normalize("NFC", name)]
    return " ".join([*words, _BELOW_HUNDRED[value]] if value else words)


def ordinal(written: str) -> str:
    """First, second, ... in the masculine."""
    return _FIRST_ORDINALS.get(written) or number(written) + "वाँ"


def _money(match: re.Match[str]) -> str:
    sign, amount = sign_and_amount(match)
    return keep_apart(f"{number(amount)} {_CURRENCIES[sign]}", match)


def _digits(written: str) -> str:
    return " ".join(_BELOW_HUNDRED[int(digit)] for digit in written)
