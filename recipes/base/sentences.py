"""Make varied English sentences from a small grammar and a self-written lexicon.

The words are dealt like cards, each category from its own shuffled deck, so that every word occurs about equally
often: a GPT that reads characters then has to learn pronunciation, it cannot get by on frequent words.
"""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from num2words import num2words

from recipes.base.inflect import plural, split_forms, with_articles

LEXICON = Path(__file__).resolve().parent / "lexicon"
MIN_WORDS, MAX_WORDS = 3, 25
MAX_CHARACTERS = 180
_COUNTED = {"person": "people", "animal": "animals", "thing": "things", "place": "places", "fooditem": "fooditems",
            "abstract": "abstract", "body": "body"}  # fmt: skip
_PLAIN = {"food": "food", "mass": "mass", "adj": "adjectives", "adv": "adverbs", "first": "firstnames",
          "last": "lastnames", "loc": "locations"}  # fmt: skip
_VERBS = {"vt": "transitive", "vi": "intransitive"}


class Deck:
    """Deals its cards in random order, each once before any comes again."""

    def __init__(self, cards: list[str], rng: random.Random) -> None:
        self._cards, self._rng, self._left = cards, rng, list[str]()

    def deal(self) -> str:
        if not self._left:
            self._left = self._rng.sample(self._cards, len(self._cards))
        return self._left.pop()


class SentenceMaker:
    """An endless source of distinct sentences of 3 to 25 words and at most 180 characters.

    Args:
        seed: the same seed gives the same sentences.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._rules = _load_grammar()
        self._words = self._load_words()

    def __iter__(self) -> Iterator[str]:
        seen: set[str] = set()
        while True:
            text = self.sentence()
            num_words = len(text.split())
            # The grammar favors short sentences: half of them go, so that the mean is about nine words.
            if num_words <= 6 and self._rng.random() < 0.5:
                continue
            if MIN_WORDS <= num_words <= MAX_WORDS and len(text) <= MAX_CHARACTERS and text.lower() not in seen:
                seen.add(text.lower())
                yield text

    def sentence(self) -> str:
        """One sentence, capitalized and punctuated."""
        text = re.sub(r"\s+([,.?!])", r"\1", self._expand("S"))
        text = with_articles(text)
        return text[0].upper() + text[1:]

    def _expand(self, name: str) -> str:
        """Text of rule or word `name`, all slots in it filled."""
        if name in self._rules:
            option = self._rng.choice(self._rules[name])
            return re.sub(r"<([^>]+)>", lambda slot: self._expand(slot.group(1)), option)
        return self._words[name]()

    def _load_words(self) -> dict[str, Callable[[], str]]:
        """One dealing function for every lower-case slot of the grammar."""
        rng = self._rng
        words = {slot: Deck(_read(name), rng).deal for slot, name in _PLAIN.items()}
        for slot, name in _COUNTED.items():
            entries = [entry.split(":") for entry in _read(name)]
            words[slot] = Deck([entry[0] for entry in entries], rng).deal
            words["bodies" if slot == "body" else slot + "s"] = Deck([plural(*entry) for entry in entries], rng).deal
        for slot, name in _VERBS.items():
            forms = [split_forms(entry) for entry in _read(name)]
            for form in ("base", "3", "past", "pp", "ing"):
                words[f"{slot}.{form}"] = Deck([verb[form] for verb in forms], rng).deal
        return words | self._numbers()

    def _numbers(self) -> dict[str, Callable[[], str]]:
        """Slots for numbers, written out as the XTTS tokenizer would write them."""
        rng = self._rng
        digits = [num2words(digit) for digit in range(10)]
        limits = [12, 12, 20, 20, 100, 100, 100, 1000, 10_000]
        return {
            "num": lambda: num2words(rng.randrange(2, rng.choice(limits))),
            "dayord": lambda: num2words(rng.randrange(1, 32), to="ordinal"),
            "ord": lambda: num2words(rng.randrange(1, 100), to="ordinal"),
            "YEAR": lambda: num2words(rng.randrange(1100, 2060), to="year"),
            "DIGITS": lambda: " ".join(rng.choice(digits) for _ in range(rng.randrange(3, 7))),
            "CLOCK": lambda: _clock(rng),
        }


def _clock(rng: random.Random) -> str:
    """A time of day in words."""
    hour = num2words(rng.randrange(1, 13))
    minute = num2words(rng.choice([5, 10, 20, 25, 40, 45, 55, rng.randrange(13, 60)]))
    return rng.choice([f"{hour} o'clock", f"half past {hour}", f"a quarter to {hour}", f"{hour} {minute}", "noon",
                       f"ten past {hour}", f"{hour} thirty", "midnight"])  # fmt: skip


def _read(name: str) -> list[str]:
    """Entries of a lexicon file, without duplicates, in file order."""
    entries = (LEXICON / f"{name}.txt").read_text(encoding="utf-8").split()
    return [entry.replace("_", " ") for entry in dict.fromkeys(entries)]


def _load_grammar() -> dict[str, list[str]]:
    """Rules as {name: options}; an option with weight n stands n times."""
    rules: dict[str, list[str]] = {}
    for line in (LEXICON / "grammar.txt").read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, options = line.split(": ", 1)
        for option in options.split(" | "):
            parts = re.fullmatch(r"(?:(\d+)\*)?(.*)", option.strip())
            assert parts is not None, "the pattern takes any line"
            weight, text = parts.groups()
            rules.setdefault(name, []).extend([text] * int(weight or 1))
    return rules
