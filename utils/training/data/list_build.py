"""Make the columns of a clip list from a manifest: what is too short or too long first, then texts to tokens.

Memory is bounded whatever the manifest's size: rows pass in blocks, and texts go to the disk between the two steps.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accelerate import Accelerator
from numpy.typing import NDArray

from utils.config import DATASET_RATE
from utils.dataset.storage.manifest import Clip, iter_manifest
from utils.errors import UserError
from utils.events.progress import ProgressFn
from utils.text.tokenizer import Tokenizer
from utils.training.data.audio_files import AudioFiles
from utils.training.data.clip_list import ABOUT_FILE, CODE_KINDS, ROW_KINDS, TOKEN_KINDS, ClipList
from utils.training.data.clips import ClipLimits, length_problem, reading_of, tokens_of
from utils.training.data.codes import CodeCache, up_to_silence
from utils.training.data.columns import ColumnWriter, Kinds, map_column, part, ragged
from utils.training.data.many import in_ranges

BLOCK = 50_000
"""Rows that are in memory at a time."""
ROWS_A_TASK = 2_000
WORTH_PROCESSES = 50_000
"""Fewer texts are tokenized sooner than processes start."""
_TEXTS = "texts"
_TEXT_KINDS = {**ragged("texts", "u1"), **ragged("times", "<f8"), "fits": "?"}
"""Transcript and word times of each row, and whether its length is within the limits; only while a list is made."""

Drops = list[dict[str, Any]]
"""{clip, reason}."""


class Reading(NamedTuple):
    """How texts are read: all that a process which tokenizes needs."""

    vocab: Path
    amharic_g2p: bool
    language: str
    """Plain code."""
    limits: ClipLimits


def write_rows(
    csv: Path,
    folder: Path,
    limits: ClipLimits,
    files: AudioFiles,
    accelerator: Accelerator,
    progress: ProgressFn | None = None,
) -> Drops:
    """Write a manifest's rows with the length of each recording; all processes share looking at the recordings.

    Args:
        csv: the manifest.
        folder: where the main process writes the columns.
        limits: what a clip must fit.
        files: what is known of the recordings.
        accelerator: the processes.
        progress: called with (phase, clips done, clips in all).

    Returns:
        The clips whose length does not fit; empty in all processes but the main one.

    Raises:
        UserError: the manifest cannot be read, names files that do not exist or one of them is no sound.
        OSError: the disk is full or not writable.
    """
    dropped, total, missing, first = Drops(), 0, 0, ""
    with ExitStack() as stack:
        rows = stack.enter_context(_Rows(folder)) if accelerator.is_main_process else None
        for block in _blocks(iter_manifest(csv), BLOCK):
            lost = [clip.audio for clip in block if not clip.audio.is_file()]
            first = first or (lost[0].name if lost else "")
            total, missing = total + len(block), missing + len(lost)
            if missing:
                # All are counted before they are reported.
                continue
            files.look([clip.audio for clip in block], accelerator, progress)
            if rows is not None:
                dropped += rows.add(block, files, limits)
                files.save()
            files.forget()
            if progress is not None:
                progress("reading clips", total, None)
    if missing:
        raise UserError(
            what=f"{missing} of {total} audio files are missing, the first is {first}",
            where=str(csv),
            fix="put the files back or correct the audio_file column",
        )
    return dropped


def write_tokens(folder: Path, reading: Reading, name: str, progress: ProgressFn | None = None) -> tuple[Drops, int]:
    """Write the tokens of the rows whose length fits, made by several processes where there are many.

    Args:
        folder: of the rows.
        reading: how texts are read.
        name: of the manifest, for the progress.
        progress: called with (phase, clips done, clips in all).

    Returns:
        The clips whose text cannot be trained on, and the number of those that train.

    Raises:
        UserError: a process is gone.
        OSError: the disk is full or not writable.
    """
    fits = map_column(folder / _TEXTS / "fits", "?")
    dropped, count = Drops(), 0
    done = in_ranges(
        partial(_read_tasks, folder, reading),
        len(fits),
        rows_a_task=ROWS_A_TASK,
        in_processes=bool(np.count_nonzero(fits) >= WORTH_PROCESSES),
    )
    with ColumnWriter(folder, TOKEN_KINDS) as columns:
        for rows, read in done:
            columns.add_parts("tokens", read.tokens, read.token_counts)
            columns.add_parts("readings", read.readings, read.reading_counts)
            # No text is without a token: that of the language is the first.
            columns.add("kept", rows.start + np.flatnonzero(read.token_counts))
            dropped += read.dropped
            count += int(np.count_nonzero(read.token_counts))
            if progress is not None:
                progress(f"tokenizing {name}", rows.stop, len(fits))
    shutil.rmtree(folder / _TEXTS)
    return dropped, count


def write_code_spans(folder: Path, cache: CodeCache, *, is_trimmed: bool) -> None:
    """Write which codes each clip has, once all are encoded.

    Args:
        folder: of the rows and their tokens.
        cache: holds the codes.
        is_trimmed: drop all but the first code of a closing silence.

    Raises:
        OSError: the disk is full or not writable.
    """
    clips = ClipList.open(folder, None)
    codes = map_column(cache.file, "<i2")
    with ColumnWriter(folder, CODE_KINDS) as columns:
        for at in range(0, len(clips), BLOCK):
            starts, counts = cache.find(clips.contents[at : at + BLOCK])
            assert counts.all(), "all clips are encoded"
            if is_trimmed:
                spans = zip(starts.tolist(), counts.tolist(), strict=True)
                counts = np.array([len(up_to_silence(codes[start : start + count])) for start, count in spans])
            columns.add("code_starts", starts)
            columns.add("code_counts", counts)


class _Rows:
    """Writes rows; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack = folder, ExitStack()
        self._rows = self._stack.enter_context(ColumnWriter(folder, ROW_KINDS))
        self._texts = self._stack.enter_context(ColumnWriter(folder / _TEXTS, _TEXT_KINDS))
        self._folders: dict[str, int] = {}
        self._speakers: dict[str, int] = {}

    def __enter__(self) -> "_Rows":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        about = {"folders": list(self._folders), "speakers": list(self._speakers)}
        (self._folder / ABOUT_FILE).write_text(json.dumps(about), encoding="ascii")

    def add(self, clips: list[Clip], files: AudioFiles, limits: ClipLimits) -> Drops:
        """Write some rows; those whose length does not fit are returned."""
        seen = [files.seen(clip.audio) for clip in clips]
        problems = [length_problem(one.facts.num_samples, limits) for one in seen]
        self._rows.add_texts("names", [os.fsencode(clip.audio.name) for clip in clips])
        self._rows.add("folders", _numbers([str(clip.audio.parent) for clip in clips], self._folders))
        self._rows.add("speakers", _numbers([clip.speaker for clip in clips], self._speakers))
        self._rows.add("samples", [one.facts.num_samples for one in seen])
        self._rows.add("native", [one.facts.is_native for one in seen])
        self._rows.add("contents", np.array([int(one.facts.content, 16) for one in seen], dtype=np.uint64))
        self._rows.add("stamps", [one.stamp for one in seen])
        self._rows.add("settled", [one.is_settled for one in seen])
        self._texts.add_texts("texts", [clip.text.encode("utf-8", "surrogatepass") for clip in clips])
        times = [time for clip in clips for time in clip.word_times]
        self._texts.add_parts("times", times, [len(clip.word_times) for clip in clips])
        self._texts.add("fits", [not problem for problem in problems])
        told = zip(clips, problems, strict=True)
        return [{"clip": clip.audio.name, "reason": problem} for clip, problem in told if problem]


class _Read(NamedTuple):
    """What is made of some rows; rows that do not train have no tokens."""

    tokens: NDArray[np.int32]
    token_counts: NDArray[np.int32]
    readings: NDArray[np.float32]
    reading_counts: NDArray[np.int32]
    dropped: Drops


def _read_tasks(folder: Path, reading: Reading, tasks: Sequence[range]) -> list[_Read]:
    """Tokenize ranges of rows, in whichever process."""
    columns = _mapped(folder, ROW_KINDS) | _mapped(folder / _TEXTS, _TEXT_KINDS)
    return [_read(columns, reading, rows) for rows in tasks]


def _read(columns: dict[str, NDArray[Any]], reading: Reading, rows: range) -> _Read:
    tokenizer = _tokenizer(reading.vocab, reading.amharic_g2p)
    tokens: list[list[int]] = []
    readings: list[NDArray[np.float32]] = []
    dropped = Drops()
    for row in rows:
        tokens.append([])
        readings.append(np.zeros(0, dtype=np.float32))
        if not columns["fits"][row]:
            continue
        text = part(columns, "texts", row).tobytes().decode("utf-8", "surrogatepass")
        try:
            tokens[-1] = tokens_of(text, tokenizer, reading.language, reading.limits)
        except UserError as error:
            name = os.fsdecode(part(columns, "names", row).tobytes())
            dropped.append({"clip": name, "reason": error.what})
            continue
        if len(times := part(columns, "times", row)):
            starts, seconds = tokenizer.word_starts(text, reading.language), columns["samples"][row] / DATASET_RATE
            readings[-1] = reading_of(times.tolist(), starts, float(seconds)).reshape(-1)
    return _Read(
        tokens=np.array([token for one in tokens for token in one], dtype=np.int32),
        token_counts=np.array([len(one) for one in tokens], dtype=np.int32),
        readings=np.concatenate(readings),
        reading_counts=np.array([len(one) for one in readings], dtype=np.int32),
        dropped=dropped,
    )


@lru_cache(maxsize=1)
def _tokenizer(vocab: Path, amharic_g2p: bool) -> Tokenizer:
    return Tokenizer(vocab, amharic_g2p=amharic_g2p)


def _mapped(folder: Path, kinds: Kinds) -> dict[str, NDArray[Any]]:
    return {name: map_column(folder / name, kind) for name, kind in kinds.items()}


def _numbers(names: list[str], known: dict[str, int]) -> list[int]:
    """A number for each name; new ones are added to those known."""
    return [known.setdefault(name, len(known)) for name in names]


def _blocks(clips: Iterator[Clip], size: int) -> Iterator[list[Clip]]:
    while block := list(islice(clips, size)):
        yield block
