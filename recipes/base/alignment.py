"""Which phoneme each word of a text begins with, and which letter is spoken at any time of a clip."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from recipes.base.speech import SpokenClip
from recipes.base.teacher import SPACE

SILENT = frozenset(range(SPACE + 1))
"""Tokens of silence, punctuation, and the space between words."""
SLACK = 5
"""A word may have this many phonemes more or fewer in a sentence than alone."""


def word_places(clip: SpokenClip, alone: Callable[[str], Sequence[int]]) -> list[int]:
    """The phoneme, by its place in the clip, that each word of the text begins with; empty where none fits.

    espeak-ng says "of the" as one word and some others as two. Where the counts differ, the phonemes of the whole are
    divided among the words so that each is nearest to the word said alone.

    Args:
        clip: with its phonemes.
        alone: phonemes of a single word.
    """
    words, groups = clip.text.split(), list[int]()
    for place, token in enumerate(clip.tokens):
        if token not in SILENT and (place == 0 or clip.tokens[place - 1] in SILENT):
            groups.append(place)
    if len(groups) == len(words):
        return groups
    places = [place for place, token in enumerate(clip.tokens) if token not in SILENT]
    spoken = [clip.tokens[place] for place in places]
    return [places[start] for start in divide(spoken, [_sounds(alone(word)) for word in words])]


def tokens_read(
    clip: SpokenClip, places: Sequence[int], starts: Sequence[int], seconds: NDArray[np.float64]
) -> NDArray[np.float32]:
    """The text token, a fraction between two, that is spoken at each of some times.

    Between two beginnings of words, tokens pass evenly with the phonemes, whatever each one's duration.

    Args:
        clip: with its phonemes and their times.
        places: of each word's first phoneme, see `word_places`.
        starts: token with which each word begins, and the number of tokens.
        seconds: the times.
    """
    last = max(place for place, token in enumerate(clip.tokens) if token not in SILENT) + 1
    of_phoneme = np.interp(np.arange(len(clip.tokens) + 1), [*places, last], starts)
    return np.interp(seconds, [0.0, *clip.ends], of_phoneme).astype(np.float32)


def divide(spoken: Sequence[int], words: Sequence[Sequence[int]]) -> list[int]:
    """Where each word begins in the phonemes of the whole; empty where none of the ways is near.

    Dynamic programming over ends: the least sum of edit distances of all divisions into as many parts as words.
    """
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    for word in words:
        reached: dict[int, tuple[int, list[int]]] = {}
        for begin, (cost, starts) in best.items():
            for end in range(begin + max(1, len(word) - SLACK), min(len(spoken), begin + len(word) + SLACK) + 1):
                total = cost + Levenshtein.distance(spoken[begin:end], word)
                if end not in reached or total < reached[end][0]:
                    reached[end] = (total, [*starts, begin])
        best = reached
    return best.get(len(spoken), (0, []))[1]


def _sounds(tokens: Sequence[int]) -> list[int]:
    return [token for token in tokens if token not in SILENT]
