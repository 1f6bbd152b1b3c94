"""English sentences for the teacher, each in one split, permanently: training, choosing, or reporting."""

import hashlib
import random
import re
from collections.abc import Iterable, Iterator

from recipes.base.sentences import SentenceMaker
from recipes.base.word_lists import WordLists, find_data, find_dictionary
from utils.errors import UserError

SPLITS = ("training", "choosing", "reporting")
WORDNET = "wordnet"
"""Debian's wordnet-base in a folder for data: example sentences of WordNet 3.0, free to use with its licence."""
PLAIN = re.compile(r"[A-Za-z][A-Za-z' ,;:?!-]*[.?!]?")
MIN_WORDS, MAX_WORDS = 6, 18

MIX = {"wordnet": 58, "own": 22, "words": 10, "two": 5, "short": 5}
"""Clips of each kind among a hundred: WordNet's examples, the grammar's sentences (numbers, names, questions, lists),
random words for spelling, two sentences in one text, and single words and phrases."""


def split_of(text: str) -> str:
    """The split of a sentence, from its letters alone: 96 % training, 2 % choosing, 2 % reporting."""
    letters = re.sub("[^a-z]", "", text.lower())
    percent = int(hashlib.sha256(letters.encode()).hexdigest(), 16) % 100
    return SPLITS[0] if percent < 96 else SPLITS[1] if percent < 98 else SPLITS[2]


def wordnet_examples() -> list[str]:
    """Example sentences of 6 to 18 words in plain letters, as sentences, without repetition, in the files' order."""
    folder = find_data(WORDNET)
    if folder is None:
        raise UserError(what="WordNet is not installed", where=WORDNET, fix="apt-get install wordnet-base")
    files = sorted(folder.glob("data.*"))
    glosses = (line.partition("|")[2] for path in files for line in path.read_text(encoding="utf-8").splitlines())
    examples = (example.strip() for gloss in glosses for example in re.findall('"([^"]+)"', gloss))
    plain = (e for e in examples if MIN_WORDS <= len(e.split()) <= MAX_WORDS and PLAIN.fullmatch(e))
    return list(dict.fromkeys(as_sentence(example) for example in plain))


def as_sentence(text: str) -> str:
    """With a capital at its start and a mark at its end."""
    text = text[0].upper() + text[1:].rstrip(" ,;:-")
    return text if text[-1] in ".?!" else f"{text}."


class Texts:
    """Endless texts of one split in the shares of `MIX`, so that any beginning of them has the whole's mix.

    Args:
        split: one of `SPLITS`.
        seed: the same seed gives the same texts.
    """

    def __init__(self, split: str, seed: int) -> None:
        self._split, self._rng = split, random.Random(f"{split} {seed}")
        self._sources: dict[str, Iterator[str]] = {
            "wordnet": self._wordnet(),
            "own": self._mine(SentenceMaker(seed)),
            "words": self._mine(WordLists(seed)),
            "two": self._two(),
            "short": self._short(),
        }

    def __iter__(self) -> Iterator[str]:
        while True:
            (kind,) = self._rng.choices(list(MIX), list(MIX.values()))
            yield next(self._sources[kind])

    def _mine(self, texts: Iterable[str]) -> Iterator[str]:
        return (text for text in texts if split_of(text) == self._split)

    def _wordnet(self) -> Iterator[str]:
        """All examples of the split in random order, again and again."""
        examples = list(self._mine(wordnet_examples()))
        while True:
            yield from self._rng.sample(examples, len(examples))

    def _two(self) -> Iterator[str]:
        short = (text for text in self._wordnet() if len(text.split()) <= 10)
        own = self._mine(SentenceMaker(self._rng.randrange(2**32)))
        for pair in zip(short, own, strict=False):
            yield " ".join(self._rng.sample(pair, 2))

    def _short(self) -> Iterator[str]:
        dictionary = find_dictionary()
        assert dictionary is not None, "WordLists has found it"
        words = [word for word in dictionary.read_text(encoding="utf-8").split() if re.fullmatch("[a-z]{3,12}", word)]
        for example in self._wordnet():
            phrase = " ".join(example.rstrip(".?!").split()[: self._rng.randint(2, 4)])
            word, other = self._rng.sample(words, 2)
            yield as_sentence(self._rng.choice([word, f"{word} {other}", phrase]))
