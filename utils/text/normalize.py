"""Normalize text of any language for the tokenizer: numbers and symbols as words, one spelling, lower case.

The 17 languages of the base keep the cleaners of stock coqui-tts, because the base learned from their output; numbers
of Hindi and Japanese, Amharic and all other languages have rules of this project.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Any

from utils.errors import UserError
from utils.text.amharic.normalize import normalize_amharic
from utils.text.amounts import POINT_LANGUAGES, write_amounts
from utils.text.dates import write_dates
from utils.text.hindi import expand_numbers as expand_hindi_numbers
from utils.text.japanese import expand_numbers as expand_japanese_numbers
from utils.text.languages import AMHARIC, CLEANED_LANGUAGES, install_line, plain_code, require_packages, to_lower
from utils.text.number_words import spell_numbers
from utils.text.punctuation import plain_punctuation
from utils.text.readable import Readable
from utils.text.shorthand import write_shorthand

_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufe0e\ufe0f\ufeff]")
"""Soft hyphens, zero-width spaces, marks of direction and emoji: never spoken. Joiners (U+200C, U+200D) shape letters
of Persian and Indic scripts and stay."""
_OWN_NUMBERS = {"hi": expand_hindi_numbers, "ja": expand_japanese_numbers}
"""Where stock has none: it fails on Hindi digits, and leaves Japanese ones."""
_ARABIC_GROUP = re.compile(r"(?<=\d)٬(?=\d{3}(?!\d))")
_ASCII_SIGNS = str.maketrans("٬٪％﹪＆＠＃＄￡", ",%%%&@#$£")
"""Signs that stock's rules know in ASCII only: without a word, a clip would be dropped for them."""
_DIGITS = re.compile(r"[^\D0-9]")
"""Digits of other scripts, which stock's rules leave: ٥٠ is 50."""
_SPACE = re.compile(r"\s+")
_MONEY_SPACE = re.compile(r"(?<=\d)[ \u00a0\u202f]+(?=[€$£])|(?<=[€$£])[ \u00a0\u202f]+(?=\d)")
"""Stock reads an amount only where its sign touches it."""
_THOUSANDS_SPACE = re.compile(r"(?<=\d)[\u00a0\u202f](?=\d{3}(?!\d))")
_ORDINAL_POINT = re.compile(r"(\d)\.(?=\s|$)")
_NUMERIC_SIGN = re.compile(r"(?<=\d)(?:st|nd|rd|th|º|ª|°)")
_WHOLE = 400
_LONG = re.compile(r"(?s:.{200,999}?[。！？；，、\s]|.{1,1000})")
"""Stock's Chinese rules take the square of a text's length: parts of a longer one, at a mark or space."""
_UNSPOKEN = ("So", "Sk", "Cs", "Co", "Cc", "Cf")
"""Unicode categories without a sound: pictures, modifiers, private and control characters."""
_JOINERS = "\u200c\u200d"
_WORDLESS_SYMBOLS = "%$€£¥₹&@#+=°"


def normalize(text: str, language: str) -> Readable:
    """`text` in words and one spelling; nothing here depends on a base or its vocabulary.

    Args:
        text: any text.
        language: a code: en, zh-cn, amh, ...

    Raises:
        UserError: the language's rules need a package that is not installed, or stock's rules fail on this text.
    """
    code = plain_code(language)
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFC", text)).strip()
    if code in CLEANED_LANGUAGES:
        # Digits of other scripts, their separators and signs as stock's rules of a language know them.
        ascii_digits = _DIGITS.sub(lambda digit: str(unicodedata.decimal(digit[0])), visible)
        decimal_sign = "." if code in POINT_LANGUAGES else ","
        known = _ARABIC_GROUP.sub("", ascii_digits).replace("٫", decimal_sign).translate(_ASCII_SIGNS)
        known = write_shorthand(_THOUSANDS_SPACE.sub("," if code == "zh" else "", known), code)
        apart, notes = write_dates(_MONEY_SPACE.sub("", known), code)
        apart = write_amounts(apart, code)
        try:
            return Readable(_stock(apart, code).replace(" .", "."), tuple(notes))
        except UserError:
            if not any(map(str.isdecimal, apart)):
                raise
        return _without_rule(apart, code, notes)
    if code == AMHARIC:
        # Before the rules, which tidy the spaces that pictures leave.
        kept, notes = _without_pictures(visible)
        return Readable(normalize_amharic(kept), tuple(notes))
    return _general(visible, code)


def _stock(text: str, code: str) -> str:
    """Not lower-cased before: Turkish İ is an i to stock, and two characters to Python."""
    require_packages(code)
    if code in _OWN_NUMBERS:
        text = _OWN_NUMBERS[code](text)
    try:
        # Number words may come back with capitals (German "Komma"), which no base has letters for.
        pieces = _LONG.findall(text) if code == "zh" and len(text) > _WHOLE else [text]
        return "".join(str(_stock_cleaner().preprocess_text(piece, code)) for piece in pieces).strip().lower()
    except ImportError as error:
        raise UserError(what=f"language {code!r} needs another package: {error}", fix=install_line(code)) from error
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(what=f"the {code} text rules cannot read {text[:60]!r}: {error}") from error


def _without_rule(text: str, code: str, notes: list[str]) -> Readable:
    """A text whose numbers stock's rules cannot read, first without ordinals, then digit by digit."""
    notes = [*notes, f"no rule for a number in {code}: it is read without its ordinal, or digit by digit"]
    try:
        read = _stock(_ORDINAL_POINT.sub(r"\1 .", text), code)
    except UserError:
        digits = re.sub(r"[.,](?=\d)", " ", _NUMERIC_SIGN.sub(" ", text))
        read = _stock(re.sub(r"(?<=\d)(?=[\d.])", " ", digits), code)
    return Readable(re.sub(r" +(?=\.)", "", read), tuple(notes))


def _general(text: str, code: str) -> Readable:
    """A language without rules of its own: ASCII punctuation, num2words where it knows the language, characters."""
    notes: dict[str, None] = {}
    text, left_out = _without_pictures(plain_punctuation(unicodedata.normalize("NFC", to_lower(text, code)), code))
    notes |= dict.fromkeys(left_out)
    text = _without_loose_joiners(text)

    text, dates = write_dates(text, code)
    notes |= dict.fromkeys(dates)
    text = spell_numbers(text, code, lambda note: notes.setdefault(note))
    for symbol in dict.fromkeys(char for char in text if char in _WORDLESS_SYMBOLS):
        notes[f"no word for {symbol} in {code}"] = None
    return Readable(unicodedata.normalize("NFC", _SPACE.sub(" ", text).strip().lower()), tuple(notes))


def _without_pictures(text: str) -> tuple[str, list[str]]:
    """The text without characters that have no sound, and a note that names them."""
    # White space is folded later; joiners belong to their letters; degrees may get a word.
    kept = f"{_JOINERS}°"
    unspoken = (char for char in text if unicodedata.category(char) in _UNSPOKEN)
    pictures = dict.fromkeys(char for char in unspoken if not char.isspace() and char not in kept)
    if not pictures:
        return text, []
    named = " ".join(f"U+{ord(char):04X}" for char in pictures)
    spaced = "".join(" " if char in pictures else char for char in text)
    return _SPACE.sub(" ", spaced).strip(), [f"dropped, not spoken: {named}"]


def _without_loose_joiners(text: str) -> str:
    """Joiners shape the letter before them; those of a picture that is gone shape nothing."""
    if not any(joiner in text for joiner in _JOINERS):
        return text
    before = zip(text, " " + text, strict=False)
    return "".join(char for char, last in before if char not in _JOINERS or unicodedata.category(last)[0] in "LM")


@lru_cache(maxsize=1)
def _stock_cleaner() -> Any:
    # Imported when first used: it loads torch and the number words of every language.
    from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer

    return VoiceBpeTokenizer()
