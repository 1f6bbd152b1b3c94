"""Words for amounts of money, percentages, decimals and units where stock's rules have none or the wrong ones.

Numbers stay digits, which stock's rules read. Forms of a word stand for one, for few and for many of a thing, as far as
a language has them.
"""

import re
from functools import lru_cache

from utils.text.number_words import sign_and_amount, words_table

POINT_LANGUAGES = ("en", "hi", "ja", "ru", "zh")
"""Those whose rules of stock read a point before decimals; the others read a comma, and take 12.500 for thousands."""
_POINT = {"zh", "ko", "ja", "hi"}
"""Those that read the hundredths behind a point, and write a comma between thousands."""
_NUMBER = r"(?<![\d.,])\d+(?:[.,]\d+)*"
_UNIT = re.compile(
    rf"({_NUMBER})[ \u00a0\u202f]?(km/h|km|[cm]m|kg|kWh|min|m?[gl]|m?L|m|[GM]B|Hz|h|°[ ]?[CF]|℃)(?![\w/²³])"
)
_SPEEDS = {"ja": r"時速\1km", "tr": r"saatte \1 km"}
_MANY = re.compile(rf"([$€£])({_NUMBER})\s?(thousand|million|billion|trillion)\b", re.IGNORECASE)
_WHOLE = {"$": "dollars", "€": "euro", "£": "pounds"}
_PARTS = re.compile(r"(.*?)(?:[.,](\d{1,2}))?")
_CHINESE = re.compile(r"(?<![\d.,])(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d{4,}\.\d+)(?![\d,])")
"""Numbers that stock reads digit by digit, as those of a year."""
_CARDINAL = re.compile(r"(?<=\d{4})\.(?=\s|$)|(?<=\d)\.(?=\s*$)")
"""A full stop behind a year, or at the end of a text, makes no ordinal."""


def write_amounts(text: str, code: str) -> str:
    """`text` with currency signs, percent signs and units as words, behind numbers as digits.

    Args:
        text: digits in ASCII.
        code: one of the 17 languages.
    """
    words, (money, names) = words_table()[code], _money_rule(code)

    def amount(match: re.Match[str]) -> str:
        sign, number = sign_and_amount(match)
        whole, cents = _parts(number)
        if code in _POINT:
            space = " " if code in ("ko", "hi") else ""
            return f"{whole}.{cents}{space}{names[sign]}" if cents else f"{whole}{space}{names[sign]}"
        hundredths = words.get("hundredths", {})
        below = hundredths.get(sign) or hundredths.get("else", "")
        joined = " e " if code == "pt" else " "
        rest = joined + f"{counted(code, str(int(cents)), below)} {form(code, cents, below)}" if int(cents or 0) else ""
        return f"{counted(code, whole, names[sign])} {form(code, whole, names[sign])}{rest.rstrip()}"

    text = re.sub(_NUMBER, lambda match: _separated(match[0], code), text)
    if code in _SPEEDS:
        text = re.sub(rf"({_NUMBER})\s?km/h(?!\w)", _SPEEDS[code], text)
    if code == "en":
        text = _MANY.sub(lambda match: f"{match[2]} {match[3]} {_WHOLE[match[1]]}", text)
    text = money.sub(amount, text)
    text = _UNIT.sub(lambda match: _unit(match[2], match[1], code), text)
    if code == "en":
        text = re.sub(r"(?<=\d)(?=[ap]m\b)", " ", text)
    if code == "tr":
        text = re.sub(rf"%\s?({_NUMBER})|({_NUMBER})\s?%", lambda match: f"yüzde {match[1] or match[2]}", text)
    if code in ("zh", "ja", "ko"):
        text = re.sub(r"(?<=\d)\s+%", "%", text)
    if "percent" in words:
        text = re.sub(rf"({_NUMBER})\s?%", lambda match: f"{match[1]} {form(code, match[1], words['percent'])}", text)
    if "point" in words:
        text = re.sub(_NUMBER, lambda match: _decimal(match[0], words["point"]), text)
    if code == "zh":
        text = _CHINESE.sub(lambda match: _chinese(match[0]), text)
    return _CARDINAL.sub(" .", text) if code in ("de", "cs", "hu", "tr") else text


@lru_cache
def _money_rule(code: str) -> tuple[re.Pattern[str], dict[str, str]]:
    """Where the language's rules need help with money, and the words of each sign."""
    names = words_table()[code]["money"]
    signs = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    spaced = r"[ \u00a0\u202f]?"
    return re.compile(rf"(?<!\w)({signs}){spaced}({_NUMBER})|({_NUMBER}){spaced}({signs})(?!\w)"), names


def _parts(number: str) -> tuple[str, str]:
    """The whole of an amount without separators, and its hundredths."""
    match = _PARTS.fullmatch(number)
    assert match is not None
    return re.sub("[.,]", "", match[1]), (match[2] or "").ljust(2, "0") if match[2] else ""


def _separated(number: str, code: str) -> str:
    """A number with the decimal sign that the language's rules read, where both signs or the other one are written."""
    whole, sign, fraction = _last_sign(number)
    wanted = "." if code in POINT_LANGUAGES else ","
    is_fraction = sign and number.count(sign) == 1 and (len(fraction) != 3 or whole == "0")
    if is_fraction and (whole == "0" or set(".,") & set(whole)):
        return re.sub("[.,]", "", whole) + wanted + fraction
    if len(set(number) & set(".,")) == 1 and number.count(sign) > 1:
        if re.fullmatch(r"\d{1,3}(?:[.,]\d{3})+", number):
            return number if code == "zh" and sign == "," else re.sub("[.,]", "", number)
        # The numbers of an address or of a list; stock's rules take the square of its length.
        return number if code == "hi" and sign == "," else re.sub("[.,]", " ", number)
    if sign == "," and code in _POINT:
        return (
            f"{whole}{wanted}{fraction}"
            if len(fraction) < 3
            else number
            if code == "zh" or len(fraction) > 3
            else whole + fraction
        )
    return number


def _last_sign(number: str) -> tuple[str, str, str]:
    """What stands before the last point or comma of a number, that sign, and what follows."""
    return max(number.rpartition(","), number.rpartition("."), key=lambda parts: len(parts[0]))


def _chinese(number: str) -> str:
    from TTS.tts.layers.xtts.zh_num2words import num2chn

    return str(num2chn(number.replace(",", "")))


def _decimal(number: str, word: str) -> str:
    whole, sign, fraction = _last_sign(number)
    if not whole or (sign == "." and len(fraction) == 3 and "," not in whole) or number.count(sign) > 1:
        return number
    zeros = len(fraction) - len(fraction.lstrip("0"))
    return " ".join([re.sub("[.,]", "", whole), word, *"0" * zeros, fraction[zeros:]]).rstrip()


def _unit(sign: str, number: str, code: str) -> str:
    words = words_table()[code]["units"]
    if sign[0] in "°℃":
        is_celsius = "F" not in sign
        forms, scale = words["°"], words["C" if is_celsius else "F"]
        spoken = [form(code, number, forms), scale]
        # "5 度" is Celsius without a word; Chinese names the scale first.
        spoken = spoken[::-1] if code == "zh" else spoken[: 1 if code in ("ja", "ko") and is_celsius else 2]
    else:
        forms = words[sign.removesuffix("/h").replace("L", "l")]
        spoken = [form(code, number, forms), *([words["/h"]] if sign == "km/h" else [])]
    return ("" if code in ("zh", "ja") else " ").join([counted(code, number, forms), *spoken])


def counted(code: str, number: str, words: str) -> str:
    """A number in the gender of the word that it counts, as digits where stock's rules have the right one."""
    gender = words_table()[code].get("gender", {"ending": "-", "feminine": {}, "other": {}})
    tens, last = (number[:-1], number[-1:]) if code in ("ru", "cs", "pl") else ("", number)
    ones = gender["feminine"]
    if not re.search(f"{gender['ending']}$", words.split("|")[0]):
        ones, last = gender["other"], number
    if not number.isdecimal() or last not in ones or tens[-1:] == "1" or (code == "pl" and tens and last == "1"):
        return number
    return f"{int(tens)}0 {ones[last]}" if tens.strip("0") else ones[last]


def form(code: str, number: str, words: str) -> str:
    """The form of a word behind a number: `words` has those for one, for few and for many, as far as there are."""
    forms = words.split("|")
    if not number.isdecimal():
        return forms[1 if code == "ru" else -1]
    value = int(number[-9:])
    few = 2 <= value % 10 <= 4 and not 12 <= value % 100 <= 14
    if len(forms) < 3:
        return forms[0] if value == 1 or (code == "fr" and value == 0) else forms[-1]
    if code == "ar":
        return forms[1] if 3 <= value % 100 <= 10 else forms[2] if value % 100 > 10 else forms[0]
    if code == "cs":
        return forms[0 if value == 1 else 1 if 2 <= value <= 4 else 2]
    is_one = value % 10 == 1 and value % 100 != 11 if code == "ru" else value == 1
    return forms[0 if is_one else 1 if few else 2]
