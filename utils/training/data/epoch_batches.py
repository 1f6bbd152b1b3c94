"""Which clips form which batch of an epoch: a checkpoint resumes within an epoch only where its plan is the same."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from utils.model.packing import ROW_MULTIPLE, round_up

BUCKET_BATCHES = 50
"""Batches whose clips are sorted by length among themselves."""
LENGTH_JITTER = 0.15
"""Share by which lengths are blurred before sorting: a small dataset then still meets in new batches each epoch."""

Place = tuple[int, int]
"""(epoch, clip): all that a sample's randomness depends on, beside the seed."""
BatchPlan = list[list[int]]
"""The clips of an epoch's batches, each clip once at most."""


class EpochBatches:
    """A plan for each epoch: a new shuffle, fixed by the seed, clips of like length together.

    Args:
        lengths: of each clip's row, in positions.
        batch_size: clips a batch.
        max_tokens: positions a batch at most, padding included, whatever the number of clips; 0 counts clips. No clip
            is longer than that.
        seed: of the shuffle; None keeps the order, and counts clips.
        balanced: give each batch long and short clips, so that all are of like length in sum: packed rows want that.
            Otherwise clips of like length come together: rows of their own then need little padding.
        drawn: groups of clips of which an epoch takes a part: the first, the one after the last, how many are taken.
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
        drawn: Sequence[tuple[int, int, int]] = (),
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size, self.max_tokens = batch_size, max_tokens
        self.seed, self.balanced = seed, balanced
        self.rank, self.world, self.drawn = rank, world, drawn
        self.num_clips = len(self.lengths) - sum(end - start - taken for start, end, taken in drawn)
        """Of an epoch."""
        self.count = lru_cache(maxsize=None)(self._count)
        # The present epoch's is asked for again by each checkpoint.
        self.everywhere = lru_cache(maxsize=1)(self._plan)
        self.plan_of = lru_cache(maxsize=1)(self._fingerprint)
        self.wanted: Iterable[list[Place]] = ()
        """What iterating gives: one loader, with its processes, then serves all epochs."""

    def __iter__(self) -> Iterator[list[Place]]:
        return iter(self.wanted)

    def _count(self, number: int) -> int:
        """Batches of an epoch, of all processes; every epoch has as many, unless positions are counted."""
        return len(self.everywhere(number)) if self.max_tokens else math.ceil(self.num_clips / self.batch_size)

    def _fingerprint(self, number: int) -> str:
        """16 hex digits of which clips form which batches of an epoch, in which order; checkpoints hold it.

        The clips, their lengths and the layout that the attention kernel wants decide it, not the number of processes.
        """
        return hashlib.sha256(json.dumps(self.everywhere(number)).encode()).hexdigest()[:16]

    def longest(self, num_epochs: int) -> int:
        """Positions of the longest batch of all epochs, for all processes."""
        # Counted, in a second for ten epochs of 72 000 clips: as many of the longest clips are far more.
        lengths = self.lengths.tolist()
        plans = chain.from_iterable(map(self._plan, range(num_epochs)))
        return max(sum(lengths[clip] for clip in batch) for batch in plans)

    def most_clips(self, num_epochs: int) -> int:
        """Clips of the batch of all epochs that has most."""
        if not self.max_tokens:
            return min(self.batch_size, self.num_clips)
        return max(map(len, chain.from_iterable(map(self._plan, range(num_epochs)))))

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

        def positions(batch: list[int]) -> int:
            lengths = self.lengths[batch]
            return int(lengths.sum() if self.balanced else lengths.max() * len(batch))

        ordered = sorted(self.everywhere(0), key=positions)
        chosen = [ordered[-1], *(ordered[(2 * place + 1) * len(ordered) // (2 * count)] for place in range(count))]
        return [[(0, clip) for clip in batch] for batch in chosen]

    def _plan(self, number: int) -> BatchPlan:
        """The batches of an epoch; the same in all processes, however many, and in all versions."""
        count, size = len(self.lengths), self.batch_size
        if self.seed is None:
            return _chunks(list(range(count)), size)
        random = np.random.default_rng([self.seed, number])
        order = random.permutation(count).tolist()
        for start, end, taken in self.drawn:
            dropped = set([clip for clip in order if start <= clip < end][taken:])
            order = [clip for clip in order if clip not in dropped]
        blurred = (random.uniform(1 - LENGTH_JITTER, 1 + LENGTH_JITTER, count) * self.lengths).tolist()
        if self.max_tokens:
            size = max(1, int(self.max_tokens // self.lengths.mean()))
        # Packed rows of as many positions as fit want no order: neighbors of any length fill them.
        buckets = _chunks(order, BUCKET_BATCHES * size)
        if not (self.max_tokens and self.balanced):
            buckets = [sorted(bucket, key=blurred.__getitem__) for bucket in buckets]
        if self.max_tokens:
            batches = self._filled(chain.from_iterable(buckets))
        else:
            divide = _dealt if self.balanced else _chunks
            batches = [batch for bucket in buckets for batch in divide(bucket, size)]
        return [batches[place] for place in random.permutation(len(batches)).tolist()]

    def _filled(self, clips: Iterable[int]) -> BatchPlan:
        """Batches of as many clips one after the other as `max_tokens` positions hold."""
        lengths, batches = self.lengths.tolist(), [list[int]()]
        total = longest = 0
        for clip in clips:
            total, longest = total + lengths[clip], max(longest, lengths[clip])
            size = total if self.balanced else round_up(longest, ROW_MULTIPLE) * (len(batches[-1]) + 1)
            if size > self.max_tokens // ROW_MULTIPLE * ROW_MULTIPLE and batches[-1]:
                batches.append([])
                total = longest = lengths[clip]
            batches[-1].append(clip)
        return batches


def _chunks(clips: list[int], size: int) -> BatchPlan:
    return [clips[at : at + size] for at in range(0, len(clips), size)]


def _dealt(clips: list[int], size: int) -> BatchPlan:
    """Sorted clips dealt to as many batches as hold `size` each, every second round in the other direction."""
    batches: BatchPlan = [[] for _ in range(math.ceil(len(clips) / size))]
    for number, turn in enumerate(_chunks(clips, len(batches))):
        for batch, clip in zip(batches if number % 2 == 0 else batches[::-1], turn, strict=False):
            batch.append(clip)
    return batches
