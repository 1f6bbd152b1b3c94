"""Compare the audio length in a WAV header with the data present: a truncated copy still opens."""

import struct
from pathlib import Path
from typing import NamedTuple

_UNKNOWN = 0x7FFFF000
"""Programs that do not know the length yet write 0 or a size from here on."""


class Lengths(NamedTuple):
    """Bytes of samples."""

    announced: int
    held: int


def data_lengths(path: Path) -> Lengths | None:
    """What the data chunk of a WAV says of its size, and how much of it is there.

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
                return Lengths(announced=size, held=min(size, end - file.tell())) if known else None
            # Chunks begin at even places.
            file.seek(size + size % 2, 1)
    return None
