"""The list of clips that training reads: `audio_file|text|speaker_name`, UTF-8, paths relative to the file.

A fourth column, `word_times`, may say at which second each word begins: `0.00 0.31 0.74`.
"""

import csv as csv_format
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from utils.dataset.formats.audio_names import find_audio
from utils.dataset.formats.table import AUDIO, SPEAKER, TEXT, WORD_TIMES, iter_table
from utils.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Clip:
    """One recording and what is said in it."""

    audio: Path
    """Absolute path."""
    text: str
    speaker: str
    word_times: tuple[float, ...] = ()
    """Second at which each word begins; empty where the manifest does not say."""


def read_manifest(csv: Path) -> list[Clip]:
    """The clips of a manifest, in order; whether their files exist is not checked.

    Args:
        csv: a manifest, a comma-separated table with the same header, or an LJSpeech metadata.csv.

    Raises:
        UserError: the file is missing, not UTF-8, lacks columns or is broken; with the line.
    """
    return list(iter_manifest(csv))


def iter_manifest(csv: Path, is_file: Callable[[str], bool] = os.path.isfile) -> Iterator[Clip]:
    """The clips of a manifest of any size, in order; whether their files exist is not checked.

    Raises:
        UserError: as `read_manifest`, when the fault is met.
    """
    folder = csv.parent.absolute()
    for row in iter_table(csv):
        if row.problem:
            raise UserError(what=row.problem, where=f"{csv}, line {row.line}", fix="correct the row, or remove it")
        # Each by itself, unless the caller lists its folders: the names of ten million files fill gigabytes.
        audio = find_audio(folder, row.audio, is_file)
        yield Clip(audio=audio, text=row.text, speaker=row.speaker, word_times=row.word_times)


def write_manifest(csv: Path, clips: list[Clip], *, folder: Path | None = None) -> None:
    """Write clips so that `read_manifest` gives them back, whatever characters their text holds.

    Args:
        csv: file to write.
        clips: in the order wanted.
        folder: the folder that paths are written relative to, when `csv` is moved there later; that of `csv` if None.

    Raises:
        OSError: the disk is full or not writable.
    """
    base = (folder or csv.parent).absolute()
    # Forward slashes are read on every system.
    paths = [Path(os.path.relpath(clip.audio, base)).as_posix() for clip in clips]
    columns = {AUDIO: paths, TEXT: [clip.text for clip in clips], SPEAKER: [clip.speaker for clip in clips]}
    if any(clip.word_times for clip in clips):
        columns[WORD_TIMES] = [" ".join(f"{time:.3f}" for time in clip.word_times) for clip in clips]
    frame = pd.DataFrame(columns, dtype=str)
    frame.to_csv(csv, sep="|", index=False, encoding="utf-8", quoting=csv_format.QUOTE_MINIMAL, lineterminator="\n")
