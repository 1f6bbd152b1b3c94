"""Which clips form which batch of an epoch, as arrays: ten million clips take a few hundred megabytes and seconds.

N clips, K batches of an epoch.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from utils.model.packing import ROW_MULTIPLE, round_up

BUCKET_BATCHES = 50
"""Batches whose clips are sorted by length among themselves."""
LENGTH_JITTER = 0.15
"""Share by which lengths are blurred before sorting: a small dataset then still meets in new batches each epoch."""
_WRITTEN_AT_ONCE = 10_000
"""Batches whose fingerprint is taken at a time: bounds memory."""

Lengths = NDArray[np.signedinteger[Any]]
Place = tuple[int, int]
"""(epoch, clip): all that a sample's randomness depends on, beside the seed."""


class BatchPlan:
    """The clips of an epoch's batches, each clip once.

    Args:
        clips: batch after batch, [N].
        starts: where in `clips` each batch begins, and N, [K + 1].
    """

    def __init__(self, clips: NDArray[np.int32], starts: NDArray[np.int64]) -> None:
        self.clips, self.starts = clips, starts

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, number: int) -> list[int]:
        if not 0 <= number < len(self):
            raise IndexError(number)
        clips: list[int] = self.clips[self.starts[number] : self.starts[number + 1]].tolist()
        return clips

    @property
    def counts(self) -> NDArray[np.int64]:
        """Clips of each batch, [K]."""
        return np.diff(self.starts)

    def sums(self, lengths: Lengths) -> NDArray[np.int64]:
        """Positions of each batch's clips together, [K]."""
        return np.add.reduceat(lengths[self.clips], self.starts[:-1], dtype=np.int64)

    def padded(self, lengths: Lengths) -> NDArray[np.int64]:
        """Positions of each batch's clips, every one padded to its longest, [K]."""
        return np.maximum.reduceat(lengths[self.clips], self.starts[:-1]) * self.counts

    def fingerprint(self) -> str:
        """16 hex digits of which clips form which batches, in which order."""
        digest = hashlib.sha256(b"[")
        # That of `json.dumps(list(self))`, which checkpoints of earlier versions hold.
        for at in range(0, len(self), _WRITTEN_AT_ONCE):
            batches = [self[number] for number in range(at, min(at + _WRITTEN_AT_ONCE, len(self)))]
            digest.update((", " * (at > 0) + json.dumps(batches)[1:-1]).encode())
        digest.update(b"]")
        return digest.hexdigest()[:16]


class EpochBatches:
    """A plan for each epoch: a new shuffle, fixed by the seed, clips of like length together.

    A checkpoint resumes within an epoch only where its plan is the same, so the random draws never change.

    Args:
        lengths: of each clip's row, in positions.
        batch_size: clips a batch.
        max_tokens: positions a batch at most, padding included, whatever the number of clips; 0 counts clips. No clip
            is longer than that.
        seed: of the shuffle; None keeps the order, and counts clips.
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
        balanced: bool = False,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size, self.max_tokens = batch_size, max_tokens
        self.seed, self.balanced = seed, balanced
        self.rank, self.world = rank, world
        self._counts: dict[int, int] = {}
        # The present epoch's is asked for again by each checkpoint.
        self.everywhere = lru_cache(maxsize=1)(self._plan)
        self.plan_of = lru_cache(maxsize=1)(lambda number: self.everywhere(number).fingerprint())

    def count(self, number: int) -> int:
        """Batches of an epoch, of all processes; every epoch has as many, unless positions are counted."""
        if not self.max_tokens:
            return math.ceil(len(self.lengths) / self.batch_size)
        if number not in self._counts:
            self._counts[number] = len(self.everywhere(number))
        return self._counts[number]

    def longest(self, num_epochs: int) -> int:
        """Positions of the longest batch of all epochs, for all processes."""
        # Counted, in a tenth of a second for an epoch of 72 000 clips: as many of the longest clips are far more.
        return max(int(self._plan(epoch).sums(self.lengths).max()) for epoch in range(num_epochs))

    def most_clips(self, num_epochs: int) -> int:
        """Clips of the batch of all epochs that has most."""
        if not self.max_tokens:
            return min(self.batch_size, len(self.lengths))
        return max(int(self._plan(epoch).counts.max()) for epoch in range(num_epochs))

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

    def _plan(self, number: int) -> BatchPlan:
        """The batches of an epoch; the same in all processes, however many."""
        count = len(self.lengths)
        if self.seed is None:
            return BatchPlan(np.arange(count, dtype=np.int32), _equal_starts(count, self.batch_size))
        random = np.random.default_rng([self.seed, number])
        order = random.permutation(count).astype(np.int32)
        blurred = random.uniform(1 - LENGTH_JITTER, 1 + LENGTH_JITTER, count)
        blurred *= self.lengths
        if self.max_tokens:
            bucket = BUCKET_BATCHES * max(1, int(self.max_tokens // self.lengths.mean()))
            clips = order if self.balanced else np.concatenate(_sorted_in_buckets(order, blurred, bucket))
            starts = _starts_by_size(self.lengths[clips], self.max_tokens, is_padded=not self.balanced)
        else:
            size = self.batch_size
            whole, rest = _sorted_in_buckets(order, blurred, BUCKET_BATCHES * size)
            starts = _equal_starts(count, size)
            if self.balanced:
                whole = _dealt(whole.reshape(-1, BUCKET_BATCHES * size), BUCKET_BATCHES)[0].reshape(-1)
                num_batches = math.ceil(len(rest) / size)
                (rest,), sizes = _dealt(rest[None], num_batches) if num_batches else (rest[None], [])
                starts[len(whole) // size :] = len(whole) + np.cumsum([0, *sizes])
            clips = np.concatenate([whole, rest])
        return _reordered(clips, starts, random.permutation(len(starts) - 1))


def _equal_starts(count: int, size: int) -> NDArray[np.int64]:
    return np.append(np.arange(0, count, size), count)


def _starts_by_size(lengths: Lengths, most: int, *, is_padded: bool) -> NDArray[np.int64]:
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


def _sorted_in_buckets(
    clips: NDArray[np.int32], keys: NDArray[np.float64], size: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Clips in buckets of `size`, by their key within each (stable); those of the last, smaller bucket apart."""
    whole = len(clips) // size * size
    buckets, rest = clips[:whole].reshape(-1, size), clips[whole:]
    ordered = np.take_along_axis(buckets, np.argsort(keys[buckets], axis=1, kind="stable"), axis=1)
    return ordered.reshape(-1), rest[np.argsort(keys[rest], kind="stable")]


def _dealt(buckets: NDArray[np.int32], num_batches: int) -> tuple[NDArray[np.int32], list[int]]:
    """Sorted clips of each bucket dealt to so many batches, in rounds, every second round in the other direction.

    Returns:
        The clips, batch after batch, of each bucket, and how many each batch has.
    """
    size = buckets.shape[1]
    places = np.arange(size)
    rounds, turn = np.divmod(places, num_batches)
    batch = np.where(rounds % 2 == 0, turn, num_batches - 1 - turn)
    order = np.argsort(batch * size + places)
    return buckets[:, order], np.bincount(batch, minlength=num_batches).tolist()


def _reordered(clips: NDArray[np.int32], starts: NDArray[np.int64], order: NDArray[np.int64]) -> BatchPlan:
    """The batches in another order."""
    sizes = np.diff(starts)[order]
    ends = np.cumsum(sizes)
    # How far each batch moves is the same for all of its clips.
    moved = np.repeat(starts[:-1][order] - (ends - sizes), sizes)
    return BatchPlan(clips[np.arange(len(clips)) + moved], np.append(0, ends))
