"""Read the sound track of a container with PyAV: its frames in the container's time, gaps as silence.

Shapes: C channels, n samples.
"""

import math
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import soundfile
from numpy.typing import NDArray

from utils.audio.sound_file import SoundFile
from utils.errors import UserError

Block = NDArray[np.float32]
"""Some samples of every channel, shape [C, n]."""
SAMPLE_RATES = (4_000, 384_000)
"""Lowest and highest sample rate that a recording of speech can have, in Hz."""
MAX_CHANNELS = 8
# Containers only: playlists (hls, dash, concat) would make FFmpeg open other files and addresses.
_CONTAINERS = (
    "wav,w64,flac,mp3,ogg,aac,aiff,caf,matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,mpegts,mpeg,asf,avi,flv,amr,amrnb,amrwb,"
    "ac3,eac3,wv,ape,tta,au,voc"
)
_BLOCK = 65_536
_OPTIONS = {"protocol_whitelist": "file", "format_whitelist": _CONTAINERS}
_OWN_ZERO = ("mov", "matroska")
"""Containers whose time begins at 0 whatever begins later; that of others begins with their first packet."""
_JITTER_S = 0.1
"""Time stamps are rounded, and clocks drift; a longer gap in a sound track is silence."""
_RESTART_S = 1.0
"""Time stamps that jump back by more are those of another recording, joined to this one."""


def unreadable(path: Path, what: str, *, fix: str = "") -> UserError:
    """The error for a recording that cannot be used; `what` continues the sentence that its name begins."""
    return UserError(what=f"{path.name} {what}", where=str(path), fix=fix or "convert it to WAV or FLAC, or remove it")


def has_sound(path: Path) -> bool:
    """Whether the content of a file is a recording, whatever its name."""
    try:
        with SoundFile(path):
            return True
    except (soundfile.LibsndfileError, TypeError, OSError):
        return _has_track(path)


def _has_track(path: Path) -> bool:
    """Whether a file is a container with a sound track that can be decoded."""
    try:
        with av.open(str(path.absolute()), options=_OPTIONS) as container:
            return any(track.codec_context is not None and track.rate for track in container.streams.audio)
    except (av.FFmpegError, ValueError, OSError):
        return False


def track_end(path: Path, *, own: bool) -> float | None:
    """Second at which the sound track ends by its header; with `own` not where that speaks of a film."""
    try:
        with av.open(str(path.absolute()), options=_OPTIONS) as container:
            if not container.streams.audio:
                return None
            track, zero = container.streams.audio[0], _zero(container)
            if track.duration is not None and track.time_base is not None:
                return float((track.duration + (track.start_time or 0)) * track.time_base) - zero
            if container.duration is None or (own and len(container.streams) > 1):
                return None
            return container.duration / av.time_base
    except (av.FFmpegError, ValueError, OSError):
        return None


def track_blocks(
    path: Path, start_s: float, lost_s: list[float], *, exact: bool
) -> tuple[Generator[Block, None, None], int]:
    """What PyAV reads from a second of the container's time on, and its sample rate in Hz.

    Raises:
        UserError: it cannot be read; also midway.
    """
    blocks = _av_sound(path, start_s, lost_s, exact=exact)
    rate = next(blocks)
    assert isinstance(rate, int)
    return cast("Generator[Block, None, None]", blocks), rate


def _av_sound(
    path: Path, start_s: float, lost_s: list[float], *, exact: bool, jump: bool = True
) -> Generator[Block | int, None, None]:
    """The sample rate, then the blocks."""
    try:
        # An absolute path cannot be mistaken for a protocol such as concat:.
        with av.open(str(path.absolute()), options=_OPTIONS) as container:
            if not container.streams.audio:
                raise unreadable(path, "has no audio stream")
            zero, begin_s = _zero(container), 0.0
            if jump := jump and start_s > 1:
                # A second early: the first frames after a jump are not yet what they should be in some codecs.
                container.seek(int((start_s - 1 + zero) * av.time_base), backward=True)
            lost: list[float] = []
            first = next(frames := _frames(container, lost), None)
            if jump and (begin_s := _time(first, zero, math.inf)) > start_s:
                # Too far: what was jumped over may have been sound.
                yield from _av_sound(path, start_s, lost_s, exact=exact, jump=False)
                return
            if not isinstance(first, av.AudioFrame):
                raise unreadable(path, "holds no samples")
            # The first frame knows better than the header, which HE-AAC writes with half the rate.
            rate = first.sample_rate
            check_format(path, rate, first.layout.nb_channels)
            yield rate
            delay_s = _time(first, zero, 0.0)
            if not exact and abs(delay_s) <= _JITTER_S:
                zero += delay_s
            end_s = math.inf if container.duration is None else container.duration / av.time_base + _RESTART_S
            blocks = _timed(path, chain([first], frames), rate, zero=zero, begin_s=begin_s, end_s=end_s)
            try:
                yield from skip(blocks, round((start_s - begin_s) * rate))
            finally:
                lost_s += lost
    except (av.FFmpegError, ValueError) as error:
        # Without FFmpeg's number and path.
        said = getattr(error, "strerror", None) or error
        raise unreadable(path, f"cannot be read as audio ({said})") from error


def _zero(container: Any) -> float:
    """The time stamp, in seconds, that players show as 0."""
    start_s, length_s = (container.start_time or 0) / av.time_base, (container.duration or 0) / av.time_base
    has_own = container.format.name.startswith(_OWN_ZERO) and start_s < length_s
    # A part of a live stream has its times, which begin anywhere.
    return 0.0 if has_own else max(0.0, start_s)


def _time(frame: Any, zero: float, default: float) -> float:
    return default if not isinstance(frame, av.AudioFrame) or frame.time is None else frame.time - zero


def _frames(container: Any, lost_s: list[float]) -> Iterator[Any]:
    """The frames of a container's first audio stream, and between them the seconds of what is damaged, as floats.

    Players continue behind a damaged packet, and so does this. Damage before the first frame has no place.

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


def _timed(
    path: Path, frames: Iterator[Any], sample_rate: int, *, zero: float, begin_s: float, end_s: float
) -> Iterator[Block]:
    """Frames as blocks that follow one another from `begin_s` on, each at its time: gaps are silent."""
    at, damaged_s, allowed, num_channels = round(begin_s * sample_rate), 0.0, 0.0, 1
    for frame in frames:
        if isinstance(frame, float):
            damaged_s += frame
            continue
        if frame.sample_rate != sample_rate:
            raise unreadable(
                path, f"changes its sample rate from {sample_rate} to {frame.sample_rate} Hz within the file"
            )
        samples = frame.to_ndarray()
        if not frame.format.is_planar:
            samples = samples.reshape(-1, frame.layout.nb_channels).T
        block, num_channels = _as_float(samples), len(samples)
        time_s = _time(frame, zero, at / sample_rate + damaged_s)
        ahead = round(time_s * sample_rate) - at
        if time_s > end_s or ahead < -_RESTART_S * sample_rate:
            zero, ahead = zero + ahead / sample_rate, round(damaged_s * sample_rate)
        if abs(ahead) > allowed or (damaged_s and ahead > 0):
            yield from _silence(num_channels, ahead)
            block, at = block[:, max(0, -ahead) :], at + max(0, ahead)
        if block.shape[1]:
            yield block
        at, damaged_s, allowed = at + block.shape[1], 0.0, _JITTER_S * sample_rate
    yield from _silence(num_channels, round(damaged_s * sample_rate))


def _silence(num_channels: int, count: int) -> Iterator[Block]:
    for done in range(0, count, _BLOCK):
        yield np.zeros((num_channels, min(_BLOCK, count - done)), dtype=np.float32)


def skip(blocks: Iterable[Block], count: int) -> Iterator[Block]:
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


def check_format(path: Path, sample_rate: int, num_channels: int) -> None:
    lowest, highest = SAMPLE_RATES
    if not lowest <= sample_rate <= highest:
        raise unreadable(path, f"has a sample rate of {sample_rate} Hz, outside {lowest} to {highest}")
    if not 1 <= num_channels <= MAX_CHANNELS:
        raise unreadable(path, f"has {num_channels} channels, more than {MAX_CHANNELS}")
