"""Speech as files and streams: mp3, opus, aac, flac, wav, and plain samples."""

import io
import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple, Protocol

import av
import numpy as np

from utils.options import OUTPUT_RATE

WAV_UNKNOWN = 0xFFFFFFFF
"""Size in the header of a WAV whose end is not known yet."""
OPUS_BITS, MP3_BITS, AAC_BITS = 48_000, 96_000, 96_000
"""Bits a second; speech of one channel at 24 000 Hz gains nothing by more."""
PACKET = 4096
"""Samples that go to an encoder at a time."""


class Encoder(Protocol):
    """Turns samples into the bytes of a file, bit by bit."""

    def add(self, pcm: bytes) -> bytes:
        """Bytes that are certain after these samples (16 bit, little-endian, one channel, 24 000 Hz)."""

    def finish(self) -> bytes:
        """The rest."""


class Format(NamedTuple):
    """A kind of sound file."""

    media_type: str
    encoder: Callable[[], Encoder]
    codec: str = ""
    """Name of the encoder in FFmpeg; empty where none is needed."""


class _PlainEncoder:
    """Samples as they are, perhaps behind a header."""

    def __init__(self, header: bytes = b"") -> None:
        self._header = header

    def add(self, pcm: bytes) -> bytes:
        header, self._header = self._header, b""
        return header + pcm

    def finish(self) -> bytes:
        return self.add(b"")


class _Sink(io.RawIOBase):
    """Where FFmpeg writes; it cannot go back, as nothing can that was sent."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        found, self._parts = b"".join(self._parts), []
        return found


class _Compressed:
    """By one of FFmpeg's encoders.

    Args:
        container: FFmpeg's name of it.
        codec: likewise.
        options: of the container.
        bits: a second; the codec's own choice when not given.
    """

    def __init__(self, container: str, codec: str, *, options: dict[str, str] | None = None, bits: int = 0) -> None:
        self._sink = _Sink()
        self._file: Any = av.open(self._sink, "w", format=container, options=options or {})
        stream: Any = self._file.add_stream(codec, rate=OUTPUT_RATE, layout="mono")
        if bits:
            stream.bit_rate = bits
        self._stream = stream
        self._samples = 0
        self._rest = b""

    def add(self, pcm: bytes) -> bytes:
        samples = np.frombuffer(pcm, dtype="<i2").astype(np.int16)
        for start in range(0, len(samples), PACKET):
            part = samples[None, start : start + PACKET]
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(part), format="s16", layout="mono")
            frame.sample_rate, frame.pts = OUTPUT_RATE, self._samples
            self._samples += part.shape[1]
            self._file.mux(self._stream.encode(frame))
        return self._sink.take()

    def finish(self) -> bytes:
        self._file.mux(self._stream.encode(None))
        self._file.close()
        return self._sink.take()


def _wav_header(num_bytes: int) -> bytes:
    total = num_bytes if num_bytes == WAV_UNKNOWN else num_bytes + 36
    form = struct.pack(
        "<4sI4s4sIHHIIHH", b"RIFF", total, b"WAVE", b"fmt ", 16, 1, 1, OUTPUT_RATE, 2 * OUTPUT_RATE, 2, 16
    )
    return form + struct.pack("<4sI", b"data", num_bytes)


FORMATS: dict[str, Format] = {
    "mp3": Format(
        "audio/mpeg",
        # The header of lengths would have to be written last, at the beginning.
        lambda: _Compressed("mp3", "libmp3lame", options={"write_xing": "0", "id3v2_version": "0"}, bits=MP3_BITS),
        "libmp3lame",
    ),
    # Pages of a fifth of a second: FFmpeg's own of a whole second would keep a listener waiting.
    "opus": Format(
        "audio/ogg",
        lambda: _Compressed("ogg", "libopus", options={"page_duration": "200000"}, bits=OPUS_BITS),
        "libopus",
    ),
    "aac": Format("audio/aac", lambda: _Compressed("adts", "aac", bits=AAC_BITS), "aac"),
    "flac": Format("audio/flac", lambda: _Compressed("flac", "flac"), "flac"),
    "wav": Format("audio/wav", lambda: _PlainEncoder(_wav_header(WAV_UNKNOWN))),
    "pcm": Format("audio/pcm", _PlainEncoder),
}
"""By the names of OpenAI's `response_format`."""


@cache
def usable_formats() -> tuple[str, ...]:
    """The formats for which this installation has an encoder."""
    return tuple(name for name, kind in FORMATS.items() if not kind.codec or _can_encode(kind.codec))


def _can_encode(codec: str) -> bool:
    try:
        av.codec.Codec(codec, "w")
    except (av.FFmpegError, ValueError):
        return False
    return True


def encode_whole(name: str, chunks: Iterable[bytes]) -> bytes:
    """A complete file of speech."""
    if name == "wav":
        pcm = b"".join(chunks)
        return _wav_header(len(pcm)) + pcm
    encoder = FORMATS[name].encoder()
    parts = [encoder.add(chunk) for chunk in chunks]
    return b"".join([*parts, encoder.finish()])
