"""The clips of a run: read, checked, tokenized and encoded, with every dropped clip named."""

import hashlib
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import Accelerator
from numpy.typing import NDArray

from utils.bases.base import Base
from utils.config import TrainConfig
from utils.errors import UserError
from utils.events.progress import ProgressFn
from utils.project.paths import Project
from utils.training.data.audio_files import AudioFiles
from utils.training.data.clips import TrainingClip, limits_of, select_clips, within_limits
from utils.training.data.codes import cache_codes

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """The clips of a run."""

    train: list[TrainingClip]
    evaluate: list[TrainingClip]
    dropped: list[dict[str, Any]]
    """{clip, reason} of every clip of both manifests that is not used."""

    @property
    def longest(self) -> TrainingClip:
        """The longest training clip: the run's reference recording."""
        return max(self.train, key=lambda clip: clip.num_samples)

    def fingerprint(self) -> str:
        """12 hex digits that change when a clip comes, goes, or changes in length, text or codes."""
        digest = hashlib.sha256()
        for clip in (*self.train, *self.evaluate):
            digest.update(f"{clip.audio.name} {clip.num_samples}".encode("utf-8", "surrogateescape"))
            digest.update(clip.tokens.numpy().tobytes())
            digest.update(clip.codes.tobytes())
        return digest.hexdigest()[:12]


def load_data(
    config: TrainConfig, project: Project, base: Base, accelerator: Accelerator, progress: ProgressFn | None = None
) -> TrainingData:
    """Read, check, tokenize and encode the clips of both manifests.

    Args:
        config: settled settings.
        project: its dataset folder keeps the codes.
        base: its tokenizer reads the texts, its DVAE encodes the clips.
        accelerator: its processes share reading and encoding.
        progress: called with (phase, done, in all).

    Raises:
        UserError: see `select_clips` and `cache_codes`; or no clip is left to train or evaluate on.
    """
    assert config.train_csv and config.eval_csv and config.language
    tokenizer, limits = base.tokenizer(), limits_of(config)
    folder = project.dataset / "codes"
    files = AudioFiles(folder)
    kept: dict[str, list[TrainingClip]] = {}
    dropped: list[dict[str, Any]] = []
    for purpose, csv in (("train on", config.train_csv), ("evaluate with", config.eval_csv)):
        selection = select_clips(csv, tokenizer, config.language, progress)
        files.look([clip.audio for clip in selection.clips], accelerator, progress)
        kept[purpose], lost = within_limits(selection, limits, files, progress)
        if not kept[purpose]:
            first = f"; the first was dropped because {lost[0]['reason']}" if lost else ""
            raise UserError(
                what=f"there is no clip to {purpose}{first}", where=str(csv), fix="prepare the dataset again"
            )
        dropped += lost
    audio: list[Path] = [clip.audio for clips in kept.values() for clip in clips]
    codes = cache_codes(
        audio, base, folder, device=accelerator.device, progress=progress, files=files, accelerator=accelerator
    )
    if config.trim_end:
        codes = {path: up_to_silence(clip) for path, clip in codes.items()}
    train, evaluate = ([replace(clip, codes=codes[clip.audio]) for clip in clips] for clips in kept.values())
    if config.reading_weight:
        _log_word_times(train, config.train_csv)
    for drop in dropped:
        log.warning("not trained on: %s: %s", drop["clip"], drop["reason"])
    return TrainingData(train=train, evaluate=evaluate, dropped=dropped)


def up_to_silence(codes: NDArray[np.int16]) -> NDArray[np.int16]:
    """Codes up to the first of the equal ones at their end, [M] to [m]; see `TrainConfig.trim_end`."""
    others = np.flatnonzero(codes != codes[-1])
    return codes[: others[-1] + 2] if len(others) else codes[:1]


def _log_word_times(clips: list[TrainingClip], csv: Path) -> None:
    """Log how many clips have word times, which the guided attention loss needs.

    Raises:
        UserError: none does.
    """
    timed = sum(len(clip.reading) > 0 for clip in clips)
    if not timed:
        raise UserError(
            what="no clip has word times that fit its text, so reading_weight would do nothing",
            where=str(csv),
            fix="add the column word_times: the second at which each word begins, with spaces between; or leave it 0",
        )
    log.info("guided attention: %d of %d clips have word times", timed, len(clips))
