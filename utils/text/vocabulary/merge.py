"""Turn candidate pieces into merges, each of which some word of the corpus uses as a token.

Byte-pair encoding joins two symbols at a time. A piece is often only an intermediate step: all of its occurrences
become part of a longer piece, and its id and its row in the model are never used. A merge is therefore made only if
both of its halves still occur elsewhere. Letters are exempt, because unseen words need them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, takewhile

Pair = tuple[str, str]
Symbols = Callable[[list[str]], list[list[str]]]
"""The symbols of texts before any merge of ours."""

STEP = "a shorter token would no longer be seen in any word"
UNSEEN = "no word of the corpus gives them"
BEYOND = "more tokens than requested"

FEWEST = 2
"""Places in the corpus that a pair needs to become a token which SentencePiece did not name."""
_AT_ONCE = 200
"""Pairs taken from the corpus between two counts."""


def choose_merges(
    candidates: list[str],
    words: Mapping[str, int],
    symbols: Symbols,
    *,
    most: int,
    usable: Callable[[str], bool],
    banned: frozenset[str] = frozenset(),
) -> "Merges":
    """Merges that make as many of the candidates tokens as the words give, and what words repeat beside them.

    Args:
        candidates: pieces of two letters or more, most useful first.
        words: distinct words, with how often the corpus has them.
        symbols: splits texts as the tokenizer does before these merges.
        most: merges made at most.
        usable: whether a piece may become a token.
        banned: pieces that must not.
    """
    starts = dict(zip(candidates, symbols(candidates), strict=True))
    merges = Merges(_Words(symbols(list(words)), list(words.values())), starts, most, banned)
    merges.take(candidates)
    merges.fill(usable)
    return merges


class _Words:
    """Distinct words as symbols, and in which of them each pair stands."""

    def __init__(self, texts: list[list[str]], counts: list[int]) -> None:
        self._texts, self._counts = [list(text) for text in texts], counts
        self._where: defaultdict[Pair, set[int]] = defaultdict(set)
        """A superset: words are not taken out when a merge takes a pair from them."""
        self.seen: Counter[str] = Counter()
        """In how many places of distinct words each symbol stands."""
        for index, text in enumerate(self._texts):
            self.seen.update(text)
            for pair in pairwise(text):
                self._where[pair].add(index)

    def places(self, pair: Pair) -> int:
        """In how many places a merge would join the pair."""
        return sum(_count(self._texts[index], pair) for index in self._where.get(pair, ()))

    def merge(self, pair: Pair) -> None:
        whole = "".join(pair)
        for index in self._where.pop(pair, ()):
            text, merged = self._texts[index], _joined(self._texts[index], pair)
            num = len(text) - len(merged)
            if not num:
                continue
            self._texts[index] = merged
            self.seen.update({whole: num})
            for half in pair:
                self.seen[half] -= num
            for both in pairwise(merged):
                if whole in both:
                    self._where[both].add(index)

    def frequent(self) -> Iterable[Pair]:
        """Pairs of symbols that the corpus has `FEWEST` times or more, the most frequent first.

        Equally frequent ones come in alphabetical order: the vocabulary does not depend on the order of the words.
        """
        counts: Counter[Pair] = Counter()
        for text, count in zip(self._texts, self._counts, strict=True):
            for pair in pairwise(text):
                counts[pair] += count
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return (pair for pair, _ in takewhile(lambda item: item[1] >= FEWEST, ordered))


class Merges:
    """The way through the candidates, and what became of them."""

    def __init__(self, words: _Words, starts: dict[str, list[str]], most: int, banned: frozenset[str]) -> None:
        self.words, self._starts, self._most, self._banned = words, starts, most, banned
        self.pairs: dict[Pair, int] = {}
        """The merges with their ranks, in the order in which a tokenizer applies them."""
        self.made: dict[str, None] = {}
        """The new tokens, in that order."""
        self._faults: dict[str, str] = {}
        self.num_found = 0
        """Merges that are no candidates: pairs of symbols that the words repeat."""

    def take(self, candidates: list[str]) -> None:
        """Make tokens of candidates until no more can be: what a merge changed may make room for another."""
        waiting = candidates
        while waiting:
            before = len(self.made)
            waiting = [piece for piece in waiting if not self._add(piece)]
            if len(self.made) == before:
                return

    def fill(self, usable: Callable[[str], bool]) -> None:
        """Use what places are left for pairs that the words repeat."""
        while len(self.made) < self._most:
            before = len(self.made)
            for pair in self.words.frequent():
                piece = "".join(pair)
                is_free = piece not in self.made and piece not in self._banned
                if is_free and usable(piece) and self._fault(pair) is None:
                    self.num_found += piece not in self._starts
                    self._merge(piece, pair)
                if len(self.made) >= min(before + _AT_ONCE, self._most):
                    break
            if len(self.made) == before:
                return

    @property
    def left_out(self) -> dict[str, str]:
        """Candidates that did not become tokens, each with its reason."""
        return {piece: reason for piece, reason in self._faults.items() if piece not in self.made}

    def _add(self, piece: str) -> bool:
        pair = self._pair(piece)
        fault = UNSEEN if pair is None or piece in self._banned else self._fault(pair)
        if fault is None and len(self.made) >= self._most:
            fault = BEYOND
        if fault is not None or pair is None:
            self._faults[piece] = fault or UNSEEN
            return False
        self._merge(piece, pair)
        return True

    def _fault(self, pair: Pair) -> str | None:
        """Why two symbols cannot be joined."""
        if not self.words.places(pair):
            return UNSEEN
        return STEP if self._idle(pair) else None

    def _idle(self, pair: Pair) -> list[str]:
        """New tokens that would be seen nowhere else once the pair is joined."""
        places = self.words.places(pair)
        taken = 2 * places if pair[0] == pair[1] else places
        return [half for half in dict.fromkeys(pair) if half in self.made and self.words.seen[half] <= taken]

    def _merge(self, piece: str, pair: Pair) -> None:
        self.pairs[pair] = len(self.pairs)
        self.made[piece] = None
        self.words.merge(pair)

    def _pair(self, piece: str) -> Pair | None:
        """The two symbols that a piece is made of once all merges were made; None when there are more."""
        symbols = list(self._starts.get(piece) or piece)
        while len(symbols) > 2:
            known = [pair for pair in pairwise(symbols) if pair in self.pairs]
            if not known:
                return None
            symbols = _joined(symbols, min(known, key=self.pairs.__getitem__))
        return (symbols[0], symbols[1]) if len(symbols) == 2 and "".join(symbols) == piece else None


def _count(text: list[str], pair: Pair) -> int:
    if pair[0] == pair[1]:
        return len(text) - len(_joined(text, pair))
    return sum(both == pair for both in pairwise(text))


def _joined(text: list[str], pair: Pair) -> list[str]:
    """Symbols with each place of the pair as one, from the left."""
    merged: list[str] = []
    at = 0
    while at < len(text):
        if at + 1 < len(text) and text[at] == pair[0] and text[at + 1] == pair[1]:
            merged.append(text[at] + text[at + 1])
            at += 2
        else:
            merged.append(text[at])
            at += 1
    return merged
