"""What a clip is to training, why it is none, and the clips of a run as one table in memory.

The table has numpy columns, of which a clip becomes an object when it is asked for. Loader processes are forked, so
they read the same pages as the trainer. N clips train.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from utils.errors import UserError
from utils.model.shapes import GptShape
from utils.options import CODE_SAMPLES, DATASET_RATE, MIN_CLIP_SECONDS
from utils.text.tokenizer import UNKNOWN, Tokenizer

_NO_TIMES = np.zeros((0, 2), dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class TrainingClip:
    """One clip as the model sees it."""

    audio: Path
    num_samples: int
    """Length at 22 050 Hz."""
    is_native: bool
    """A mono file at 22 050 Hz, of which parts can be read; anything else is decoded whole."""
    tokens: Tensor
    """Text token ids, [L] int32."""
    codes: NDArray[np.int16]
    """Audio codes, [M]."""
    speaker: str = ""
    """Who speaks, as the manifest says."""
    reading: NDArray[np.float32] = field(default_factory=lambda: _NO_TIMES)
    """Second and text token at each word's beginning and at the end, [W + 1, 2]; empty where no times are known."""

    @property
    def seconds(self) -> float:
        """Duration, in seconds."""
        return self.num_samples / DATASET_RATE

    def tokens_read(self) -> NDArray[np.float32]:
        """The text token, a fraction between two, that is spoken in the middle of each code, [M]; or empty."""
        if not len(self.reading):
            return np.zeros(0, dtype=np.float32)
        middles = (np.arange(len(self.codes)) + 0.5) * (CODE_SAMPLES / DATASET_RATE)
        return np.interp(middles, self.reading[:, 0], self.reading[:, 1]).astype(np.float32)


def limit_problems(shape: GptShape, *, max_audio_length: int, max_text_length: int) -> list[str]:
    """Limits of clips that exceed a model's position tables.

    Args:
        shape: of the model.
        max_audio_length: longest clip, in samples at 22 050 Hz.
        max_text_length: longest text, in tokens.
    """
    found, longest_audio = [], (shape.max_audio_tokens - 1) * CODE_SAMPLES
    if max_audio_length > longest_audio:
        found.append(f"max_audio_length is {max_audio_length} samples; this model takes {longest_audio}")
    if max_text_length > shape.max_text_tokens:
        found.append(f"max_text_length is {max_text_length} tokens; this model takes {shape.max_text_tokens}")
    return found


def length_problem(num_samples: int, most: int) -> str:
    """Why a clip of this length does not train where `most` samples do; empty where it does."""
    seconds = num_samples / DATASET_RATE
    if seconds < MIN_CLIP_SECONDS:
        return f"{seconds:.2f} s is shorter than {MIN_CLIP_SECONDS} s"
    if num_samples > most:
        return f"{seconds:.1f} s is longer than {most / DATASET_RATE:.1f} s"
    return ""


def tokens_of(text: str, tokenizer: Tokenizer, code: str, most: int | None = None) -> list[int]:
    """Text token ids of a clip.

    Args:
        text: its transcript.
        tokenizer: of the base.
        code: the language, as `check_language` gave it.
        most: tokens that it may have.

    Raises:
        UserError: the text cannot be read, has characters without a token, or is too long.
    """
    ids = tokenizer.encode(text, code)
    if tokenizer.token_id(UNKNOWN) in ids:
        raise UserError(what=f"the vocabulary lacks: {' '.join(tokenizer.unknown_characters(text, code))}")
    if most is not None and len(ids) > most:
        raise UserError(what=f"{len(ids)} text tokens are more than {most}")
    return ids


def reading_of(word_times: Sequence[float], starts: list[int] | None, seconds: float) -> NDArray[np.float32]:
    """See `TrainingClip.reading`; empty where the times do not fit the words or the recording.

    Args:
        word_times: second at which each word begins.
        starts: token with which each word begins, and the number of tokens.
        seconds: duration of the clip.
    """
    times = [*word_times, seconds]
    if starts is None or len(times) != len(starts) or times != sorted(times):
        return _NO_TIMES
    return np.array([times, starts], dtype=np.float32).T


class ClipRow(NamedTuple):
    """A clip that trains, once its codes are known."""

    audio: str
    content: str
    """Hash of the file."""
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
        audio, _, speakers, num_samples, native, tokens, readings = zip(*rows, strict=True)
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
    def num_alone(self) -> int:
        """Speakers with one clip only."""
        return int((np.bincount(self.speakers) == 1).sum())

    @property
    def num_timed(self) -> int:
        """Clips with word times that fit their text."""
        return int((self.readings.sizes > 0).sum())
