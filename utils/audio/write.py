"""Write mono 16-bit wav files atomically."""

import io
import wave
from pathlib import Path

import torch
from torch import Tensor

from utils.audio.sound_file import as_pcm16
from utils.files import write_atomic


def to_pcm16(wav: Tensor) -> Tensor:
    """As `as_pcm16`.

    Args:
        wav: mono audio, float, shape [1, T].

    Returns:
        int16, shape [1, T].
    """
    # numpy, not torch: for a clip of some seconds, waking torch's threads takes longer than the work.
    return torch.from_numpy(as_pcm16(wav.numpy()))


def write_wav(path: Path, wav: Tensor, sample_rate: int) -> None:
    """Write a mono PCM16 wav; readers see the old file or the whole new one, never a part.

    Args:
        path: file to write; its folder exists.
        wav: mono audio in [-1, 1], float, or int16 from `to_pcm16`; shape [1, T].
        sample_rate: in Hz.

    Raises:
        OSError: the disk is full or not writable; nothing is left behind.
    """
    assert wav.ndim == 2 and wav.shape[0] == 1, wav.shape
    pcm = wav if wav.dtype == torch.int16 else to_pcm16(wav)
    # Encoded in memory first: libsndfile reports a full disk as an assertion, not as an OSError.
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(pcm.numpy().astype("<i2").tobytes())
    write_atomic(path, buffer.getbuffer())
