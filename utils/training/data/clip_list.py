"""The clips of a run as one table in memory: numpy columns, of which a clip becomes an object when it is asked for.

Loader processes are forked, so they read the same pages as the trainer. N clips train.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import numpy as np
import torch
from numpy.typing import NDArray

from utils.config import DATASET_RATE
from utils.training.data.clips import TrainingClip

MOST_POSITIONS = np.iinfo(np.int16).max
"""No model has more."""


class Ragged(NamedTuple):
    """A list of numbers for each clip, all of them one after the other."""

    values: NDArray[Any]
    starts: NDArray[np.int64]
    """Where each clip's list begins, and the end of the last one, [N + 1]."""

    @classmethod
    def of(cls, lists: Sequence[bytes], dtype: str) -> Self:
        """From the bytes of each list."""
        starts = np.cumsum([0, *map(len, lists)]) // np.dtype(dtype).itemsize
        return cls(np.frombuffer(b"".join(lists), dtype=dtype), starts)

    def row(self, number: int) -> NDArray[Any]:
        """The list of a clip."""
        return self.values[self.starts[number] : self.starts[number + 1]]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Numbers in each list, [N]."""
        return np.diff(self.starts)


class Numbered(NamedTuple):
    """A text for each clip, of which many have the same."""

    texts: list[str]
    numbers: NDArray[np.int32]
    """Place in `texts`, [N]."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        known: dict[str, int] = {}
        numbers = np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.int32)
        return cls(list(known), numbers)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClipList(Sequence[TrainingClip]):
    """Clips that train, in the order of their manifest."""

    folders: Numbered
    """Of the audio files."""
    names: Ragged
    """Of the audio files, in the file system's encoding."""
    speakers: Numbered
    num_samples: NDArray[np.int32]
    """Length of each clip at 22 050 Hz, [N]."""
    native: NDArray[np.bool_]
    """`TrainingClip.is_native`, [N]."""
    tokens: Ragged
    """Text token ids, int32."""
    readings: Ragged
    """`TrainingClip.reading`, one pair after the other, float32."""
    codes: NDArray[np.int16]
    """Codes of all clips, and maybe of others, mapped from the code cache."""
    code_starts: NDArray[np.int64]
    """Where in `codes` each clip's begin, [N]."""
    code_counts: NDArray[np.int32]

    @classmethod
    def of(cls, clips: Sequence[TrainingClip]) -> Self:
        """A table of clips that are objects already."""
        counts = np.array([len(clip.codes) for clip in clips], dtype=np.int32)
        return cls(
            folders=Numbered.of([str(clip.audio.parent) for clip in clips]),
            names=Ragged.of([os.fsencode(clip.audio.name) for clip in clips], "u1"),
            speakers=Numbered.of([clip.speaker for clip in clips]),
            num_samples=np.array([clip.num_samples for clip in clips], dtype=np.int32),
            native=np.array([clip.is_native for clip in clips]),
            tokens=Ragged.of([clip.tokens.int().numpy().tobytes() for clip in clips], "<i4"),
            readings=Ragged.of([clip.reading.tobytes() for clip in clips], "<f4"),
            codes=np.concatenate([clip.codes for clip in clips]),
            code_starts=np.cumsum(counts, dtype=np.int64) - counts,
            code_counts=counts,
        )

    def __len__(self) -> int:
        return len(self.num_samples)

    @overload
    def __getitem__(self, number: int) -> TrainingClip: ...
    @overload
    def __getitem__(self, number: slice) -> list[TrainingClip]: ...
    def __getitem__(self, number: int | slice) -> TrainingClip | list[TrainingClip]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        return TrainingClip(
            audio=self.path(number),
            num_samples=int(self.num_samples[number]),
            is_native=bool(self.native[number]),
            # Copies: the columns are not writable.
            tokens=torch.from_numpy(self.tokens.row(number).copy()),
            codes=self.codes_of(number),
            speaker=self.speakers.texts[self.speakers.numbers[number]],
            reading=self.readings.row(number).reshape(-1, 2),
        )

    def __iter__(self) -> Iterator[TrainingClip]:
        return map(self.__getitem__, range(len(self)))

    def path(self, number: int) -> Path:
        """The audio file of a clip."""
        return Path(self.folders.texts[self.folders.numbers[number]], os.fsdecode(self.names.row(number).tobytes()))

    def codes_of(self, number: int) -> NDArray[np.int16]:
        """Codes of a clip, [M]."""
        start = self.code_starts[number]
        return self.codes[start : start + self.code_counts[number]]

    def add_to(self, digest: "hashlib._Hash") -> None:
        """Hash each clip's file name, length, tokens and codes; checkpoints hold the result, so it never changes."""
        for number, num_samples in enumerate(self.num_samples.tolist()):
            digest.update(self.names.row(number).data)
            digest.update(f" {num_samples}".encode())
            digest.update(self.tokens.row(number).data)
            digest.update(self.codes_of(number).data)

    def positions(self, more: int) -> NDArray[np.int16]:
        """Text tokens and codes of each clip together, and `more` positions, [N]."""
        return np.minimum(self.tokens.sizes + self.code_counts + more, MOST_POSITIONS).astype(np.int16)

    @property
    def longest(self) -> int:
        """Number of the longest clip, the first of several."""
        return int(self.num_samples.argmax())

    @property
    def seconds(self) -> float:
        """Duration of all clips together."""
        return int(self.num_samples.sum(dtype=np.int64)) / DATASET_RATE

    @property
    def num_alone(self) -> int:
        """Speakers with one clip only."""
        return int((np.bincount(self.speakers.numbers) == 1).sum())

    @property
    def num_timed(self) -> int:
        """Clips with word times that fit their text."""
        return int((self.readings.sizes > 0).sum())

    @property
    def num_bytes(self) -> int:
        """Memory of the columns; codes are mapped from disk."""
        ragged = (array for one in (self.names, self.tokens, self.readings) for array in one)
        plain = (self.folders.numbers, self.speakers.numbers, self.num_samples, self.native)
        return sum(array.nbytes for array in (*ragged, *plain, self.code_starts, self.code_counts))
