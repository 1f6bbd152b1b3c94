"""The clips of a run: read, checked, tokenized and encoded into a table, with every dropped clip named."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from utils.bases.base import Base
from utils.callbacks import ProgressFn
from utils.config import TrainConfig
from utils.dataset.storage.manifest import iter_manifest
from utils.errors import UserError
from utils.hardware.processor import usable_cpus
from utils.hardware.resources import memory
from utils.options import DATASET_RATE
from utils.project.paths import Project
from utils.text.tokenizer import Tokenizer
from utils.training.data.base import KeptLanguage
from utils.training.data.clip_list import (
    ClipList,
    ClipRow,
    TrainingClip,
    length_problem,
    reading_of,
    tokens_of,
)
from utils.training.data.codes import AudioFacts, AudioFiles, encode_missing, up_to_silence

BYTES_A_CLIP = 2_400
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
    num_own: int | None = None
    """Training clips of the run's own dataset, all when not given; those of other languages follow."""
    drawn: Sequence[tuple[int, int, int]] = ()
    """Of each other language: its first clip, the one after its last, and how many of them an epoch takes."""
    contents: list[str] = field(default_factory=list)
    """Hash of each clip's file, of the training clips and then the others."""

    @property
    def longest(self) -> TrainingClip:
        """The longest training clip of the run's own dataset: its reference recording."""
        return self.train[int(self.train.num_samples[: self.num_own].argmax())]

    @property
    def epoch_s(self) -> float:
        """Speech that an epoch takes, in seconds: all of the run's own clips, and of each other language its part."""
        samples = self.train.num_samples
        parts = (taken * samples[start:end].mean() for start, end, taken in self.drawn)
        return float(samples[: self.num_own].sum() + sum(parts)) / DATASET_RATE

    @cached_property
    def fingerprint(self) -> str:
        """12 hex digits that change when a clip comes, goes, or changes in length, text or codes."""
        digest = hashlib.sha256()
        for clips in (self.train, self.evaluate):
            clips.add_to(digest)
        return digest.hexdigest()[:12]

    def recordings(self) -> set[str]:
        """Hash and name of each clip's file."""
        paths = map(os.fsdecode, np.concatenate([self.train.paths, self.evaluate.paths]))
        return {f"{content} {Path(path).name}" for content, path in zip(self.contents, paths, strict=True)}


class _Row(NamedTuple):
    """A row of a manifest."""

    audio: str
    text: str
    speaker: str
    word_times: tuple[float, ...]


_Read = tuple[bytes, bytes] | str
"""A clip's tokens and reading, or why it does not train."""
_Known = Sequence[tuple[_Row, AudioFacts]]
_Tokenize = Callable[[_Known], list[_Read]]


def load_data(
    config: TrainConfig,
    project: Project,
    base: Base,
    accelerator: Accelerator,
    progress: ProgressFn | None = None,
    *,
    kept: Sequence[KeptLanguage] = (),
) -> TrainingData:
    """The clips of both manifests: read, checked, tokenized and encoded.

    Of several processes each reads and encodes its part of the recordings that are new.

    Args:
        config: settled settings.
        project: its dataset folder keeps the codes, and what is known of the recordings.
        base: its tokenizer reads the texts, its DVAE encodes the clips.
        accelerator: the processes.
        progress: called with (phase, done, in all).
        kept: clips of other languages, of which an epoch takes a share.

    Raises:
        UserError: a manifest cannot be read or does not fit into memory, a recording is missing or no sound, or no clip
            is left to train or evaluate on.
        OSError: the disk is full or not writable.
    """
    assert config.train_csv and config.eval_csv and config.language
    root, tokenizer = project.dataset / "codes", base.tokenizer()
    progress = progress or (lambda phase, done, total: None)
    own = tokenizer.check_language(config.language)
    sources = [(config.train_csv, own, "train on"), (config.eval_csv, own, "evaluate with")]
    sources += [(one.project.train_csv, one.language, f"keep {one.language} with") for one in kept]
    manifests = _rows([csv for csv, _, _ in sources])
    files = AudioFiles(root)
    if accelerator.num_processes > 1:
        # Each reads its part of the recordings that are new.
        rows = list(chain.from_iterable(manifests))
        for row in rows[accelerator.process_index :: accelerator.num_processes]:
            files.facts(Path(row.audio))
        files.save()
        accelerator.wait_for_everyone()
        files = AudioFiles(root)
    dropped, lists = Drops(), list[list[ClipRow]]()
    for rows, (csv, language, purpose) in zip(manifests, sources, strict=True):
        clips, lost = _checked(rows, partial(_tokenized, tokenizer, language, config), files, csv.name, progress)
        if not clips:
            first = f"; the first was dropped because {lost[0]['reason']}" if lost else ""
            what = f"there is no clip to {purpose}{first}"
            raise UserError(what=what, where=str(csv), fix="prepare the dataset again")
        dropped += lost
        lists.append(clips)
    num_own, drawn = len(lists[0]), list[tuple[int, int, int]]()
    for one, clips in zip(kept, lists[2:], strict=True):
        start, share = len(lists[0]), one.share / (1 - sum(each.share for each in kept))
        # Its speakers are not those of the same names in the dataset.
        lists[0] += [clip._replace(speaker=f"{one.project.folder}: {clip.speaker}") for clip in clips]
        drawn.append((start, len(lists[0]), min(len(clips), max(1, round(share * num_own)))))
        log.info(
            "an epoch takes %d of %d clips in %s, and %d of its own", drawn[-1][2], len(clips), one.language, num_own
        )
    del lists[2:]
    if accelerator.is_main_process:
        files.save()
    # A recording that several clips name is encoded once.
    recordings = {clip.content: Path(clip.audio) for clip in chain.from_iterable(lists)}
    cache = encode_missing(recordings, base, root, accelerator=accelerator, progress=progress)
    codes, tables = cache.mapped(), list[ClipList]()
    for clips in lists:
        spans = [cache.index[clip.content] for clip in clips]
        if config.trim_end:
            spans = [(start, len(up_to_silence(codes[start : start + count]))) for start, count in spans]
        tables.append(ClipList.of(clips, codes, spans))
    train, evaluate = tables
    if config.reading_weight:
        if not train.num_timed:
            raise UserError(
                what="no clip has word times that fit its text, so reading_weight would do nothing",
                where=str(config.train_csv),
                fix="add the column word_times: the second at which each word begins, with spaces between; or leave "
                "it 0",
            )
        log.info("guided attention: %d of %d clips have word times", train.num_timed, len(train))
    for drop in dropped:
        log.warning("not trained on: %s: %s", drop["clip"], drop["reason"])
    lengths = {clip.content: clip.num_samples for clip in lists[0]}
    return TrainingData(
        train=train,
        evaluate=evaluate,
        dropped=dropped,
        num_own=num_own,
        drawn=drawn,
        audio_bytes=2 * sum(lengths.values()),
        contents=[clip.content for clip in chain.from_iterable(lists)],
    )


def _rows(csvs: Sequence[Path]) -> list[list[_Row]]:
    """The rows of each manifest.

    Raises:
        UserError: they do not fit into memory, one cannot be read, or it names files that do not exist.
    """
    count, manifests = -len(csvs), list[list[_Row]]()
    for csv in csvs:
        # Reading it says why it cannot be opened.
        with suppress(OSError), csv.open("rb") as file:
            count += sum(block.count(b"\n") for block in iter(partial(file.read, 1 << 20), b""))
    needed, available = count * BYTES_A_CLIP, memory().available_bytes
    if needed > available:
        raise UserError(
            what=f"a list of {count:,} clips needs up to {needed / 1e9:.1f} GB of memory, and {available / 1e9:.1f} GB "
            "are free",
            where=str(csvs[0]),
            fix="train on fewer clips, or on a machine with more memory",
        )
    for csv in csvs:
        rows = [_Row(str(clip.audio), clip.text, clip.speaker, clip.word_times) for clip in iter_manifest(csv)]
        if missing := [row.audio for row in rows if not os.path.isfile(row.audio)]:  # noqa: PTH113 - ten million
            raise UserError(
                what=f"{len(missing)} of {len(rows)} audio files are missing, the first is {Path(missing[0]).name}",
                where=str(csv),
                fix="put the files back or correct the audio_file column",
            )
        manifests.append(rows)
    return manifests


def _checked(
    rows: Sequence[_Row], tokenize: _Tokenize, files: AudioFiles, name: str, progress: ProgressFn
) -> tuple[list[ClipRow], Drops]:
    """The clips that train, and the others with their reasons.

    Raises:
        UserError: a recording is no sound, or a process that tokenizes is gone.
    """
    known = list[tuple[_Row, AudioFacts]]()
    for number, row in enumerate(rows, start=1):
        known.append((row, files.facts(Path(row.audio))))
        progress("reading clips", number, len(rows))
    clips, dropped = list[ClipRow](), Drops()
    for done, ((row, facts), found) in enumerate(zip(known, _read(known, tokenize), strict=True), start=1):
        if isinstance(found, str):
            dropped.append({"clip": Path(row.audio).name, "reason": found})
        else:
            clips.append(ClipRow(row.audio, facts.content, row.speaker, facts.num_samples, facts.is_native, *found))
        progress(f"tokenizing {name}", done, len(rows))
    return clips, dropped


def _read(known: _Known, tokenize: _Tokenize) -> Iterator[_Read]:
    """What is made of each clip's text, in order; in several processes where there are many."""
    workers = min(usable_cpus(), MOST_PROCESSES) if len(known) >= WORTH_PROCESSES else 1
    loader: DataLoader[Any] = DataLoader(
        known,  # type: ignore[arg-type]  # any sequence is a data set
        batch_size=TEXTS_A_TASK,
        collate_fn=tokenize,
        num_workers=workers if workers > 1 else 0,
        # Its own: a loader draws a number, which must not move what the run draws.
        generator=torch.Generator(),
    )
    try:
        yield from chain.from_iterable(loader)
    except RuntimeError as error:
        if workers == 1:
            raise
        raise UserError(what=f"a process that tokenizes ended: {error}", fix="free memory, then start again") from error


def _tokenized(tokenizer: Tokenizer, language: str, config: TrainConfig, known: _Known) -> list[_Read]:
    """What is made of the texts of clips in a language (a plain code), or why one is longer than the settings allow."""
    found, most = list[_Read](), config.max_audio_length
    assert most
    for row, facts in known:
        try:
            if problem := length_problem(facts.num_samples, most):
                raise UserError(what=problem)
            tokens = tokens_of(row.text, tokenizer, language, config.max_text_length)
        except UserError as error:
            found.append(error.what)
            continue
        times = np.zeros(0, dtype=np.float32)
        if row.word_times:
            starts = tokenizer.word_starts(row.text, language)
            times = reading_of(row.word_times, starts, facts.num_samples / DATASET_RATE)
        found.append((np.array(tokens, dtype=np.int32).tobytes(), times.tobytes()))
    return found
