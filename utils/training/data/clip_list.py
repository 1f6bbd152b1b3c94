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

from utils.options import DATASET_RATE
from utils.training.data.clips import TrainingClip


class ClipRow(NamedTuple):
    """A clip that trains, once its codes are known."""

    audio: str
    speaker: str
    num_samples: int
    is_native: bool
    tokens: bytes
    """int32."""
    reading: bytes
    """float32."""


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


@dataclass(frozen=True, kw_only=True, eq=False)
class ClipList(Sequence[TrainingClip]):
    """Clips that train, in the order of their manifest."""

    paths: NDArray[np.bytes_]
    """Of the audio files, in the file system's encoding, [N]."""
    names: list[str]
    """Of the speakers."""
    speakers: NDArray[np.int32]
    """Place in `names` of each clip's speaker, [N]."""
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
    code_counts: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[ClipRow], codes: NDArray[np.int16], spans: Sequence[tuple[int, int]]) -> Self:
        """The table of clips whose codes begin at the first number of their span; the second is how many there are."""
        audio, speakers, num_samples, native, tokens, readings = zip(*rows, strict=True)
        names = {name: number for number, name in enumerate(dict.fromkeys(speakers))}
        starts, counts = np.array(spans, dtype=np.int64).T
        return cls(
            paths=np.array(list(map(os.fsencode, audio))),
            names=list(names),
            speakers=np.array([names[name] for name in speakers], dtype=np.int32),
            num_samples=np.array(num_samples, dtype=np.int32),
            native=np.array(native),
            tokens=Ragged.of(tokens, "<i4"),
            readings=Ragged.of(readings, "<f4"),
            codes=codes,
            code_starts=starts,
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
            audio=Path(os.fsdecode(self.paths[number])),
            num_samples=int(self.num_samples[number]),
            is_native=bool(self.native[number]),
            # Copies: the columns are not writable.
            tokens=torch.from_numpy(self.tokens.row(number).copy()),
            codes=self.codes_of(number),
            speaker=self.names[self.speakers[number]],
            reading=self.readings.row(number).reshape(-1, 2),
        )

    def __iter__(self) -> Iterator[TrainingClip]:
        return map(self.__getitem__, range(len(self)))

    def codes_of(self, number: int) -> NDArray[np.int16]:
        """Codes of a clip, [M]."""
        start = self.code_starts[number]
        return self.codes[start : start + self.code_counts[number]]

    def add_to(self, digest: "hashlib._Hash") -> None:
        """Hash each clip's file name, length, tokens and codes; checkpoints hold the result, so it never changes."""
        for number, num_samples in enumerate(self.num_samples.tolist()):
            digest.update(os.path.basename(self.paths[number]) + f" {num_samples}".encode())  # noqa: PTH119
            digest.update(self.tokens.row(number).data)
            digest.update(self.codes_of(number).data)

    def positions(self, more: int) -> NDArray[np.int64]:
        """Text tokens and codes of each clip together, and `more` positions, [N]."""
        return self.tokens.sizes + self.code_counts + more

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
        return int((np.bincount(self.speakers) == 1).sum())

    @property
    def num_timed(self) -> int:
        """Clips with word times that fit their text."""
        return int((self.readings.sizes > 0).sum())
