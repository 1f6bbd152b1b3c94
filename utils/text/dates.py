"""Dates and times in the words of the 17 languages; elsewhere their numbers apart: 17.5.2024 is no decimal."""

import re

from num2words import num2words

from utils.text.amounts import counted, form
from utils.text.number_words import words_table

_CZECH_DAYS = (
    "_ prvního druhého třetího čtvrtého pátého šestého sedmého osmého devátého desátého jedenáctého dvanáctého "
    "třináctého čtrnáctého patnáctého šestnáctého sedmnáctého osmnáctého devatenáctého"
)
"""In the genitive, which num2words lacks."""
_CZECH_DAY = re.compile(
    r"\b([12]?[1-9]|[123]0|31)\. ?(?=(?:led|únor|břez|dub|květ|červ|srp|září|říj|listop|prosin)\w*)", re.IGNORECASE
)
_GERMAN_DAY = re.compile(r"\b(am|vom|zum|dem|beim|im|den) (\d{1,3})\.(?=\s|$)", re.IGNORECASE)
# Letters may touch them: Chinese and Japanese have no spaces.
_DATE = re.compile(
    r"(?<![\d.,/-])(?:(\d{4})([-/.])(\d{1,2})\2(\d{1,2})|(\d{1,2})([./-])(\d{1,2})\6(\d{4}|\d{2}))(?![\d/-]|[.,]\d)"
)
_SPACED_DATE = re.compile(r"(?<![\d.])(\d{1,2})\. (\d{1,2})\. (\d{4})(?!\d)")
_TIME = re.compile(r"(?<![\d.,:])(\d{1,2}):([0-5]\d)(:[0-5]\d)?(?![\d:])( ?[ap]\.?m\b)?", re.IGNORECASE)


def write_dates(text: str, code: str) -> tuple[str, list[str]]:
    """`text` with dates and times as that language writes them out, behind numbers as digits.

    Day and month stand in the language's order: an English 5/17/2024 and 5/7/2024 begin with the month. Years of two
    digits stay so.

    Args:
        text: digits in ASCII.
        code: a plain code; those beyond the 17 have no words here.

    Returns:
        The text, and a note of each date or time that is read number by number.
    """
    notes: list[str] = []
    words = words_table().get(code, {})

    def apart(match: re.Match[str]) -> str:
        notes.append(f"no words for a date or time in {code}: {match[0]} is read number by number")
        return re.sub(r"[-./:]", " ", match[0])

    def date(match: re.Match[str]) -> str:
        year, month, day = (match[1], match[3], match[4]) if match[1] else (match[8], match[7], match[5])
        if not match[1] and ((code == "en" and match[6] == "/" and int(day) <= 12) or int(month) > 12):
            month, day = day, month
        if "months" not in words or not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
            return apart(match)
        ending = {1: "st", 2: "nd", 3: "rd"}.get(int(day) % 10 if int(day) not in (11, 12, 13) else 0, "th")
        name = words["months"].split()[int(month) - 1]
        return str(words.get("date", "{d} {m} {y}")).format(
            d=_ordinal(int(day), code), m=name, y=_ordinal(int(year), code), th=ending
        )

    def time(match: re.Match[str]) -> str:
        hour, minute = int(match[1]), int(match[2])
        if "months" not in words or hour > 24 or (match[3] and "seconds" not in words):
            return apart(match)
        half = match[4] or ""
        if code == "en" and (half or not 1 <= hour <= 12) and not minute:
            # "three pm", but neither "three o'clock pm" nor "fourteen o'clock".
            return f"{hour}{half}" if half else f"{hour} hundred"
        hours, minutes = words.get("hours", "-"), words.get("minutes", "-")
        spoken = {"en": f"oh {minute}", "zh": f"0{minute}"}.get(code) if minute < 10 else None
        one = words.get("one o'clock") if hour == 1 else None
        values = {
            "h": one or counted(code, str(hour), hours),
            "m": spoken or counted(code, str(minute), minutes),
            "hours": form(code, str(hour), hours),
            "minutes": form(code, str(minute), minutes),
        }
        with_minutes, on_the_hour = words["time"].split("|")
        if match[3]:
            return str(with_minutes.format(**values) + words["seconds"].format(s=int(match[3][1:])))
        return str((with_minutes if minute else on_the_hour).format(**values) + half)

    text = _TIME.sub(time, _DATE.sub(date, _SPACED_DATE.sub(r"\1.\2.\3", text)))
    if code == "cs":
        text = _CZECH_DAY.sub(lambda match: f"{_ordinal(int(match[1]), code)} ", text)
    if code == "de":
        text = _GERMAN_DAY.sub(_weak_ordinal, text)
    return text, list(dict.fromkeys(notes))


def _weak_ordinal(match: re.Match[str]) -> str:
    """A German day behind such a word; at the end of a text its point is a full stop, too."""
    end = "" if match.end() < len(match.string) else "."
    return f"{match[1]} {num2words(int(match[2]), lang='de', to='ordinal')}n{end}"


def _ordinal(number: int, code: str) -> str:
    """A day or a year: in words where the language has it in the genitive, which stock's rules cannot know."""
    if code == "ru":
        return str(num2words(number, lang=code, to="ordinal", case="g", gender="n"))
    if code == "pl" and number <= 31:
        words = str(num2words(number, lang=code, to="ordinal"))
        return re.sub(r"(?<=i)\b", "ego", re.sub(r"y\b", "ego", words))
    if code == "cs" and number <= 31:
        tens = {2: "dvacátého ", 3: "třicátého "}.get(number // 10, "")
        return (tens + _CZECH_DAYS.split()[number % 10 if tens else number]).replace("_", "").strip()
    if code == "hu" and number <= 31:
        words = str(num2words(number, lang=code, to="ordinal"))
        return "elseje" if number == 1 else words + ("e" if words.endswith(("edik", "ödik")) else "a")
    return str(words_table().get(code, {}).get("first", 1) if number == 1 else number)
