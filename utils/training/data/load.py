"""The clips of a run: read, checked, tokenized and encoded into a table, with every dropped clip named."""

import hashlib
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accelerate import Accelerator

from utils.bases.base import Base
from utils.callbacks import ProgressFn
from utils.config import DATASET_RATE, TrainConfig
from utils.dataset.storage.manifest import iter_manifest
from utils.dataset.storage.parallel import ProcessDied, run_tasks
from utils.errors import UserError
from utils.hardware.processor import usable_cpus
from utils.hardware.resources import memory
from utils.project.paths import Project
from utils.text.tokenizer import Tokenizer
from utils.training.data.audio_files import AudioFacts, AudioFiles
from utils.training.data.clip_list import ClipList, Numbered, Ragged
from utils.training.data.clips import ClipLimits, TrainingClip, length_problem, limits_of, reading_of, tokens_of
from utils.training.data.codes import CodeCache, encode_missing, up_to_silence

BYTES_A_CLIP = 2_000
"""Memory that a clip takes while the table is made, at most: measured, see docs/scaling.md."""
WORTH_PROCESSES = 50_000
"""Fewer texts are tokenized sooner than processes start."""
TEXTS_A_TASK = 2_000
MOST_PROCESSES = 16

Drops = list[dict[str, Any]]
"""{clip, reason}."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """The clips of a run."""

    train: ClipList
    evaluate: ClipList
    dropped: Drops
    """{clip, reason} of every clip of both manifests that is not used."""
    audio_bytes: int = 0
    """Size of the training clips' sound, each recording once, as 16-bit samples at 22 050 Hz."""

    @property
    def longest(self) -> TrainingClip:
        """The longest training clip: the run's reference recording."""
        return self.train[self.train.longest]

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256()
        for clips in (self.train, self.evaluate):
            clips.add_to(digest)
        return digest.hexdigest()[:12]

    def fingerprint(self) -> str:
        """12 hex digits that change when a clip comes, goes, or changes in length, text or codes."""
        return self._digest


class Reading(NamedTuple):
    """How texts are read: all that a process which tokenizes needs."""

    vocab: Path
    amharic_g2p: bool
    language: str
    """Plain code."""
    limits: ClipLimits


class _Row(NamedTuple):
    """A row of a manifest."""

    audio: str
    text: str
    speaker: str
    word_times: tuple[float, ...]


class _Clip(NamedTuple):
    """A clip that trains, once its codes are known."""

    row: _Row
    facts: AudioFacts
    tokens: bytes
    """int32."""
    reading: bytes
    """float32."""


def load_data(
    config: TrainConfig, project: Project, base: Base, accelerator: Accelerator, progress: ProgressFn | None = None
) -> TrainingData:
    """The clips of both manifests: read, checked, tokenized and encoded.

    Of several processes each reads and encodes its part of the recordings that are new.

    Args:
        config: settled settings.
        project: its dataset folder keeps the codes, and what is known of the recordings.
        base: its tokenizer reads the texts, its DVAE encodes the clips.
        accelerator: the processes.
        progress: called with (phase, done, in all).

    Raises:
        UserError: a manifest cannot be read or does not fit into memory, a recording is missing or no sound, or no clip
            is left to train or evaluate on.
        OSError: the disk is full or not writable.
    """
    assert config.train_csv and config.eval_csv and config.language
    csvs, root = (config.train_csv, config.eval_csv), project.dataset / "codes"
    tokenizer = base.tokenizer()
    reading = Reading(
        vocab=tokenizer.path,
        amharic_g2p=tokenizer.amharic_g2p,
        language=tokenizer.check_language(config.language),
        limits=limits_of(config),
    )
    require_memory(csvs)
    manifests = [_rows(csv) for csv in csvs]
    files = _known_files(root, [row for rows in manifests for row in rows], accelerator)
    dropped, lists = Drops(), list[list[_Clip]]()
    for rows, csv, purpose in zip(manifests, csvs, ("train on", "evaluate with"), strict=True):
        clips, lost = _checked(rows, reading, files, csv.name, progress)
        if not clips:
            first = f"; the first was dropped because {lost[0]['reason']}" if lost else ""
            what = f"there is no clip to {purpose}{first}"
            raise UserError(what=what, where=str(csv), fix="prepare the dataset again")
        dropped += lost
        lists.append(clips)
    if accelerator.is_main_process:
        files.save()
    every = [clip for clips in lists for clip in clips]
    audio = np.array([int(clip.facts.content, 16) for clip in every], dtype=np.uint64)
    cache = encode_missing(
        lambda number: Path(every[number].row.audio),
        audio,
        base,
        root,
        device=accelerator.device,
        progress=progress,
        accelerator=accelerator,
    )
    count = len(lists[0])
    train, evaluate = (
        _table(clips, hashes, cache, is_trimmed=config.trim_end)
        for clips, hashes in zip(lists, (audio[:count], audio[count:]), strict=True)
    )
    if config.reading_weight:
        _log_word_times(train, config.train_csv)
    for drop in dropped:
        log.warning("not trained on: %s: %s", drop["clip"], drop["reason"])
    first_of_each = np.unique(audio[:count], return_index=True)[1]
    audio_bytes = 2 * int(train.num_samples[first_of_each].sum(dtype=np.int64))
    return TrainingData(train=train, evaluate=evaluate, dropped=dropped, audio_bytes=audio_bytes)


def require_memory(csvs: Sequence[Path]) -> None:
    """Do nothing where the clips of these manifests fit into memory.

    Raises:
        UserError: they do not.
    """
    count = sum(_lines(csv) - 1 for csv in csvs)
    needed, available = count * BYTES_A_CLIP, memory().available_bytes
    if needed > available:
        raise UserError(
            what=f"a list of {count:,} clips takes up to {needed / 1e9:.1f} GB of memory, and {available / 1e9:.1f} GB "
            "are free",
            where=str(csvs[0]),
            fix="train on fewer clips, or on a machine with more memory",
        )


def _lines(csv: Path) -> int:
    try:
        with csv.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except OSError:
        return 0  # reading it says why


def _rows(csv: Path) -> list[_Row]:
    """The rows of a manifest.

    Raises:
        UserError: it cannot be read, or names files that do not exist.
    """
    rows = [_Row(str(clip.audio), clip.text, clip.speaker, clip.word_times) for clip in iter_manifest(csv)]
    if missing := [row.audio for row in rows if not os.path.isfile(row.audio)]:  # noqa: PTH113 - ten million of them
        raise UserError(
            what=f"{len(missing)} of {len(rows)} audio files are missing, the first is {Path(missing[0]).name}",
            where=str(csv),
            fix="put the files back or correct the audio_file column",
        )
    return rows


def _known_files(root: Path, rows: Sequence[_Row], accelerator: Accelerator) -> AudioFiles:
    """What is known of the recordings; of several processes each reads its part of those that are new.

    Raises:
        UserError: one of them is no sound.
    """
    files = AudioFiles(root)
    if accelerator.num_processes == 1:
        return files
    for row in rows[accelerator.process_index :: accelerator.num_processes]:
        files.facts(Path(row.audio))
    files.save()
    accelerator.wait_for_everyone()
    return AudioFiles(root)


def _checked(
    rows: Sequence[_Row], reading: Reading, files: AudioFiles, name: str, progress: ProgressFn | None
) -> tuple[list[_Clip], Drops]:
    """The clips that train, and the others with their reasons: those of the wrong length, then those of a bad text.

    Raises:
        UserError: a recording is no sound, or a process that tokenizes is gone.
    """
    fits, dropped = list[tuple[_Row, AudioFacts]](), Drops()
    for number, row in enumerate(rows, start=1):
        facts = files.facts(Path(row.audio))
        if problem := length_problem(facts.num_samples, reading.limits):
            dropped.append({"clip": Path(row.audio).name, "reason": problem})
        else:
            fits.append((row, facts))
        if progress is not None:
            progress("reading clips", number, len(rows))
    clips = list[_Clip]()
    for (row, facts), (tokens, times, problem) in zip(fits, _tokenized(fits, reading, name, progress), strict=True):
        if problem:
            dropped.append({"clip": Path(row.audio).name, "reason": problem})
        else:
            clips.append(_Clip(row, facts, tokens, times))
    return clips, dropped


_Text = tuple[int, str, tuple[float, ...], float]
"""A clip's number, text, word times and seconds."""
_Read = tuple[bytes, bytes, str]
"""Its tokens and reading, or why it has none."""


def _tokenized(
    fits: Sequence[tuple[_Row, AudioFacts]], reading: Reading, name: str, progress: ProgressFn | None
) -> Iterable[_Read]:
    """What is made of each text, in several processes where there are many."""
    texts = [(n, row.text, row.word_times, facts.num_samples / DATASET_RATE) for n, (row, facts) in enumerate(fits)]
    workers = min(usable_cpus(), MOST_PROCESSES) if len(texts) >= WORTH_PROCESSES else 1
    found: list[_Read] = [(b"", b"", "")] * len(texts)
    done = 0
    try:
        for tasks, read in run_tasks(partial(_read, reading), texts, workers=workers, chunk_size=TEXTS_A_TASK):
            # In whichever order they are done.
            found[tasks[0][0] : tasks[-1][0] + 1] = read
            done += len(read)
            if progress is not None:
                progress(f"tokenizing {name}", done, len(texts))
    except ProcessDied as error:
        raise UserError(what=error.what, fix="free memory, then start again") from error
    return found


def _read(reading: Reading, texts: Sequence[_Text]) -> list[_Read]:
    """Tokenize texts, in whichever process."""
    tokenizer = _tokenizer(reading.vocab, reading.amharic_g2p)
    found: list[_Read] = []
    for _, text, word_times, seconds in texts:
        try:
            tokens = tokens_of(text, tokenizer, reading.language, reading.limits)
        except UserError as error:
            found.append((b"", b"", error.what))
            continue
        starts = tokenizer.word_starts(text, reading.language) if word_times else None
        times = reading_of(word_times, starts, seconds) if word_times else np.zeros(0, dtype=np.float32)
        found.append((np.array(tokens, dtype=np.int32).tobytes(), times.tobytes(), ""))
    return found


@lru_cache(maxsize=1)
def _tokenizer(vocab: Path, amharic_g2p: bool) -> Tokenizer:
    return Tokenizer(vocab, amharic_g2p=amharic_g2p)


def _table(clips: Sequence[_Clip], audio: np.ndarray, cache: CodeCache, *, is_trimmed: bool) -> ClipList:
    """The table of clips whose codes are all in the cache; `is_trimmed` as of `TrainConfig.trim_end`."""
    codes = cache.mapped()
    starts, counts = cache.find(audio)
    assert counts.all(), "all clips are encoded"
    if is_trimmed:
        spans = zip(starts.tolist(), counts.tolist(), strict=True)
        counts = np.array([len(up_to_silence(codes[start : start + count])) for start, count in spans], dtype=np.int32)
    return ClipList(
        folders=Numbered.of([os.path.dirname(clip.row.audio) for clip in clips]),  # noqa: PTH120
        names=Ragged.of([os.fsencode(os.path.basename(clip.row.audio)) for clip in clips], "u1"),  # noqa: PTH119
        speakers=Numbered.of([clip.row.speaker for clip in clips]),
        num_samples=np.array([clip.facts.num_samples for clip in clips], dtype=np.int32),
        native=np.array([clip.facts.is_native for clip in clips]),
        tokens=Ragged.of([clip.tokens for clip in clips], "<i4"),
        readings=Ragged.of([clip.reading for clip in clips], "<f4"),
        codes=codes,
        code_starts=starts,
        code_counts=counts,
    )


def _log_word_times(clips: ClipList, csv: Path) -> None:
    """Log how many clips have word times, which the guided attention loss needs.

    Raises:
        UserError: none does.
    """
    if not clips.num_timed:
        raise UserError(
            what="no clip has word times that fit its text, so reading_weight would do nothing",
            where=str(csv),
            fix="add the column word_times: the second at which each word begins, with spaces between; or leave it 0",
        )
    log.info("guided attention: %d of %d clips have word times", clips.num_timed, len(clips))
