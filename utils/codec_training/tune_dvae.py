"""Fine-tune the DVAE of a base with a project's speech, for a language with sounds that the base never saw.

Codes keep their meaning as far as the new speech allows: the codebook starts as it is, codes that the speech does not
use stay where they are, and the learning rate is the base's own.
"""

import hashlib
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from TTS.tts.layers.xtts.dvae import DiscreteVAE

from utils.audio.decode import load_audio
from utils.bases.base import Base
from utils.callbacks import ProgressFn
from utils.codec_training.dvae import (
    DvaeQuality,
    DvaeTraining,
    MelCorpus,
    evaluate_dvae,
    load_dvae,
    read_dvae,
    restart_averages,
    save_dvae,
    train_dvae,
)
from utils.dataset.storage.manifest import read_manifest
from utils.errors import UserError
from utils.model.dvae import fingerprint
from utils.options import DATASET_RATE
from utils.project.paths import Project

log = logging.getLogger(__name__)

STEPS = 1_000
MOST_MEASURED = 200
"""Clips whose codes are compared at most."""


@dataclass(frozen=True, kw_only=True)
class TunedDvae:
    """A DVAE that knows the project's speech."""

    file: Path
    """Its weights, in the work folder."""
    before: DvaeQuality
    """Of the base's own DVAE, on the evaluation clips."""
    after: DvaeQuality
    """Of this one as it is written, on the same clips."""
    same_codes: float
    """Share of the evaluation clips' codes that both give alike: what the GPT need not learn anew."""
    steps: int
    learning_rate: float

    @property
    def facts(self) -> dict[str, Any]:
        """For about.json."""
        return {
            "tuned_steps": self.steps,
            "learning_rate": self.learning_rate,
            "same_codes": round(self.same_codes, 4),
            "before": asdict(self.before),
            "after": asdict(self.after),
        }


@contextmanager
def tuned_dvae(
    base: Base,
    project: Project,
    *,
    steps: int = STEPS,
    learning_rate: float | None = None,
    device: torch.device,
    progress: ProgressFn | None = None,
) -> Iterator[TunedDvae]:
    """Train a base's DVAE on with the project's clips; its file lasts as long as the block.

    An interrupted training resumes from its last checkpoint; a block that ends well leaves nothing.

    Args:
        base: whose DVAE; it stays as it is.
        project: its training clips train, its evaluation clips measure.
        steps: optimizer steps.
        learning_rate: the base's own when None.
        device: where to train.
        progress: called with how far it is.

    Raises:
        UserError: no dataset, a DVAE without its decoder, too little speech, or an error that did not fall.
    """
    progress = progress or (lambda phase, done, total: None)
    rate = learning_rate or base.defaults.dvae_learning_rate or base.defaults.learning_rate
    clips = {csv: [clip.audio for clip in read_manifest(csv)] for csv in (project.train_csv, project.eval_csv)}
    work = project.folder / f".dvae-{_key(base, clips, steps, rate)}"
    mels = [_mels(audio, work / csv.stem, progress) for csv, audio in clips.items()]
    settings = _settings(steps, rate)
    yield _tune(base, mels[0], mels[1], settings, work, device, progress)
    del mels  # a mapped file cannot be removed on Windows
    shutil.rmtree(work, ignore_errors=True)


def _settings(steps: int, learning_rate: float) -> DvaeTraining:
    return DvaeTraining(
        steps=steps,
        learning_rate=learning_rate,
        warmup_steps=min(100, steps // 10),
        open_steps=0,
        # Moving a dead code would give its number another meaning.
        revive_until=0.0,
        hold_unused=True,
        log_every=max(1, steps // 20),
        checkpoint_every=100,
    )


def _tune(
    base: Base,
    mels: MelCorpus,
    eval_mels: MelCorpus,
    settings: DvaeTraining,
    work: Path,
    device: torch.device,
    progress: ProgressFn,
) -> TunedDvae:
    scale = base.mel_stats()
    own, tuned = read_dvae(base.dvae).to(device), read_dvae(base.dvae).to(device)
    before = evaluate_dvae(own, eval_mels, scale)
    restart_averages(tuned)
    train_dvae(
        tuned,
        mels,
        mel_stats=scale,
        settings=settings,
        folder=work,
        on_log=lambda step, loss, quality: progress("training the DVAE", step, settings.steps),
    )
    save_dvae(work, tuned, scale)
    # What is measured is what is written: half precision moves close calls.
    tuned = load_dvae(work)[0].to(device)
    after = evaluate_dvae(tuned, eval_mels, scale)
    if not after.error < before.error:
        shutil.rmtree(work, ignore_errors=True)
        raise UserError(
            what=f"the DVAE did not get better: its error was {before.error:.4f} and is {after.error:.4f}",
            where=str(base.dvae),
            fix="give more speech, another number of steps or a lower learning rate, or keep the base's own",
        )
    log.info("the DVAE's error was %.4f and is %.4f", before.error, after.error)
    return TunedDvae(
        file=work / "dvae.safetensors",
        before=before,
        after=after,
        same_codes=_same_codes(own, tuned, eval_mels, scale.to(device)),
        steps=settings.steps,
        learning_rate=settings.learning_rate,
    )


@torch.no_grad()
def _same_codes(own: DiscreteVAE, tuned: DiscreteVAE, mels: MelCorpus, scale: Tensor) -> float:
    same = count = 0
    for index in range(min(len(mels), MOST_MEASURED)):
        mel = mels.clip(index).to(scale.device) / scale[:, None]
        codes = own.get_codebook_indices(mel)
        same += int((codes == tuned.get_codebook_indices(mel)).sum())
        count += codes.numel()
    return same / count


def _mels(clips: list[Path], folder: Path, progress: ProgressFn) -> MelCorpus:
    """The clips' mels, made once."""
    if (folder / "lengths.npy").is_file():
        return MelCorpus(folder)

    def sounds() -> Iterator[Tensor]:
        for number, clip in enumerate(clips, start=1):
            yield load_audio(clip, DATASET_RATE)
            progress("reading clips", number, len(clips))

    return MelCorpus.build(sounds(), folder)


def _key(base: Base, clips: dict[Path, list[Path]], steps: int, rate: float) -> str:
    """8 hex digits that change with the DVAE, the clips, or how long and fast it learns."""
    files = [[(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in audio] for audio in clips.values()]
    parts = (fingerprint(base.dvae, base.mel_stats()), files, steps, rate)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]
