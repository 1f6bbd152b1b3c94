"""Decode any recording, or a part of it, to mono float32 without a system ffmpeg: soundfile first, then PyAV.

Shapes: T samples, C channels.
"""

import logging
import math
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import av
import numpy as np
import soundfile
import torch
from numpy.typing import NDArray
from torch import Tensor

from utils.audio.resample import resample
from utils.audio.riff import data_lengths
from utils.config import Channel
from utils.errors import UserError

Block = NDArray[np.float32]
"""Some samples of every channel, shape [C, n]."""

log = logging.getLogger(__name__)

# fmt: off
AUDIO_SUFFIXES = (
    ".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".m4a", ".aac", ".mp4", ".webm", ".aiff", ".aif", ".mkv", ".mov",
)
# fmt: on
"""File name endings that are taken for recordings, the likeliest first."""
SAMPLE_RATES = (4_000, 384_000)
"""Lowest and highest sample rate that a recording of speech can have, in Hz."""
MAX_CHANNELS = 8
LOUDEST = 8.0
"""Floating-point audio lies in [-1, 1]; some overshoot is normal, integers stored as floats are not."""

# Containers only: playlists (hls, dash, concat) would make FFmpeg open other files and addresses.
_CONTAINERS = "wav,w64,flac,mp3,ogg,aac,aiff,caf,matroska,webm,mov,mp4,m4a,3gp,3g2,mj2"
_BLOCK, _HEAD = 65_536, 8_192
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

    Args:
        path: wav, flac, mp3, ogg, opus, m4a, aac, mp4, webm or aiff; the content decides, not the name.
        start_s: where to begin, in seconds; what lies before is skipped, not decoded, where the format allows.
        max_seconds: decoding stops soon after this many seconds, so that an hour of sound costs no more
            memory than a clip; the result is then longer than this, but not complete.
        channel: which channel to take; `right` of a mono recording is its only one.
        lost_s: gets the length of each damaged part, in seconds. Where its place is known it is silent in the result,
            so that all else keeps its time; at the end it is what the header announces and nobody can read.

    Returns:
        Mono float32, nominally in [-1, 1], shape [1, T] with T > 0, and its sample rate in Hz.

    Raises:
        UserError: the file is missing, empty, not readable as sound, has no audio stream, holds NaN or infinite
            samples, or has a sample rate or channel count that no recording of speech has.
    """
    _check_file(path)
    lost = [] if lost_s is None else lost_s
    try:
        wav, rate = _decode_soundfile(path, start_s, max_seconds, channel)
    except (soundfile.LibsndfileError, TypeError) as error:
        # TypeError is soundfile's answer to names such as take.raw, whose format it cannot guess.
        log.debug("soundfile cannot read %s (%s); trying PyAV", path, error)
        wav, rate = _decode_av(path, start_s, max_seconds, channel, lost)
    if lost_s is not None:
        announced, end = _announced(path), start_s + (max_seconds or math.inf)
        missing = min(announced, end) - start_s - wav.shape[1] / rate
        if missing > _MISCOUNTED_S + 0.001 * announced:
            lost_s.append(missing)
    return wav, rate


def unreadable(path: Path, what: str, *, fix: str = "") -> UserError:
    """The error for a recording that cannot be used; `what` continues the sentence that its name begins."""
    return UserError(what=f"{path.name} {what}", where=str(path), fix=fix or "convert it to WAV or FLAC, or remove it")


def stream(path: Path) -> Iterator[tuple[Tensor, int]]:
    """A recording in parts of at most some seconds, channels averaged, so that its length does not matter.

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
        with soundfile.SoundFile(path) as sound:
            if sound.format == "RAW":
                raise TypeError("headerless audio")
            _check_format(path, sound.samplerate, sound.channels)
            for part, rate in _parts(path, _soundfile_blocks(sound), sound.samplerate):
                done += part.shape[1]
                yield part, rate
            return
    except (soundfile.LibsndfileError, TypeError) as error:
        log.debug("soundfile cannot read %s (%s); trying PyAV", path, error)
    options = {"protocol_whitelist": "file", "format_whitelist": _CONTAINERS}
    try:
        with av.open(str(path.absolute()), options=options) as container:
            if not container.streams.audio:
                raise unreadable(path, "has no audio stream")
            frames = _frames(container, [])
            first = next(frames, None)
            if not isinstance(first, av.AudioFrame):
                raise unreadable(path, "holds no samples")
            _check_format(path, first.sample_rate, first.layout.nb_channels)
            # What came before the damage that stopped soundfile was given already.
            blocks = _skip(_av_blocks(path, chain([first], frames), first.sample_rate), done)
            yield from _parts(path, blocks, first.sample_rate)
    except (av.FFmpegError, ValueError) as error:
        raise unreadable(path, f"cannot be read as audio ({_said(error)})") from error


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
    """Length of a recording in seconds by its header; None where it has none."""
    try:
        return float(soundfile.info(path).duration)
    except (soundfile.LibsndfileError, TypeError):
        pass
    try:
        with av.open(
            str(path.absolute()), options={"protocol_whitelist": "file", "format_whitelist": _CONTAINERS}
        ) as file:
            return None if file.duration is None else file.duration / av.time_base
    except (av.FFmpegError, ValueError, OSError):
        return None


def _announced(path: Path) -> float:
    """Length in seconds that a recording itself declares; 0 where it can only be guessed from its size."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    # MPEG audio is one frame after another; only Xing's header tells how many there are.
    is_mpeg = head[:1] == b"\xff" or head[:3] == b"ID3"
    return 0.0 if is_mpeg and not (b"Xing" in head or b"Info" in head) else duration(path) or 0.0


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise unreadable(path, "does not exist" if not path.exists() else "is not a file", fix="correct the path")
    if path.stat().st_size == 0:
        raise unreadable(path, "is empty (0 bytes)")
    try:
        lengths = data_lengths(path)
    except OSError as error:
        raise unreadable(path, f"cannot be opened: {error.strerror}", fix="check its permissions") from error
    if lengths and lengths.held < _WHOLE * lengths.announced:
        share = f"{lengths.held / lengths.announced:.0%} of the audio that its header declares"
        raise unreadable(path, f"is truncated: it contains {share}", fix="copy the original file again")


def _decode_soundfile(path: Path, start_s: float, max_seconds: float | None, channel: Channel) -> tuple[Tensor, int]:
    with soundfile.SoundFile(path) as sound:
        if sound.format == "RAW":
            # libsndfile takes some file names for headerless telephone audio, whatever the content.
            raise TypeError("headerless audio")
        _check_format(path, sound.samplerate, sound.channels)
        if start_s > 0:
            sound.seek(min(round(start_s * sound.samplerate), sound.frames))
        return _collect(path, _soundfile_blocks(sound), sound.samplerate, max_seconds, channel)


def _soundfile_blocks(sound: soundfile.SoundFile) -> Iterator[Block]:
    while len(block := sound.read(_BLOCK, dtype="float32", always_2d=True)):
        yield block.T


def _decode_av(
    path: Path, start_s: float, max_seconds: float | None, channel: Channel, lost_s: list[float]
) -> tuple[Tensor, int]:
    options = {"protocol_whitelist": "file", "format_whitelist": _CONTAINERS}
    try:
        # An absolute path cannot be mistaken for a protocol such as concat:.
        with av.open(str(path.absolute()), options=options) as container:
            if not container.streams.audio:
                raise unreadable(path, "has no audio stream")
            if start_s > 1:
                # A second early: the first frames after a jump are not yet what they should be in some codecs.
                container.seek(int((start_s - 1) * av.time_base), backward=True)
            frames = _frames(container, lost_s)
            first = next(frames, None)
            if not isinstance(first, av.AudioFrame):
                raise unreadable(path, "holds no samples")
            # The first frame knows better than the header, which HE-AAC writes with half the rate.
            _check_format(path, first.sample_rate, first.layout.nb_channels)
            blocks = _av_blocks(path, chain([first], frames), first.sample_rate)
            begin = first.time or 0.0
            blocks = _skip(blocks, round(max(0.0, start_s - begin) * first.sample_rate) if start_s > 0 else 0)
            return _collect(path, blocks, first.sample_rate, max_seconds, channel)
    except (av.FFmpegError, ValueError) as error:
        raise unreadable(path, f"cannot be read as audio ({_said(error)})") from error


def _said(error: Exception) -> str:
    """An error of FFmpeg without its number and path."""
    return str(getattr(error, "strerror", None) or error)


def _frames(container: Any, lost_s: list[float]) -> Iterator[Any]:
    """The frames of a container's first audio stream, and between them the seconds of what is damaged, as floats.

    Players go on behind a damaged packet, and so does this. Damage before the first frame has no place.

    Raises:
        ValueError: most of it is damaged, as of what is encrypted; the rest would be noise.
    """
    missing = whole = damaged = 0.0
    packets = container.demux(container.streams.audio[0])
    while True:
        packet = None
        try:
            packet = next(packets, None)
            frames = [] if packet is None else packet.decode()
        except av.InvalidDataError:
            if packet is None:
                break  # the container itself is damaged from here on
            length = float((packet.duration or 0) * (packet.time_base or 0))
            missing, damaged = missing + length, damaged + length
            continue
        if packet is None:
            break
        for frame in frames:
            if missing and whole:
                lost_s.append(missing)
                yield missing
            missing, whole = 0.0, whole + frame.samples / frame.sample_rate
            yield frame
    if damaged > whole:
        raise ValueError("most of it is damaged")
    if missing:
        lost_s.append(missing)
        yield missing


def _av_blocks(path: Path, frames: Iterator[Any], sample_rate: int) -> Iterator[Block]:
    num_channels = 1
    for frame in frames:
        if isinstance(frame, float):
            yield np.zeros((num_channels, round(frame * sample_rate)), dtype=np.float32)
            continue
        num_channels = frame.layout.nb_channels
        if frame.sample_rate != sample_rate:
            raise unreadable(
                path, f"changes its sample rate from {sample_rate} to {frame.sample_rate} Hz within the file"
            )
        samples = frame.to_ndarray()
        if not frame.format.is_planar:
            samples = samples.reshape(-1, frame.layout.nb_channels).T
        yield _as_float(samples)


def _skip(blocks: Iterable[Block], count: int) -> Iterator[Block]:
    """Blocks without their first `count` samples."""
    for block in blocks:
        if block.shape[1] > count:
            yield block[:, count:]
        count = max(0, count - block.shape[1])


def _as_float(samples: NDArray[Any]) -> Block:
    """Samples of any type as float32 in [-1, 1]; unsigned 8 bit has its zero at 128."""
    scaled: Block = samples.astype(np.float32)
    if samples.dtype == np.uint8:
        scaled -= 128
        scaled /= 128
    elif samples.dtype.kind == "i":
        scaled /= -float(np.iinfo(samples.dtype).min)
    return scaled


def _check_format(path: Path, sample_rate: int, num_channels: int) -> None:
    lowest, highest = SAMPLE_RATES
    if not lowest <= sample_rate <= highest:
        raise unreadable(path, f"has a sample rate of {sample_rate} Hz, outside {lowest} to {highest}")
    if not 1 <= num_channels <= MAX_CHANNELS:
        raise unreadable(path, f"has {num_channels} channels, more than {MAX_CHANNELS}")


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
