"""Convert Amharic words to sounds (epitran, IPA) and to a Latin form that the XTTS v2 vocabulary can read.

The Latin form has one letter for each sound, so that it is reversible. It borrows letters for similar sounds from
languages that the base speaks: š č ž from Czech, ñ from Spanish, ı from Turkish.
"""

import re
from functools import lru_cache
from typing import Any

from utils.text.amharic.normalize import normalize_amharic

EPITRAN_CODE = "amh-Ethi-pp"
_LATIN = {
    "t͡ʃʼ": "ć",
    "t͡sʼ": "ś",
    "t͡ʃ": "č",
    "d͡ʒ": "đ",
    "tʼ": "ť",
    "sʼ": "ś",
    "kʼ": "q",
    "pʼ": "ð",
    "ə": "ä",
    "ɨ": "ı",
    "ʃ": "š",
    "ʒ": "ž",
    "ɲ": "ñ",
    "ŋ": "ń",
    "ɡ": "g",
    "β": "v",
    "ʷ": "ů",
    "ʔ": "'",
} | {letter: letter for letter in "abdefhijklmnoprstuwxz"}
"""Each sound's letter. Ejective s and ts are one sound in Amharic, spelled ጸ and ፀ."""
LATIN_LETTERS = tuple(sorted(set(_LATIN.values())))
"""Every letter that the Latin form writes."""
_VOWELS = "aäeiıou"
_SOUNDS = re.compile("|".join(sorted(_LATIN, key=len, reverse=True)))
_WORD = re.compile("[\u1200-\u135a]+")
# The first order of these two is spoken as the fourth, which epitran knows for the fourth only.
_SPOKEN = str.maketrans("ሀአ", "ሃኣ")


_ROUNDED = {"ቊ": "kʼʷi", "ቌ": "kʼʷe", "ኊ": "hʷi", "ኌ": "hʷe", "ኲ": "kʷi", "ኴ": "kʷe", "ጒ": "ɡʷi", "ጔ": "ɡʷe"}
"""Letters with rounded lips that epitran does not know."""
_UNKNOWN = re.compile("([\u1200-\u135a]+)")
"""What epitran leaves as it was: letters of Tigrinya, Bilen and others."""


def to_latin_text(text: str) -> str:
    """Normalized Amharic with each Ethiopic word in its Latin form; everything else stays as it is.

    Letters that Amharic does not have stay, too: the checks of a clip find and name them.
    """

    def in_latin(word: re.Match[str]) -> str:
        parts = _UNKNOWN.split(to_ipa(word[0]))
        # Every second part is of letters that have no sound here.
        return "".join(part if number % 2 else to_latin(part) for number, part in enumerate(parts))

    return _WORD.sub(in_latin, normalize_amharic(text))


@lru_cache(maxsize=65_536)
def to_ipa(word: str) -> str:
    """The sounds of one Ethiopic word in IPA, as epitran's rules have them.

    Letters are folded first; gemination is not written in Amharic and so not represented here.
    """
    spoken = normalize_amharic(word).translate(_SPOKEN)
    ipa = str(_transliterator().transliterate(spoken)).replace("t͡sʼ", "sʼ")
    return "".join(_ROUNDED.get(char, char) for char in ipa)


def to_latin(ipa: str) -> str:
    """IPA of one word in Latin letters, from which the IPA can be restored.

    Raises:
        ValueError: a sound that Amharic does not have.
    """
    position, letters = 0, []
    for match in _SOUNDS.finditer(ipa):
        if match.start() != position:
            break
        letters.append(_LATIN[match[0]])
        position = match.end()
    if position != len(ipa):
        raise ValueError(f"no Latin letter for {ipa[position:]!r} in {ipa!r}")
    latin = "".join(letters)
    # A vowel never opens a word without its glottal stop: unwritten, it can still be turned back.
    return latin[1:] if latin[:1] == "'" and latin[1:2] in _VOWELS and latin[1:2] else latin


@lru_cache(maxsize=1)
def _transliterator() -> Any:
    # Imported when first used: it takes seconds, and only Amharic needs it.
    import epitran

    return epitran.Epitran(EPITRAN_CODE)
