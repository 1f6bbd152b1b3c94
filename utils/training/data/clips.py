"""What a clip is to training, and why it is none."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from utils.config import TrainConfig
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


@dataclass(frozen=True, kw_only=True)
class ClipLimits:
    """What a clip must fit to be trained on."""

    max_audio_length: int
    """Samples at 22 050 Hz."""
    max_text_length: int
    """Tokens."""

    def problems(self, shape: GptShape) -> list[str]:
        """Limits that exceed the model's position tables."""
        found = []
        longest_audio = (shape.max_audio_tokens - 1) * CODE_SAMPLES
        if self.max_audio_length > longest_audio:
            found.append(f"max_audio_length is {self.max_audio_length} samples; this model takes {longest_audio}")
        if self.max_text_length > shape.max_text_tokens:
            found.append(f"max_text_length is {self.max_text_length} tokens; this model takes {shape.max_text_tokens}")
        return found


def length_problem(num_samples: int, limits: ClipLimits) -> str:
    """Why a clip of this length does not train; empty where it does."""
    seconds = num_samples / DATASET_RATE
    if seconds < MIN_CLIP_SECONDS:
        return f"{seconds:.2f} s is shorter than {MIN_CLIP_SECONDS} s"
    if num_samples > limits.max_audio_length:
        return f"{seconds:.1f} s is longer than {limits.max_audio_length / DATASET_RATE:.1f} s"
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


def limits_of(settled: TrainConfig) -> ClipLimits:
    """What clips must fit."""
    assert settled.max_audio_length and settled.max_text_length
    return ClipLimits(max_audio_length=settled.max_audio_length, max_text_length=settled.max_text_length)
