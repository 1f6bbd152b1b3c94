"""Distinguish LJSpeech's third column, the normalized transcript, from speaker names."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache

from utils.text.languages import same_case

_SAME_LETTERS = 0.5
"""Share of the text's letters that a normalization keeps at least; with "1984" and "Dr." in words it is near 1."""
_SHORTEST = 0.75
"""In another script (pinyin for Chinese) letters cannot be compared, but such a text is longer, a name is shorter."""


def is_normalized(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether third columns are normalized texts of the second columns.

    Two things give speakers away: the same value stands beside texts it has little in common with, or the column as a
    whole lacks the letters of the texts. Digits do not count, because a normalization writes them as words.

    Args:
        pairs: (text, third column) of the rows whose third column is filled.
    """
    return not _repeats(pairs) and _keeps_the_letters(pairs)


def _repeats(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether most rows share a value with a row of another text, and it has not the letters of theirs."""
    texts: defaultdict[str, set[str]] = defaultdict(set)
    for text, third in pairs:
        texts[third].add(text)
    shared = [(text, third) for text, third in pairs if len(texts[third]) > 1]
    strange = [pair for pair in shared if min(_kept(*pair), _kept(*reversed(pair))) < _SAME_LETTERS]
    return 2 * len(strange) > len(pairs)


def _kept(text: str, other: str) -> float:
    """Share of the text's letters that the other text has too."""
    letters = _letters(text)
    return (letters & _letters(other)).total() / letters.total() if letters else 1.0


def _keeps_the_letters(pairs: Sequence[tuple[str, str]]) -> bool:
    if not pairs:
        return True
    scripts = {_script(letter) for _, third in pairs for letter in _letters(third)}
    comparable = kept = all_letters = text_length = third_length = 0
    for text, third in pairs:
        letters = _letters(text)
        same_script = Counter({letter: count for letter, count in letters.items() if _script(letter) in scripts})
        comparable += same_script.total()
        kept += (same_script & _letters(third)).total()
        all_letters += letters.total()
        text_length += _length(text)
        third_length += _length(third)
    if 2 * comparable > all_letters:
        return kept >= _SAME_LETTERS * comparable
    return third_length >= _SHORTEST * text_length


def _letters(text: str) -> Counter[str]:
    """Letters without case, accents and presentation forms."""
    plain = unicodedata.normalize("NFKD", same_case(text))
    return Counter(filter(str.isalpha, plain))


def _length(text: str) -> int:
    """Letters, digits and combining marks: vowels in Indic scripts are marks."""
    return sum(unicodedata.category(char)[0] in "LNM" for char in text)


@lru_cache(maxsize=4_096)
def _script(letter: str) -> str:
    """LATIN, CYRILLIC, CJK, ...: the first word of the letter's Unicode name."""
    return unicodedata.name(letter, "").split(" ", 1)[0]
