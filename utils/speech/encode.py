"""Speech as files and streams by FFmpeg's encoders: mp3, opus, aac, flac, wav, audiobooks, and plain samples."""

import io
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from utils.options import OUTPUT_RATE

BITS = 96_000
"""Bits a second; speech of one channel at 24 000 Hz gains nothing by more."""
PACKET = 4096
"""Samples that go to an encoder at a time."""


class Format(NamedTuple):
    """A kind of sound file."""

    media_type: str
    container: str
    """Name of its container in FFmpeg, and of its encoder."""
    codec: str
    bits: int = 0
    """A second; the codec's own choice when 0."""
    options: tuple[tuple[str, str], ...] = ()
    """Of the container."""


FORMATS = {
    # The header of lengths would have to be written last, at the beginning.
    "mp3": Format("audio/mpeg", "mp3", "libmp3lame", BITS, (("write_xing", "0"), ("id3v2_version", "0"))),
    # Pages of a fifth of a second: FFmpeg's own of a whole second would keep a listener waiting.
    "opus": Format("audio/ogg", "ogg", "libopus", BITS // 2, (("page_duration", "200000"),)),
    "aac": Format("audio/aac", "adts", "aac", BITS),
    "flac": Format("audio/flac", "flac", "flac"),
    # Without FFmpeg's name, which no header of 44 bytes has room for.
    "wav": Format("audio/wav", "wav", "pcm_s16le", options=(("fflags", "+bitexact"),)),
    "pcm": Format("audio/pcm", "s16le", "pcm_s16le"),
}
"""By the names of OpenAI's `response_format`."""


class Sink(io.RawIOBase):
    """Where FFmpeg writes; it cannot go back, as nothing can that was sent."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        """What was written since the last call."""
        found, self._parts = b"".join(self._parts), []
        return found


class Encoder:
    """Writes speech, bit by bit.

    Args:
        form: of the file.
        target: a path, or an object that bytes are written to.
    """

    def __init__(self, form: Format, target: Path | io.RawIOBase | io.BytesIO) -> None:
        import av  # the page is there sooner without it

        self._av = av
        where = str(target) if isinstance(target, Path) else target
        self.file: Any = av.open(where, "w", format=form.container, options=dict(form.options))
        stream: Any = self.file.add_stream(form.codec, rate=OUTPUT_RATE, layout="mono")
        if form.bits:
            stream.bit_rate = form.bits
        self._stream, self._samples = stream, 0

    def add(self, pcm: bytes) -> None:
        """Samples, 16 bit, little-endian, one channel, 24 000 Hz."""
        samples = np.frombuffer(pcm, dtype="<i2").astype(np.int16)[None]
        for start in range(0, samples.shape[1], PACKET):
            part = np.ascontiguousarray(samples[:, start : start + PACKET])
            frame = self._av.AudioFrame.from_ndarray(part, format="s16", layout="mono")
            frame.sample_rate, frame.pts = OUTPUT_RATE, self._samples
            self._samples += part.shape[1]
            self.file.mux(self._stream.encode(frame))

    def finish(self) -> None:
        """Write the rest."""
        self.file.mux(self._stream.encode(None))
        self.file.close()


@cache
def usable_formats() -> tuple[str, ...]:
    """The formats for which this installation has an encoder."""
    import av

    return tuple(name for name, form in FORMATS.items() if form.codec in av.codecs_available)


def encode_whole(name: str, chunks: Iterable[bytes]) -> bytes:
    """A complete file of speech."""
    file = io.BytesIO()
    encoder = Encoder(FORMATS[name], file)
    for chunk in chunks:
        encoder.add(chunk)
    encoder.finish()
    return file.getvalue()
