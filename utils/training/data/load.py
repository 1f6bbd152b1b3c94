"""The clips of a run: read, checked, tokenized and encoded, with every dropped clip named."""

import hashlib
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from accelerate import Accelerator

from utils.bases.base import Base
from utils.config import TrainConfig
from utils.errors import UserError
from utils.events.progress import ProgressFn
from utils.project.paths import Project
from utils.training.data.audio_files import AudioFiles, start_time
from utils.training.data.clip_list import ClipList
from utils.training.data.clips import TrainingClip, limits_of
from utils.training.data.codes import cache_of, encode_missing
from utils.training.data.list_build import Drops, Reading, write_code_spans, write_rows, write_tokens
from utils.training.data.list_store import PARTS, about_list, csv_state, find_list, finish_list, list_key, new_list
from utils.training.data.share import by_main

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """The clips of a run."""

    train: ClipList
    evaluate: ClipList
    dropped: Drops
    """{clip, reason} of every clip of both manifests that is not used."""
    digest: str = ""
    """Their fingerprint, where it is known already."""
    audio_bytes: int = 0
    """Size of the training clips' files together, each once."""

    @property
    def longest(self) -> TrainingClip:
        """The longest training clip: the run's reference recording."""
        return self.train[self.train.longest]

    def fingerprint(self) -> str:
        """12 hex digits that change when a clip comes, goes, or changes in length, text or codes."""
        return self.digest or fingerprint_of(self.train, self.evaluate)


def fingerprint_of(*lists: ClipList) -> str:
    """See `TrainingData.fingerprint`."""
    digest = hashlib.sha256()
    for clips in lists:
        clips.add_to(digest)
    return digest.hexdigest()[:12]


def load_data(
    config: TrainConfig, project: Project, base: Base, accelerator: Accelerator, progress: ProgressFn | None = None
) -> TrainingData:
    """The clips of both manifests: read, checked, tokenized and encoded, or as they were found before.

    Args:
        config: settled settings.
        project: its dataset folder keeps the codes.
        base: its tokenizer reads the texts, its DVAE encodes the clips.
        accelerator: its processes share reading and encoding.
        progress: called with (phase, done, in all).

    Raises:
        UserError: see `write_rows`, `write_tokens` and `encode_missing`; or no clip is left to train or evaluate on.
        OSError: the disk is full or not writable.
    """
    assert config.train_csv and config.eval_csv and config.language
    csvs, root = (config.train_csv, config.eval_csv), project.dataset / "codes"
    tokenizer, cache = base.tokenizer(), cache_of(base, root)
    reading = Reading(
        vocab=tokenizer.path,
        amharic_g2p=tokenizer.amharic_g2p,
        language=tokenizer.check_language(config.language),
        limits=limits_of(config),
    )
    facts = {
        "csvs": [str(csv.absolute()) for csv in csvs],
        "language": reading.language,
        "amharic_g2p": reading.amharic_g2p,
        "limits": [reading.limits.max_audio_length, reading.limits.max_text_length],
        "trim_end": config.trim_end,
        "cache": str(cache.file.absolute()),
    }
    key, lists = list_key(facts, tokenizer.path), root / "lists"
    folder = by_main(accelerator, lambda: find_list(lists, key, csvs, cache))
    if folder is None:
        folder = _make_list(config, base, reading, root, key, accelerator, progress)
    train, evaluate = (ClipList.open(folder / name, cache.file) for name in PARTS)
    about = about_list(folder)
    if config.reading_weight:
        _log_word_times(train, config.train_csv)
    for drop in about["dropped"]:
        log.warning("not trained on: %s: %s", drop["clip"], drop["reason"])
    return TrainingData(
        train=train,
        evaluate=evaluate,
        dropped=about["dropped"],
        digest=about["fingerprint"],
        audio_bytes=about["audio_bytes"],
    )


def _make_list(
    config: TrainConfig,
    base: Base,
    reading: Reading,
    root: Path,
    key: str,
    accelerator: Accelerator,
    progress: ProgressFn | None,
) -> Path:
    """Make the columns of both manifests; all processes read and encode, the main one writes."""
    assert config.train_csv and config.eval_csv
    csvs, files = (config.train_csv, config.eval_csv), AudioFiles(root)
    with ExitStack() as stack:
        making = by_main(accelerator, lambda: stack.enter_context(new_list(root / "lists", key)))
        state, dropped = csv_state(csvs, start_time(root)), Drops()
        for name, purpose, csv in zip(PARTS, ("train on", "evaluate with"), csvs, strict=True):
            lost = write_rows(csv, making / name, reading.limits, files, accelerator, progress)
            unread, count = by_main(accelerator, partial(write_tokens, making / name, reading, csv.name, progress))
            lost += unread
            if not count:
                first = f"; the first was dropped because {lost[0]['reason']}" if lost else ""
                raise UserError(
                    what=f"there is no clip to {purpose}{first}", where=str(csv), fix="prepare the dataset again"
                )
            dropped += lost
        drafts = [ClipList.open(making / name, None) for name in PARTS]
        cache = encode_missing(
            lambda number: _path_of(drafts, number),
            np.concatenate([clips.contents for clips in drafts]),
            base,
            root,
            device=accelerator.device,
            progress=progress,
            accelerator=accelerator,
        )

        def finish() -> Path:
            for name in PARTS:
                write_code_spans(making / name, cache, is_trimmed=config.trim_end)
            train, evaluate = (ClipList.open(making / name, cache.file) for name in PARTS)
            about = state | {"cache": cache.identity(), "dropped": dropped}
            about |= {"fingerprint": fingerprint_of(train, evaluate), "audio_bytes": train.audio_bytes}
            return finish_list(making, key, about)

        return by_main(accelerator, finish)


def _path_of(lists: Sequence[ClipList], number: int) -> Path:
    """The recording of a clip that is counted through several lists."""
    for clips in lists:
        if number < len(clips):
            return clips.path(int(clips.columns["kept"][number]))
        number -= len(clips)
    raise IndexError(number)


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
