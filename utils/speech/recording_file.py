"""A take as one file to keep: wav, flac, mp3, or m4b with a chapter for each line."""

import wave
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from utils.errors import UserError, disk_errors
from utils.files import replacing
from utils.options import OUTPUT_RATE
from utils.speech.takes import Take

RecordingFormat = Literal["wav", "flac", "mp3", "m4b"]
RECORDING_FORMATS: tuple[RecordingFormat, ...] = get_args(RecordingFormat)
BETWEEN_LINES_S = 0.5
"""Silence between two lines, in seconds."""
_PACKET = 4096
_KINDS: dict[RecordingFormat, tuple[str, str, int]] = {
    "wav": ("wav", "pcm_s16le", 0),
    "flac": ("flac", "flac", 0),
    "mp3": ("mp3", "libmp3lame", 96_000),
    "m4b": ("ipod", "aac", 96_000),
}
"""FFmpeg's container and encoder, and bits a second where the encoder takes them."""


@disk_errors()
def recording_file(take: Take, kind: str) -> Path:
    """All complete lines of a take in one file, in the take's folder.

    Args:
        take: with a line that is complete, or was stopped after its first sentence.
        kind: one of RECORDING_FORMATS.

    Raises:
        UserError: another format, no line is complete yet, a wav is missing or damaged, or the disk is full.
    """
    if kind not in RECORDING_FORMATS:
        known = ", ".join(RECORDING_FORMATS)
        raise UserError(what=f"a recording cannot be written as {kind!r}", where="format", fix=f"use one of {known}")
    lines = [line for line in take.lines if line.file]
    if not lines:
        raise UserError(what="no line of this take is complete yet", where=take.id, fix="wait, or resume the take")
    import av  # the page is there sooner without it

    container, codec, bits = _KINDS[kind]
    sounds = [_samples(take.folder / line.file) for line in lines]
    pause = np.zeros((1, round(BETWEEN_LINES_S * OUTPUT_RATE)), dtype=np.int16)
    target = take.folder / f"recording.{kind}"
    with replacing(target) as aside, av.open(str(aside), "w", format=container) as file:
        stream: Any = file.add_stream(codec, rate=OUTPUT_RATE, layout="mono")
        if bits:
            stream.bit_rate = bits
        if take.name:
            file.metadata["title"] = take.name
        if kind == "m4b" and len(lines) > 1:
            file.set_chapters(_chapters([line.text for line in lines], [sound.shape[1] for sound in sounds], pause))
        whole = np.concatenate([part for sound in sounds for part in (sound, pause)][:-1], axis=1)
        for start in range(0, whole.shape[1], _PACKET):
            part = np.ascontiguousarray(whole[:, start : start + _PACKET])
            frame = av.AudioFrame.from_ndarray(part, format="s16", layout="mono")
            frame.sample_rate, frame.pts = OUTPUT_RATE, start
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return target


def _chapters(titles: list[str], lengths: list[int], pause: NDArray[np.int16]) -> list[Any]:
    found, start = [], 0
    for number, (title, length) in enumerate(zip(titles, lengths, strict=True)):
        end = start + length + pause.shape[1]
        found.append(
            {
                "id": number,
                "start": start,
                "end": end,
                "time_base": Fraction(1, OUTPUT_RATE),
                "metadata": {"title": title[:80]},
            }
        )
        start = end
    return found


def _samples(path: Path) -> NDArray[np.int16]:
    """A wav of the take, [1, N]."""
    try:
        with wave.open(str(path)) as file:
            samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
    except (OSError, EOFError, wave.Error) as error:
        raise UserError(what=f"the recording cannot be read: {error}", where=str(path), fix="speak it again") from error
    if not len(samples):
        raise UserError(what="the recording is empty", where=str(path), fix="speak it again")
    return samples[None]
