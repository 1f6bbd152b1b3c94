"""Which clips form which batch of an epoch, as arrays: ten million clips take a few hundred megabytes and seconds.

N clips, K batches of an epoch.
"""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from utils.model.packing import ROW_MULTIPLE, round_up

BUCKET_BATCHES = 50
"""Batches whose clips are sorted by length among themselves."""
LENGTH_JITTER = 0.15
"""Share by which lengths are blurred before sorting: a small dataset then still meets in new batches each epoch."""
BLOCK = 1_000
"""Clips that follow one another in the manifest and stay together where the shuffle has a window: those of a shard."""
_WRITTEN_AT_ONCE = 10_000
"""Batches whose fingerprint is taken at a time: bounds memory."""

Lengths = NDArray[np.signedinteger[Any]]
Place = tuple[int, int]
"""(epoch, clip): all that a sample's randomness depends on, beside the seed."""


class Plan(Sequence[list[int]], ABC):
    """The clips of an epoch's batches, each clip once."""

    @abstractmethod
    def _batch(self, place: int) -> list[int]:
        """The clips of a batch, which exists."""

    @abstractmethod
    def sums(self, lengths: Lengths) -> NDArray[np.int64]:
        """Positions of each batch's clips together, [K]."""

    @abstractmethod
    def padded(self, lengths: Lengths) -> NDArray[np.int64]:
        """Positions of as many of each batch's longest clip as it has clips, [K]."""

    @property
    @abstractmethod
    def counts_as_made(self) -> NDArray[np.int64]:
        """Clips of each batch, in no order that matters, [K]."""

    @overload
    def __getitem__(self, place: int) -> list[int]: ...
    @overload
    def __getitem__(self, place: slice) -> list[list[int]]: ...
    def __getitem__(self, place: int | slice) -> list[int] | list[list[int]]:
        places = range(len(self))[place]
        return self._batch(places) if isinstance(places, int) else list(map(self._batch, places))

    def __iter__(self) -> Iterator[list[int]]:
        return map(self._batch, range(len(self)))

    def fingerprint(self) -> str:
        """16 hex digits of which clips form which batches, in which order."""
        digest = hashlib.sha256(b"[")
        # That of `json.dumps(list(self))`, which checkpoints of earlier versions hold.
        for at in range(0, len(self), _WRITTEN_AT_ONCE):
            text = json.dumps(self[at : at + _WRITTEN_AT_ONCE])[1:-1]
            digest.update((", " * (at > 0) + text).encode())
        digest.update(b"]")
        return digest.hexdigest()[:16]


class BatchPlan(Plan):
    """Batches that are all in memory.

    Args:
        clips: batch after batch, [N].
        starts: where in `clips` each batch begins, and N, [K + 1].
        order: which of them is the first to be trained on, the second, ..., [K]; as they stand if None.
    """

    def __init__(
        self, clips: NDArray[np.int32], starts: NDArray[np.int64], order: NDArray[np.int64] | None = None
    ) -> None:
        self._clips, self._starts, self._order = clips, starts, order

    def __len__(self) -> int:
        return len(self._starts) - 1

    def _batch(self, place: int) -> list[int]:
        batch = place if self._order is None else self._order[place]
        return self._clips[self._starts[batch] : self._starts[batch + 1]].tolist()

    def of(self, clips: NDArray[np.int32]) -> "BatchPlan":
        """The same with the clips that have these places."""
        return BatchPlan(clips[self._clips], self._starts, self._order)

    def sums(self, lengths: Lengths) -> NDArray[np.int64]:
        return self._ordered(np.add.reduceat(lengths[self._clips], self._starts[:-1], dtype=np.int64))

    def padded(self, lengths: Lengths) -> NDArray[np.int64]:
        longest = np.maximum.reduceat(lengths[self._clips], self._starts[:-1])
        return self._ordered(longest * self.counts_as_made)

    @property
    def counts_as_made(self) -> NDArray[np.int64]:
        return np.diff(self._starts)

    def _ordered(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return values if self._order is None else values[self._order]


class WindowedPlan(Plan):
    """Batches of one stretch of clips after another; those of two stretches are in memory.

    Args:
        make: the batches of a stretch.
        starts: the first batch of each stretch, and K.
    """

    def __init__(self, make: Callable[[int], BatchPlan], starts: NDArray[np.int64]) -> None:
        self._made, self._starts = lru_cache(maxsize=2)(make), starts

    def __len__(self) -> int:
        return int(self._starts[-1])

    def _batch(self, place: int) -> list[int]:
        stretch = int(np.searchsorted(self._starts, place, side="right")) - 1
        return self._made(stretch)[place - int(self._starts[stretch])]

    def sums(self, lengths: Lengths) -> NDArray[np.int64]:
        return np.concatenate([plan.sums(lengths) for plan in self._stretches()])

    def padded(self, lengths: Lengths) -> NDArray[np.int64]:
        return np.concatenate([plan.padded(lengths) for plan in self._stretches()])

    @property
    def counts_as_made(self) -> NDArray[np.int64]:
        return np.concatenate([plan.counts_as_made for plan in self._stretches()])

    def _stretches(self) -> Iterator[BatchPlan]:
        return map(self._made, range(len(self._starts) - 1))


class EpochBatches:
    """A plan for each epoch: a new shuffle, fixed by the seed, clips of like length together.

    Args:
        lengths: of each clip's row, in positions.
        batch_size: clips a batch.
        max_tokens: positions a batch at most, padding included, whatever the number of clips; 0 counts clips. No clip
            is longer than that.
        seed: of the shuffle; None keeps the order, and counts clips.
        window: blocks of clips are shuffled, then each so many clips in that order among themselves: those that are
            read at a time then lie in few shards, and the plan of few is in memory. 0 shuffles all among all.
        balanced: give each batch long and short clips, so that all are of like length in sum: packed rows want that.
            Otherwise clips of like length come together: rows of their own then need little padding.
        rank, world: this process and their number; each takes every `world`-th batch, and all get equally many. The
            order of the batches does not depend on it.
    """

    def __init__(
        self,
        lengths: ArrayLike,
        batch_size: int,
        *,
        seed: int | None,
        max_tokens: int = 0,
        window: int = 0,
        balanced: bool = False,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        self.seed = seed
        self.window = window if window < len(self.lengths) else 0
        self.balanced = balanced
        self.rank = rank
        self.world = world
        self._counts: dict[int, int] = {}
        # The present epoch's is asked for again by each checkpoint.
        self.everywhere = lru_cache(maxsize=1)(self._plan)
        self.plan_of = lru_cache(maxsize=1)(self._fingerprint)

    def count(self, number: int) -> int:
        """Batches of an epoch, of all processes; every epoch has as many, unless positions are counted."""
        if not self.max_tokens:
            return math.ceil(len(self.lengths) / self.batch_size)
        if number not in self._counts:
            self._counts[number] = len(self.everywhere(number))
        return self._counts[number]

    def longest(self, num_epochs: int) -> int:
        """Positions of the longest batch of so many epochs, for all processes."""
        # Counted, in a tenth of a second for an epoch of 72 000 clips: as many of the longest clips are far more.
        return max(int(self._plan(epoch).sums(self.lengths).max()) for epoch in range(num_epochs))

    def most_clips(self, num_epochs: int) -> int:
        """Clips of the batch of so many epochs that has most."""
        if not self.max_tokens:
            return min(self.batch_size, len(self.lengths))
        return max(int(self._plan(epoch).counts_as_made.max()) for epoch in range(num_epochs))

    def epoch(self, number: int, *, start: int = 0) -> Iterator[list[Place]]:
        """The epoch's batches for this process, when all processes together have done `start` of them."""
        batches = self.everywhere(number)
        # Processes must compute equally many: the last round is filled up from the beginning. See `Batch.is_filler`.
        rounds = math.ceil((len(batches) - start) / self.world)
        for place in range(start + self.rank, start + rounds * self.world, self.world):
            yield [(number, clip) for clip in batches[place % len(batches)]]

    def spread(self, count: int) -> list[list[Place]]:
        """The largest batch of an epoch, and `count` others that stand for all: evenly spread over the batches' sizes.

        Fewer batches than that are taken several times.
        """
        plan = self.everywhere(0)
        # Positions that are computed.
        sizes = plan.sums(self.lengths) if self.balanced else plan.padded(self.lengths)
        order = np.argsort(sizes, kind="stable")
        chosen = [order[-1], *(order[(2 * place + 1) * len(plan) // (2 * count)] for place in range(count))]
        return [[(0, clip) for clip in plan[int(batch)]] for batch in chosen]

    def _fingerprint(self, number: int) -> str:
        return self.everywhere(number).fingerprint()

    def _plan(self, number: int) -> Plan:
        """The batches of an epoch; the same in all processes, however many."""
        count = len(self.lengths)
        if self.seed is None:
            return BatchPlan(np.arange(count, dtype=np.int32), _starts_of_equal(count, self.batch_size))
        if self.window:
            return self._windowed(self.seed, number)
        return self._shuffled(self.lengths, np.random.default_rng([self.seed, number]))

    def _windowed(self, seed: int, number: int) -> Plan:
        """Blocks of clips in another order, and in that order stretches of clips that are shuffled among themselves."""
        count, block = len(self.lengths), min(BLOCK, self.window)
        blocks = np.random.default_rng([seed, number]).permutation(math.ceil(count / block)) * block
        ends = np.cumsum(np.minimum(count - blocks, block))
        # Whole batches: an epoch then has as many of them as without a window.
        size = max(self.window // self.batch_size, 1) * self.batch_size

        def make(stretch: int) -> BatchPlan:
            places = np.arange(stretch * size, min((stretch + 1) * size, count))
            of = np.searchsorted(ends, places, side="right")
            # The last place of a block is its end less one.
            clips = (blocks[of] + np.minimum(count - blocks[of], block) - (ends[of] - places)).astype(np.int32)
            return self._shuffled(self.lengths[clips], np.random.default_rng([seed, number, stretch])).of(clips)

        stretches = range(math.ceil(count / size))
        if self.max_tokens:
            return WindowedPlan(make, np.cumsum([0, *(len(make(stretch)) for stretch in stretches)]))
        most = math.ceil(count / self.batch_size)
        return WindowedPlan(make, np.minimum(np.arange(len(stretches) + 1) * (size // self.batch_size), most))

    def _shuffled(self, lengths: Lengths, random: np.random.Generator) -> BatchPlan:
        """Batches of clips of these lengths."""
        count = len(lengths)
        order = random.permutation(count).astype(np.int32)
        jitter = random.uniform(1 - LENGTH_JITTER, 1 + LENGTH_JITTER, count)
        jitter *= lengths
        if self.max_tokens:
            clips = order if self.balanced else self._in_buckets(order, jitter)
            starts = _cut(lengths[clips], self.max_tokens, is_padded=not self.balanced)
            return BatchPlan(clips, starts, random.permutation(len(starts) - 1))
        bucket = BUCKET_BATCHES * self.batch_size
        whole = count // bucket * bucket
        clips = _sorted_within(order[:whole].reshape(-1, bucket), jitter)
        rest = _sorted_within(order[whole:].reshape(1, -1), jitter)[0]
        starts = _starts_of_equal(count, self.batch_size)
        if self.balanced:
            clips = _dealt_full(clips, self.batch_size)
            hands = _dealt(rest.tolist(), self.batch_size)
            rest = np.array([clip for hand in hands for clip in hand], dtype=np.int32)
            starts[whole // self.batch_size :] = whole + np.cumsum([0, *map(len, hands)])
        placed = random.permutation(len(starts) - 1)
        return BatchPlan(np.concatenate([clips.reshape(-1), rest]), starts, placed)

    def _in_buckets(self, order: NDArray[np.int32], keys: NDArray[np.float64]) -> NDArray[np.int32]:
        """Clips in buckets of about `BUCKET_BATCHES` batches, by their key within each."""
        bucket = BUCKET_BATCHES * max(1, int(self.max_tokens // self.lengths.mean()))
        whole = len(order) // bucket * bucket
        clips = _sorted_within(order[:whole].reshape(-1, bucket), keys)
        return np.concatenate([clips.reshape(-1), _sorted_within(order[whole:].reshape(1, -1), keys)[0]])


def _cut(lengths: Lengths, most: int, *, is_padded: bool) -> NDArray[np.int64]:
    """Where batches begin, and the number of clips: each as many clips one after the other as `most` positions hold."""
    starts, total, longest, begin = [0], 0, 0, 0
    most = most // ROW_MULTIPLE * ROW_MULTIPLE
    # Clip by clip, as each batch begins where the one before it ends: three seconds for ten million.
    for place, length in enumerate(lengths.tolist()):
        total, longest = total + length, max(longest, length)
        size = round_up(longest, ROW_MULTIPLE) * (place + 1 - begin) if is_padded else total
        if size > most and place > begin:
            starts.append(place)
            total, longest, begin = length, length, place
    return np.array([*starts, len(lengths)], dtype=np.int64)


def _starts_of_equal(count: int, size: int) -> NDArray[np.int64]:
    return np.append(np.arange(0, count, size), count)


def _sorted_within(buckets: NDArray[np.int32], keys: NDArray[np.float64]) -> NDArray[np.int32]:
    """Clips of each bucket by their key; equal ones stay in their order."""
    return np.take_along_axis(buckets, np.argsort(keys[buckets], axis=1, kind="stable"), axis=1)


def _dealt_full(buckets: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    """`_dealt` of many buckets that all fill `BUCKET_BATCHES` batches."""
    turns = buckets.reshape(-1, size, BUCKET_BATCHES)
    turns[:, 1::2] = turns[:, 1::2, ::-1].copy()
    return np.ascontiguousarray(turns.transpose(0, 2, 1))


def _dealt(clips: list[int], size: int) -> list[list[int]]:
    """Clips sorted by length, dealt to batches like cards, each round in the other direction."""
    count = math.ceil(len(clips) / size)
    hands: list[list[int]] = [[] for _ in range(count)]
    for number, turn in enumerate(clips[at : at + count] for at in range(0, len(clips), max(count, 1))):
        for hand, clip in zip(hands if number % 2 == 0 else hands[::-1], turn, strict=False):
            hand.append(clip)
    return hands
