"""Join wavs of the same format into one, a block at a time."""

import wave
from collections.abc import Sequence
from pathlib import Path

from utils.files import replacing

BLOCK_FRAMES = 65_536


def join_wavs(parts: Sequence[Path], out: Path) -> None:
    """Write one wav that holds all parts one after the other; readers see none of it or the whole.

    Args:
        parts: wavs of one sample rate, width and number of channels.
        out: file to write.

    Raises:
        OSError: a part is gone, or the disk is full; nothing is left behind.
    """
    assert parts
    with replacing(out) as aside, wave.open(str(aside), "wb") as joined:
        for number, part in enumerate(parts):
            with wave.open(str(part), "rb") as source:
                if number == 0:
                    joined.setparams(source.getparams())
                assert source.getparams()[:3] == joined.getparams()[:3], part
                while block := source.readframes(BLOCK_FRAMES):
                    joined.writeframesraw(block)
