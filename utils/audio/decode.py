"""Decode any recording, or a part of it, to mono float32 without a system ffmpeg: soundfile first, then PyAV.

Shapes: T samples, C channels.
"""

import logging
import math
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray
from torch import Tensor

from utils.audio.container import Block, check_format, skip, track_blocks, track_end, unreadable
from utils.audio.resample import resample
from utils.audio.sound_file import SoundFile, data_lengths, sound_seconds
from utils.options import Channel

log = logging.getLogger(__name__)

LOUDEST = 8.0
"""Floating-point audio lies in [-1, 1]; some overshoot is normal, integers stored as floats are not."""

_BLOCK, _HEAD = 65_536, 8_192
_ZEROS = 65_536
"""Bytes of zeros that no container begins with."""
_MISCOUNTED_S = 0.1
"""Headers of compressed files count a frame or two of silence more or less than there is."""
_WHOLE = 0.99
"""Of the samples that a WAV announces: some programs miscount by a few, what was cut off lacks more."""


def load_audio(path: Path, sample_rate: int, *, max_seconds: float | None = None) -> Tensor:
    """A recording, or its beginning, at the rate asked for.

    Args:
        path: a recording in any format that `decode` reads.
        sample_rate: rate of the result, in Hz.
        max_seconds: decoding stops soon after this many seconds, see `decode`.

    Returns:
        Mono float32, nominally in [-1, 1], shape [1, T]; a little longer than `max_seconds` where that cut it.

    Raises:
        UserError: the recording cannot be used, see `decode`.
    """
    wav, source_rate = decode(path, max_seconds=max_seconds)
    return resample(wav, source_rate, sample_rate)


def decode(
    path: Path,
    *,
    start_s: float = 0.0,
    max_seconds: float | None = None,
    channel: Channel = "mix",
    lost_s: list[float] | None = None,
) -> tuple[Tensor, int]:
    """The samples of a recording, as one channel.

    Seconds are those of the container, as players show them: where a sound track begins late or has a gap, it is
    silent. From the very beginning, a delay of less than 0.1 s is dropped.

    Args:
        path: wav, flac, mp3, ogg, opus, m4a, aac, mp4, webm or aiff; the content decides, not the name.
        start_s: where to begin, in seconds; what lies before is skipped, not decoded, where the format allows.
        max_seconds: decoding stops soon after this many seconds, so that an hour of sound costs no more
            memory than a clip; the result is then longer than this, but not complete.
        channel: which channel to take; `right` of a mono recording is its only one.
        lost_s: gets the length of each damaged part, in seconds. Where its place is known it is silent in the result,
            so that all else keeps its time; at the end it is what the header announces and cannot be read.

    Returns:
        Mono float32, nominally in [-1, 1], shape [1, T] with T > 0, and its sample rate in Hz.

    Raises:
        UserError: the file is missing, empty, not readable as sound, has no audio stream, holds NaN or infinite
            samples, or has a sample rate or channel count that no recording of speech has.
    """
    _check_file(path)
    lost = [] if lost_s is None else lost_s
    try:
        with SoundFile(path) as sound:
            check_format(path, sound.samplerate, sound.channels)
            if start_s > 0:
                sound.seek(min(round(start_s * sound.samplerate), sound.frames))
            wav, rate = _collect(path, _soundfile_blocks(sound), sound.samplerate, max_seconds, channel)
            lost += [sound.damaged_s] * (sound.damaged_s > 0)
    except (soundfile.LibsndfileError, TypeError) as error:
        # TypeError is soundfile's answer to names such as take.raw, whose format it cannot guess.
        log.debug("soundfile cannot read %s (%s); trying PyAV", path, error)
        blocks, rate = track_blocks(path, start_s, lost, exact=start_s > 0)
        with closing(blocks):
            wav, rate = _collect(path, blocks, rate, max_seconds, channel)
    if lost_s is not None:
        announced, end = _announced(path), start_s + (max_seconds or math.inf)
        missing = min(announced, end) - start_s - wav.shape[1] / rate
        if missing > _MISCOUNTED_S + 0.001 * announced:
            lost_s.append(missing)
    return wav, rate


def stream(path: Path) -> Iterator[tuple[Tensor, int]]:
    """A recording in parts of at most some seconds, channels averaged, so that its length does not matter.

    The first part begins at 0 of the container's time, see `decode`.

    Args:
        path: as for `decode`.

    Yields:
        Mono float32, [1, n], and the sample rate in Hz, which stays the same.

    Raises:
        UserError: as for `decode`; also midway, when what follows is damaged.
    """
    _check_file(path)
    done = 0
    try:
        with SoundFile(path) as sound:
            check_format(path, sound.samplerate, sound.channels)
            for part, rate in _parts(path, _soundfile_blocks(sound), sound.samplerate):
                done += part.shape[1]
                yield part, rate
            return
    except (soundfile.LibsndfileError, TypeError) as error:
        log.debug("soundfile cannot read %s (%s); trying PyAV", path, error)
    # What came before the damage that stopped soundfile was given already.
    blocks, rate = track_blocks(path, 0.0, [], exact=True)
    yield from _parts(path, skip(blocks, done), rate)


def _parts(path: Path, blocks: Iterable[Block], sample_rate: int) -> Iterator[tuple[Tensor, int]]:
    """Blocks of shape [C, n] as [1, n], small ones joined."""
    waiting: list[Block] = []
    for block in blocks:
        waiting.append(block.mean(axis=0))
        if sum(map(len, waiting)) >= _BLOCK:
            yield _checked(path, np.concatenate(waiting)), sample_rate
            waiting = []
    if waiting:
        yield _checked(path, np.concatenate(waiting)), sample_rate


def _checked(path: Path, samples: NDArray[np.float32]) -> Tensor:
    # Not abs(), which copies; both are NaN where a sample is.
    peak = max(float(samples.max(initial=0.0)), -float(samples.min(initial=0.0)))
    if not np.isfinite(peak):
        raise unreadable(path, "contains samples that are not finite (NaN or infinite)")
    if peak > LOUDEST:
        raise unreadable(path, f"has samples up to {peak:.0f}; floating-point audio must be between -1 and 1")
    return torch.from_numpy(samples)[None]


def duration(path: Path) -> float | None:
    """Second at which the sound of a recording ends by its header, see `decode`; None where it has none."""
    seconds = sound_seconds(path)
    return track_end(path, own=False) if seconds is None else seconds


def _announced(path: Path) -> float:
    """Length in seconds that a recording itself declares; 0 where it can only be guessed from its size."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    # MPEG audio is one frame after another; only Xing's header tells how many there are.
    if (head[:1] == b"\xff" or head[:3] == b"ID3") and not (b"Xing" in head or b"Info" in head):
        return 0.0
    seconds = sound_seconds(path)
    return track_end(path, own=True) or 0.0 if seconds is None else seconds


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise unreadable(path, "does not exist" if not path.exists() else "is not a file", fix="correct the path")
    if path.stat().st_size == 0:
        raise unreadable(path, "is empty (0 bytes)")
    try:
        announced, held = data_lengths(path) or (0, 0)
        with path.open("rb") as file:
            # FFmpeg reads gigabytes of zeros for a first frame.
            if path.stat().st_size > _ZEROS and not any(file.read(_ZEROS)):
                raise unreadable(path, "begins with zeros, as a download that did not end", fix="copy it again")
    except OSError as error:
        raise unreadable(path, f"cannot be opened: {error.strerror}", fix="check its permissions") from error
    if held < _WHOLE * announced:
        share = f"{held / announced:.0%} of the audio that its header declares"
        raise unreadable(path, f"is truncated: it contains {share}", fix="copy the original file again")


def _soundfile_blocks(sound: SoundFile) -> Iterator[Block]:
    while len(block := sound.read(_BLOCK, dtype="float32", always_2d=True)):
        yield block.T


def _collect(
    path: Path, blocks: Iterable[Block], sample_rate: int, max_seconds: float | None, channel: Channel
) -> tuple[Tensor, int]:
    """Join blocks of shape [C, n] into [1, T], stopping once `max_seconds` is exceeded."""
    limit = float("inf") if max_seconds is None else max_seconds * sample_rate
    parts: list[Block] = []
    num_samples = 0
    for block in blocks:
        parts.append(_chosen(block, channel))
        num_samples += block.shape[1]
        if num_samples > limit:
            break
    if num_samples == 0:
        raise unreadable(path, "holds no samples")
    channels = np.concatenate(parts, axis=1)
    samples = channels[np.square(channels).sum(axis=1).argmax()] if len(channels) > 1 else channels[0]
    return _checked(path, samples), sample_rate


def _chosen(block: Block, channel: Channel) -> Block:
    """The channel wanted, [1, n]; all of them where which is louder depends on the whole recording."""
    if len(block) == 1 or channel == "louder":
        return block
    if channel == "mix":
        return block.mean(axis=0, keepdims=True)
    return block[:1] if channel == "left" else block[1:2]
