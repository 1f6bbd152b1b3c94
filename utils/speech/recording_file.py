"""A take as one file to keep: wav, flac, mp3, or m4b with a chapter for each line."""

import wave
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, get_args

from utils.errors import UserError, disk_errors
from utils.files import replacing
from utils.options import OUTPUT_RATE
from utils.speech.encode import BITS, FORMATS, Encoder, Format
from utils.speech.takes import Take

RecordingFormat = Literal["wav", "flac", "mp3", "m4b"]
RECORDING_FORMATS: tuple[RecordingFormat, ...] = get_args(RecordingFormat)
BETWEEN_LINES_S = 0.5
"""Silence between two lines, in seconds."""
_FORMATS = FORMATS | {
    "mp3": FORMATS["mp3"]._replace(options=()),
    "m4b": Format("audio/mp4", "ipod", "aac", BITS),
}


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
    sounds = [_samples(take.folder / line.file) for line in lines]
    pause = bytes(2 * round(BETWEEN_LINES_S * OUTPUT_RATE))
    target = take.folder / f"recording.{kind}"
    with replacing(target) as aside:
        encoder = Encoder(_FORMATS[kind], aside)
        # Closed after an error too: Windows removes no file that is open.
        with closing(encoder.file):
            if take.name:
                encoder.file.metadata["title"] = take.name
            if kind == "m4b" and len(lines) > 1:
                encoder.file.set_chapters(
                    _chapters([line.text for line in lines], [len(one + pause) // 2 for one in sounds])
                )
            for part in [part for sound in sounds for part in (sound, pause)][:-1]:
                encoder.add(part)
            encoder.finish()
    return target


def _chapters(titles: list[str], lengths: list[int]) -> list[dict[str, Any]]:
    """One for each line: its number of samples."""
    found, start = list[dict[str, Any]](), 0
    for number, (title, length) in enumerate(zip(titles, lengths, strict=True)):
        times = {"start": start, "end": start + length, "time_base": Fraction(1, OUTPUT_RATE)}
        found.append({"id": number, **times, "metadata": {"title": title[:80]}})
        start += length
    return found


def _samples(path: Path) -> bytes:
    """A wav of the take, 16 bit."""
    try:
        with wave.open(str(path)) as file:
            samples = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise UserError(what=f"the recording cannot be read: {error}", where=str(path), fix="speak it again") from error
    if not samples:
        raise UserError(what="the recording is empty", where=str(path), fix="speak it again")
    return samples
