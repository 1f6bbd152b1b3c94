"""Signs, fractions, versions and decades for which stock's rules of the 17 languages have no words."""

import re

from num2words import num2words

_SIGNS = {
    "en": "number section",
    "es": "número sección",
    "fr": "numéro paragraphe",
    "de": "nummer paragraf",
    "it": "numero paragrafo",
    "pt": "número parágrafo",
    "pl": "numer paragraf",
    "tr": "numara madde",
    "ru": "номер параграф",
    "nl": "nummer paragraaf",
    "cs": "číslo paragraf",
    "ar": "رقم المادة",
    "zh": "号 条款",
    "hu": "szám paragrafus",
    "ko": "번호 조항",
    "ja": "ナンバー セクション",
    "hi": "नंबर धारा",
}
"""Of № and §."""
_FRACTIONS = {
    "en": "one_half one_third two_thirds one_quarter three_quarters",
    "es": "un_medio un_tercio dos_tercios un_cuarto tres_cuartos",
    "fr": "un_demi un_tiers deux_tiers un_quart trois_quarts",
    "de": "ein_halb ein_drittel zwei_drittel ein_viertel drei_viertel",
    "it": "un_mezzo un_terzo due_terzi un_quarto tre_quarti",
    "pt": "um_meio um_terço dois_terços um_quarto três_quartos",
    "pl": "jedna_druga jedna_trzecia dwie_trzecie jedna_czwarta trzy_czwarte",
    "tr": "yarım üçte_bir üçte_iki çeyrek dörtte_üç",
    "ru": "одна_вторая одна_третья две_третьих одна_четвёртая три_четвёртых",
    "nl": "een_half een_derde twee_derde een_kwart drie_kwart",
    "cs": "jedna_polovina jedna_třetina dvě_třetiny jedna_čtvrtina tři_čtvrtiny",
    "ar": "نصف ثلث ثلثان ربع ثلاثة_أرباع",
    "hu": "fél egyharmad kétharmad egynegyed háromnegyed",
    "ko": "이분의_일 삼분의_일 삼분의_이 사분의_일 사분의_삼",
    "ja": "二分の一 三分の一 三分の二 四分の一 四分の三",
    "hi": "आधा एक_तिहाई दो_तिहाई एक_चौथाई तीन_चौथाई",
}
"""Of 1/2, 1/3, 2/3, 1/4 and 3/4; stock's Chinese rules read all."""
_SLASHED = ("1/2", "1/3", "2/3", "1/4", "3/4")
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
    for sign, word in zip(("№", "§"), _SIGNS[code].split(), strict=True):
        text = re.sub(f"{sign}+ ?", f"{word} ", text)
    if code in _FRACTIONS:
        words = dict(zip(_SLASHED, _FRACTIONS[code].replace("_", "\u00a0").split(" "), strict=True))
        text = _FRACTION.sub(lambda match: words.get(match[1], match[1]).replace("\u00a0", " "), text)
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
