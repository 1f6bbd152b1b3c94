"""The clips a run trains on, and the reason for each that it does not."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from utils.config import CODE_SAMPLES, DATASET_RATE, MIN_CLIP_SECONDS, TrainConfig
from utils.dataset.storage.manifest import Clip, read_manifest
from utils.errors import UserError
from utils.model.shapes import GptShape
from utils.text.tokenizer import UNKNOWN, Tokenizer
from utils.training.data.audio_files import AudioFiles

_NO_CODES = np.zeros(0, dtype=np.int16)
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


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A manifest's clips, sorted into those that train and those that do not."""

    clips: list[Clip]
    tokens: list[Tensor]
    """Token ids of each clip, [L] int32."""
    starts: list[list[int] | None]
    """Token with which each word of a clip begins, and their number; None where no word times are given or fit."""
    dropped: list[dict[str, Any]]
    """{clip, reason} of every other clip of the manifest."""


def select_clips(
    csv: Path, tokenizer: Tokenizer, language: str, progress: Callable[[str, int, int | None], None] | None = None
) -> Selection:
    """Read a manifest and tokenize it; text the model cannot read is dropped with its reason.

    Raises:
        UserError: the manifest cannot be read, names files that do not exist, or the language is not readable.
    """
    manifest = read_manifest(csv)
    _check_files(csv, manifest)
    code = tokenizer.check_language(language)
    clips, tokens, starts, dropped = [], [], [], []
    for number, clip in enumerate(manifest, start=1):
        if progress is not None:
            progress(f"tokenizing {csv.name}", number, len(manifest))
        try:
            ids = tokenizer.encode(clip.text, code)
        except UserError as error:
            dropped.append({"clip": clip.audio.name, "reason": error.what})
            continue
        if tokenizer.token_id(UNKNOWN) in ids:
            letters = " ".join(tokenizer.unknown_characters(clip.text, code))
            dropped.append({"clip": clip.audio.name, "reason": f"the vocabulary lacks: {letters}"})
            continue
        clips.append(clip)
        tokens.append(torch.tensor(ids, dtype=torch.int32))
        starts.append(tokenizer.word_starts(clip.text, code) if clip.word_times else None)
    return Selection(clips=clips, tokens=tokens, starts=starts, dropped=dropped)


def within_limits(
    selection: Selection,
    limits: ClipLimits,
    files: AudioFiles,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> tuple[list[TrainingClip], list[dict[str, Any]]]:
    """The clips that fit, still without codes, and {clip, reason} of all that do not, those dropped earlier included.

    Args:
        selection: what `select_clips` gave.
        limits: what a clip must fit.
        files: how long the recordings are.
        progress: called with (phase, clips done, clips in all).

    Raises:
        UserError: a recording cannot be read.
    """
    kept, dropped = [], list(selection.dropped)
    whole = zip(selection.clips, selection.tokens, selection.starts, strict=True)
    for number, (clip, tokens, starts) in enumerate(whole, start=1):
        if progress is not None:
            progress("reading clips", number, len(selection.clips))
        known = files.facts(clip.audio)
        reason = _misfit(len(tokens), known.num_samples, limits)
        if reason:
            dropped.append({"clip": clip.audio.name, "reason": reason})
            continue
        kept.append(
            TrainingClip(
                audio=clip.audio,
                num_samples=known.num_samples,
                is_native=known.is_native,
                tokens=tokens,
                codes=_NO_CODES,
                speaker=clip.speaker,
                reading=_reading(clip, starts, known.num_samples / DATASET_RATE),
            )
        )
    return kept, dropped


def _reading(clip: Clip, starts: list[int] | None, seconds: float) -> NDArray[np.float32]:
    """See `TrainingClip.reading`; empty where the times do not fit the words or the recording."""
    times = [*clip.word_times, seconds]
    if starts is None or len(times) != len(starts) or times != sorted(times):
        return _NO_TIMES
    return np.array([times, starts], dtype=np.float32).T


def _misfit(num_tokens: int, num_samples: int, limits: ClipLimits) -> str:
    seconds = num_samples / DATASET_RATE
    if seconds < MIN_CLIP_SECONDS:
        return f"{seconds:.2f} s is shorter than {MIN_CLIP_SECONDS} s"
    if num_samples > limits.max_audio_length:
        return f"{seconds:.1f} s is longer than {limits.max_audio_length / DATASET_RATE:.1f} s"
    if num_tokens > limits.max_text_length:
        return f"{num_tokens} text tokens are more than {limits.max_text_length}"
    return ""


def _check_files(csv: Path, manifest: list[Clip]) -> None:
    missing = [clip for clip in manifest if not clip.audio.is_file()]
    if missing:
        raise UserError(
            what=f"{len(missing)} of {len(manifest)} audio files are missing, the first is {missing[0].audio.name}",
            where=str(csv),
            fix="put the files back or correct the audio_file column",
        )


def limits_of(settled: TrainConfig) -> ClipLimits:
    """What clips must fit."""
    assert settled.max_audio_length and settled.max_text_length
    return ClipLimits(max_audio_length=settled.max_audio_length, max_text_length=settled.max_text_length)
