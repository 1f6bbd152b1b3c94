"""Sentences of random words: English spelling is learned from many words, and the lexicon has few."""

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

from recipes.base.sentences import MAX_CHARACTERS, Deck
from utils.errors import UserError

DICTIONARY = "dict/american-english-small"
"""Debian's wamerican-small in a folder for data: the 40,000 commonest words of SCOWL and their forms, free to use."""
JOINTS = (
    *(" ", " ", " ", ", ", ", ", " and ", " or ", " of ", " of the ", " in ", " in the ", " to ", " to the ", " with "),
    *(" for ", " at the ", " on a ", " from ", " by ", " is ", " are ", " was ", " but ", " not ", " as ", " like "),
)
LEAST, MOST = 3, 9
"""Dictionary words a sentence."""


class WordLists:
    """An endless source of such sentences; words are dealt like cards, so that all occur about equally often.

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


def find_dictionary() -> Path | None:
    """The installed dictionary."""
    return find_data(DICTIONARY)


def find_data(name: str) -> Path | None:
    """A file or folder in the first folder for data that has it (XDG base directory specification)."""
    folders = os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    return next((path for folder in folders.split(":") if (path := Path(folder) / name).exists()), None)


def _words() -> list[str]:
    """Words of small letters only, in the dictionary's order."""
    dictionary = find_dictionary()
    if dictionary is None:
        raise UserError(
            what="the English dictionary is not installed", where=DICTIONARY, fix="apt-get install wamerican-small"
        )
    lines = dictionary.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if re.fullmatch(r"[a-z]{2,14}", line)]
