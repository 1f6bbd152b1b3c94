"""Read sound files through libsndfile, without the lines that its MPEG decoder prints for damaged frames.

Beside it, what is checked of a file before its sound is used: the length that a WAV announces, because a truncated copy
still opens, and whether a voice can be made of a recording; and samples as they are written. Without torch.
"""

import ctypes
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from utils.errors import UserError

_MPEG_FRAME = 1_152
"""Samples of most MPEG frames; of low sample rates half as many."""
_UNKNOWN = 0x7FFFF000
"""Programs that do not know the length of a WAV yet write 0 or a size from here on."""
SHORTEST_S = 0.33
"""A reference recording's least length; stock ignores shorter parts of one."""
SILENT_PEAK = 1e-3
"""No louder sample than this, 60 dB below full scale, is the noise of a silent recording."""
_lock = RLock()


class SoundFile(soundfile.SoundFile):  # type: ignore[misc]
    """A sound file to read, which counts its damaged frames.

    Raises:
        soundfile.LibsndfileError: libsndfile cannot read it.
        TypeError: its name does not name a format, or names headerless audio, whatever its content.
    """

    def __init__(self, path: Path) -> None:
        self.damaged_frames = 0
        with self._counted():
            super().__init__(path)
        self._is_mpeg = self.subtype.startswith("MPEG")
        if self.format == "RAW":
            self.close()
            raise TypeError("headerless audio")

    @property
    def damaged_s(self) -> float:
        """Seconds of frames, of those read so far, whose content is damaged."""
        return self.damaged_frames * _MPEG_FRAME / (1 if self.samplerate >= 32_000 else 2) / self.samplerate

    def read(self, *args: Any, **options: Any) -> Any:
        """See `soundfile.SoundFile.read`."""
        with self._counted() if self._is_mpeg else nullcontext():
            return super().read(*args, **options)

    def seek(self, *args: Any) -> int:
        """See `soundfile.SoundFile.seek`."""
        with self._counted() if self._is_mpeg else nullcontext():
            return int(super().seek(*args))

    @contextmanager
    def _counted(self) -> Iterator[None]:
        # libmpg123 prints to C's `stderr` and libsndfile has no option for it. Another decoder gives other samples, by
        # which clips are known, and file descriptor 2 is Python's and that of child processes, too.
        if (streams := _streams()) is None:
            yield
            return
        c, stderr, kept, text, size = streams
        with _lock:
            before, stderr.value = stderr.value, kept
            try:
                yield
            finally:
                stderr.value = before
                c.fflush(ctypes.c_void_p(kept))
                self.damaged_frames += ctypes.string_at(text, size.value).count(b"layer3.c")
                c.rewind(ctypes.c_void_p(kept))


def sound_seconds(path: Path) -> float | None:
    """Length of a file by its header; None where libsndfile cannot read it."""
    try:
        with SoundFile(path) as sound:
            return float(sound.frames / sound.samplerate)
    except (soundfile.LibsndfileError, TypeError):
        return None


@cache
def _streams() -> tuple[Any, ctypes.c_void_p, int, ctypes.c_void_p, ctypes.c_size_t] | None:
    """The C library, its variable `stderr`, and a stream to memory with its text and size; None on Windows."""
    if sys.platform == "win32":
        return None
    c, text, size = ctypes.CDLL(None), ctypes.c_void_p(), ctypes.c_size_t()
    c.open_memstream.restype = ctypes.c_void_p
    # Never closed: another thread of a C library may still print to it.
    kept = c.open_memstream(ctypes.byref(text), ctypes.byref(size))
    return c, ctypes.c_void_p.in_dll(c, "__stderrp" if sys.platform == "darwin" else "stderr"), kept, text, size


def data_lengths(path: Path) -> tuple[int, int] | None:
    """What the data chunk of a WAV says of its size, and how much of it is there, in bytes.

    Returns:
        None when the file is no WAV with one data chunk of a known size.

    Raises:
        OSError: the file cannot be read.

    Source: Microsoft's Multimedia Programming Interface and Data Specifications 1.0, RIFF chunks.
    """
    end = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            return None
        while len(chunk := file.read(8)) == 8:
            name, size = struct.unpack("<4sI", chunk)
            if name == b"data":
                known = 0 < size < _UNKNOWN
                return (size, min(size, end - file.tell())) if known else None
            # Chunks begin at even places.
            file.seek(size + size % 2, 1)
    return None


def check_reference(samples: NDArray[np.float32], sample_rate: int, *, where: str) -> None:
    """Check that a voice can be made of a recording.

    Args:
        samples: in [-1, 1], of any shape whose first dimension is time.
        sample_rate: in Hz.
        where: the recording's name or path, for the message.

    Raises:
        UserError: it is too short, or holds no sound.
    """
    what, seconds = "", len(samples) / sample_rate
    if seconds < SHORTEST_S:
        what = f"lasts {seconds:.2f} s"
    elif not np.abs(np.nan_to_num(samples)).max() > SILENT_PEAK:
        what = "holds no sound"
    if what:
        fix = f"use one of {SHORTEST_S} s or more; 6 to 30 s of clear speech work best"
        raise UserError(what=f"the reference recording {what}", where=where, fix=fix)


def as_pcm16(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    """Samples as 16-bit integers; what lies outside [-1, 1] is clipped.

    The scale is 32 768, that of `decode`, so 16-bit recordings pass through unchanged.
    """
    return np.rint(samples * np.float32(32_768)).clip(-32_768, 32_767).astype(np.int16)
