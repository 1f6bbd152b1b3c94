"""Normalize Amharic: one spelling for homophone letters, abbreviations and numbers as words.

Letters of the same sound are written as one, as Amharic speech recognition does it (Abate et al. 2005, "An Amharic
Speech Corpus for Large Vocabulary Continuous Speech Recognition"); doubled letters stay as they were written.
"""

import re
import unicodedata

from utils.text.amharic.numbers import YEAR, expand_numbers, year

_ABBREVIATIONS = """
ዓ.ም ዓመተ ምህረት
ዓ/ም ዓመተ ምህረት
ዓ.ዓ ዓመተ ዓለም
እ.ኤ.አ እንደ ኤውሮፓውያን አቆጣጠር
እ.አ.አ እንደ አውሮፓውያን አቆጣጠር
ከክ.ል.በ ከክርስቶስ ልደት በፊት
ክ/ዘመን ክፍለ ዘመን
ክ/ከተማ ክፍለ ከተማ
ክ/ሀገር ክፍለ ሀገር
ት/ት ትምህርት
ቤ/ክርስቲያን ቤተ ክርስቲያን
ቤ/ክ ቤተ ክርስቲያን
ጠ/ሚኒስትር ጠቅላይ ሚኒስትር
ጠ/ሚ ጠቅላይ ሚኒስትር
ም/ፕሬዚዳንት ምክትል ፕሬዚዳንት
ፕ/ት ፕሬዚዳንት
ዶ/ር ዶክተር
ፕ/ር ፕሮፌሰር
ኢ/ር ኢንጂነር
መ/ር መምህር
ወ/ሮ ወይዘሮ
ወ/ሪት ወይዘሪት
ኮ/ል ኮሎኔል
ጄ/ል ጄኔራል
ሻ/ል ሻምበል
ሻ/ቃ ሻለቃ
ተ.መ.ድ የተባበሩት መንግስታት ድርጅት
ወ.ዘ.ተ ወዘተ
አ.አ አዲስ አበባ
ኪ.ሜ ኪሎ ሜትር
ኪ.ግ ኪሎ ግራም
ሴ.ሜ ሴንቲ ሜትር
"""
ABBREVIATIONS = dict(line.split(" ", 1) for line in _ABBREVIATIONS.strip().split("\n"))
_HOUSES = {"ት": "ትምህርት", "መ": "መስሪያ", "ም": "ምክር", "ፍ": "ፍርድ", "ጽ": "ጽህፈት", "ፅ": "ጽህፈት"}
"""First letters of places that end in ቤት, house, with any ending: ት/ቤት, በት/ቤቱ."""
_NAMES = {"ገ": "ገብረ", "ኃ": "ኃይለ", "ተ": "ተክለ"}
"""First halves of names that are written short before a slash: ገ/ስላሴ."""

_DROPPED = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u135d-\u135f]")
"""What is not spoken: soft hyphens, zero-width and direction marks, and the combining gemination marks of
dictionaries, which ordinary writing never has."""
_PUNCTUATION = str.maketrans(
    {"።": ". ", "፡": " ", "፣": ", ", "፤": "; ", "፥": ": ", "፦": ": ", "፧": "? ", "፨": ". ", "፠": " "}
)
_QUOTES = str.maketrans({'"': "", "“": "", "”": "", "«": "", "»": "", "‹": "", "›": "", "’": "'", "‘": "'"})
_SYMBOLS = {"&": " እና ", "@": " አት ", "+": " ሲደመር ", "=": " እኩል ", "°": " ዲግሪ ", "#": " ቁጥር "} | {
    "%": " በመቶ ",
    "$": " ዶላር ",
    "€": " ዩሮ ",
    "£": " ፓውንድ ",
}
"""Of signs that stand alone; beside a number they were read with it."""


def _rows(source: str, target: str) -> dict[int, int]:
    """Seven orders of one consonant to those of another."""
    return {ord(source) + order: ord(target) + order for order in range(7)}


_HOMOPHONES = (
    _rows("ሐ", "ሀ")
    | _rows("ኀ", "ሀ")
    | _rows("ሠ", "ሰ")
    | _rows("ዐ", "አ")
    | _rows("ፀ", "ጸ")
    | str.maketrans("ሧሗ", "ሷኋ")
    # First and fourth order of h and of the glottal stop sound the same; labialised letters before e and u likewise.
    | str.maketrans("ሃሓኃኣዓ", "ሀሀሀአአ")
    | str.maketrans("ኰኵጐጕቈቍኈኍ", "ኮኩጎጉቆቁሆሁ")
)
_LABIALISED = dict(zip("ሉሙሩሱሹቁቡቱቹኑኙኩዙዡዱጁጉጡጩፉሁ", "ሏሟሯሷሿቋቧቷቿኗኟኳዟዧዷጇጓጧጯፏኋ", strict=True))
"""Labialised letters that people spell out: ሉዋ is ሏ."""

_LETTER = "[\u1200-\u135a]"
# Longer ones first: ቤ/ክርስቲያን before ቤ/ክ. A prefix such as በ or የ may stand before one, a letter behind it may not.
_ABBREVIATION = re.compile(
    "(?:"
    + "|".join(
        r"\s?".join(re.escape(part) for part in re.split(r"(?<=[./])", short))
        for short in sorted(ABBREVIATIONS, key=len, reverse=True)
    )
    + rf")(?!{_LETTER})(?:\.(?=\s*\S))?"
)
_SHORT_NAME = re.compile(rf"(?<!{_LETTER})([{''.join(_NAMES)}])/\s?(?={_LETTER}{{2}})")
_HOUSE = re.compile(rf"([{''.join(_HOUSES)}])/\s?(?=ቤ[ትቱቶታቴ])")
_LABIAL = re.compile(f"([{''.join(_LABIALISED)}])ዋ")
_TIDY = ((re.compile(r"\s+([.,;:?!])"), r"\1"), (re.compile(r"([.,;:?!])\1+"), r"\1"), (re.compile(r"\s+"), " "))


def normalize_amharic(text: str) -> str:
    """Amharic in one spelling, with ASCII punctuation, nothing abbreviated and no digits; Latin letters in lower case.

    Args:
        text: any text; what is not Ethiopic stays, except digits and the symbols that have Amharic words.
    """
    text = unicodedata.normalize("NFC", text).lower().translate(_QUOTES)
    text = _DROPPED.sub("", text)
    # Two word dividers are how a full stop is typed without one.
    text = text.replace("፡፡", "።").replace("::", "።")
    # Years first: once ዓ.ም is spelled out, it no longer shows that a year went before.
    text = YEAR.sub(lambda match: year(int(match[1])), text)
    text = _ABBREVIATION.sub(lambda match: ABBREVIATIONS[re.sub(r"\s", "", match[0]).removesuffix(".")], text)
    text = _HOUSE.sub(lambda match: _HOUSES[match[1]] + " ", text)
    text = _SHORT_NAME.sub(lambda match: _NAMES[match[1]] + " ", text)
    # Letters of the same sound become one letter.
    text = text.replace("ሰዓት", "ሰአት").translate(_HOMOPHONES)
    text = _LABIAL.sub(lambda match: _LABIALISED[match[1]], text)
    text = expand_numbers(text)
    for symbol, words in _SYMBOLS.items():
        text = text.replace(symbol, words)
    text = re.sub(rf"(?<={_LETTER})/(?={_LETTER})", " ", text.translate(_PUNCTUATION))
    for pattern, replacement in _TIDY:
        text = pattern.sub(replacement, text)
    return unicodedata.normalize("NFC", text).strip()
