"""Sentences of random dictionary words: English spelling is learned from many words, and the lexicon has few."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

from recipes.starter.sentences import MAX_CHARACTERS, Deck
from utils.errors import UserError

DICTIONARY = Path("/usr/share/dict/american-english-small")
"""Debian's wamerican-small: the 40,000 commonest words and forms of SCOWL, free for any purpose."""
JOINTS = (
    *(" ", " ", " ", ", ", ", ", " and ", " or ", " of ", " of the ", " in ", " in the ", " to ", " to the ", " with "),
    *(" for ", " at the ", " on a ", " from ", " by ", " is ", " are ", " was ", " but ", " not ", " as ", " like "),
)
LEAST, MOST = 3, 9
"""Dictionary words a sentence."""


class WordLists:
    """An endless source of such sentences; words are dealt like cards, so that all are heard about equally often.

    Args:
        seed: the same seed gives the same sentences.

    Raises:
        UserError: the dictionary is not installed.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._deck = Deck(_words(), self._rng)

    def __iter__(self) -> Iterator[str]:
        while True:
            text = self._deck.deal()
            for _ in range(self._rng.randrange(LEAST, MOST + 1) - 1):
                text += self._rng.choice(JOINTS) + self._deck.deal()
            if len(text) < MAX_CHARACTERS:
                yield text[0].upper() + text[1:] + self._rng.choice("...?!")


def _words() -> list[str]:
    """Words of small letters only, in the dictionary's order."""
    if not DICTIONARY.is_file():
        raise UserError(
            what="the English dictionary is not installed",
            where=str(DICTIONARY),
            fix="apt-get install wamerican-small",
        )
    lines = DICTIONARY.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if re.fullmatch(r"[a-z]{2,14}", line)]
