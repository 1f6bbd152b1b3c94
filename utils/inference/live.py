"""Speak pieces for a listener: chunks as soon as they are certain, no sentence beside one that is awaited."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from torch import Tensor

from utils.config import OUTPUT_RATE
from utils.inference.batch import Batch, Spoken, Utterance
from utils.inference.decode import CancelledError

SECONDS_AHEAD = 2.0
"""One sentence more is decoded side by side for each of these seconds of sound that the listener has in hand: each
slows the one that is being heard."""


def speak_live(
    batch: Batch, utterances: Sequence[Utterance], on_chunk: Callable[[int, Tensor], None]
) -> Iterator[Spoken]:
    """Speak utterances in order, streamed; an iterator that is closed drops what is left.

    Args:
        batch: decodes them.
        utterances: all of one text; their `on_chunk` is set here.
        on_chunk: given the index of an utterance and samples [1, n] of it; a later one may begin before one ends.

    Raises:
        CancelledError: one of them was cancelled.
    """
    given, first = [0.0] * len(utterances), 0.0

    def give(number: int, wav: Tensor) -> None:
        nonlocal first
        first = first or time.monotonic()
        given[number] += wav.size(1) / OUTPUT_RATE
        on_chunk(number, wav)

    for number, utterance in enumerate(utterances):
        utterance.on_chunk = partial(give, number)
    waiting, underway, before_s = deque(utterances), 0, 0.0
    try:
        for number, utterance in enumerate(utterances):
            while utterance.spoken is None:
                ahead_s = before_s + given[number] - (time.monotonic() - first) if first else 0.0
                if waiting and (not underway or underway <= ahead_s / SECONDS_AHEAD):
                    batch.add(waiting.popleft())
                    underway += 1
                underway -= len(batch.step())
                if utterance.is_dropped:
                    raise CancelledError
            before_s += given[number]
            yield utterance.spoken
    finally:
        for utterance in utterances:
            batch.drop(utterance)
