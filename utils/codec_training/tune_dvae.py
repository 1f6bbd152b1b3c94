"""Fine-tune the DVAE of a base with a project's speech, for a language with sounds that the base never saw.

Codes keep their meaning as far as the new speech allows: the codebook starts as it is, codes that the speech does not
use stay where they are, and the learning rate is the base's own.

Shapes: C mel channels (80), F mel frames (256 samples each at 22 050 Hz), E codebook width, K codes in the codebook.
"""

import hashlib
import logging
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from TTS.tts.layers.xtts.dvae import DiscreteVAE

from utils.audio.decode import load_audio
from utils.bases.base import Base
from utils.callbacks import ProgressFn
from utils.codec_training.training_state import learning_rate_share, load_progress, save_progress, set_learning_rate
from utils.dataset.storage.manifest import read_manifest
from utils.errors import UserError
from utils.model.dvae import build_dvae, fingerprint, needed_tensors
from utils.model.eager_adamw import EagerAdamW
from utils.model.mel import dvae_mel
from utils.model.shapes import NUM_MELS
from utils.model.weights import read_weights, write_weights
from utils.options import DATASET_RATE
from utils.project.paths import Project

log = logging.getLogger(__name__)

STEPS, CHECKPOINT_EVERY, WARMUP_STEPS = 1_000, 100, 100
BATCH_SIZE, CROP_FRAMES = 48, 128
"""Crops in one step, and frames of a crop, a multiple of `FRAMES_PER_CODE`: 1.5 s."""
COMMITMENT_WEIGHT = 0.25
"""Weight of the pull of encoder outputs towards their code vectors."""
FRAMES_PER_CODE = 4
MOST_MEASURED = 200
"""Clips that are measured at most."""
DEAD = 0.05
"""A code is dead when its moving average of choices per step is below this."""


@dataclass(frozen=True, kw_only=True)
class DvaeQuality:
    """How well a DVAE reproduces speech it was not trained on."""

    error: float
    """Mean squared error of mel / mel_stats."""
    explained_variance: float
    """1 - error / variance around each channel's mean, at most 1."""
    codes_used: int
    """Distinct codes that occur."""
    perplexity: float
    """exp(entropy) of the codes: the number of equally frequent codes that would carry as much."""


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
    """Share of the evaluation clips' codes that both give alike: what the GPT need not learn again."""
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


class MelCorpus:
    """Log-mels of many clips in one memory-mapped file, so that any crop is one read.

    Args:
        clips: recordings; what was read of them before a stop is used again when it was complete.
        folder: gets frames ([sum of F, C], float16) and, at the end, ends.npy: where each clip ends.
        progress: called with how far it is.

    Raises:
        UserError: there are no clips.
    """

    def __init__(self, clips: list[Path], folder: Path, progress: ProgressFn) -> None:
        if not clips:
            raise UserError(what="a set of the dataset is empty", where=str(folder.parent.parent), fix="add recordings")
        if not (folder / "ends.npy").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            spectrogram, lengths = dvae_mel(torch.ones(NUM_MELS)), []
            with (folder / "frames").open("wb") as file:
                # One clip is held at a time: a hundred hours are 5 GB of mels.
                for number, clip in enumerate(clips, start=1):
                    mel = spectrogram(load_audio(clip, DATASET_RATE))[0].T.half().contiguous().numpy()
                    file.write(mel.tobytes())
                    lengths.append(len(mel))
                    progress("reading clips", number, len(clips))
            np.save(folder / "ends.npy", np.cumsum(lengths))
        self.frames = np.memmap(folder / "frames", np.float16, "r").reshape(-1, NUM_MELS)
        self.ends = np.load(folder / "ends.npy")

    def crops(self, rng: np.random.Generator) -> Tensor:
        """Random crops, each clip as likely as it is long, shape [`BATCH_SIZE`, C, `CROP_FRAMES`], float32.

        Clips that are shorter than a crop are followed by what comes next in the file: in a codec a seam does no harm.

        Raises:
            UserError: all clips together are shorter than a crop.
        """
        if len(self.frames) <= CROP_FRAMES:
            raise UserError(
                what=f"there are {len(self.frames)} mel frames of speech, a crop takes {CROP_FRAMES}",
                fix="give more recordings",
            )
        starts = rng.integers(0, len(self.frames) - CROP_FRAMES, size=BATCH_SIZE)
        batch = np.stack([self.frames[start : start + CROP_FRAMES] for start in starts]).astype(np.float32)
        return torch.from_numpy(batch).transpose(1, 2).contiguous()

    def clips(self) -> Iterator[Tensor]:
        """Log-mels of the first clips, at most `MOST_MEASURED`: [1, C, F] each, cut to whole codes."""
        for start, end in zip([0, *self.ends], self.ends[:MOST_MEASURED], strict=False):
            frames = self.frames[start : end - (end - start) % FRAMES_PER_CODE].astype(np.float32)
            yield torch.from_numpy(frames.T.copy())[None]


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
    mels, eval_mels = (MelCorpus(audio, work / csv.stem, progress) for csv, audio in clips.items())
    scale, file = base.mel_stats().to(device)[:, None], work / "dvae.safetensors"
    own, tuned = read_dvae(base.dvae).to(device), read_dvae(base.dvae).to(device)
    before = evaluate_dvae(own, eval_mels, scale)
    restart_averages(tuned)
    _train(tuned, mels, scale, steps, rate, work, progress)
    floating = {name: tensor.half() for name, tensor in tuned.state_dict().items() if tensor.is_floating_point()}
    write_weights(file, tuned.state_dict() | floating)
    # What is measured is what is written: half precision moves close calls.
    tuned = read_dvae(file).to(device)
    after = evaluate_dvae(tuned, eval_mels, scale)
    if not after.error < before.error:
        shutil.rmtree(work, ignore_errors=True)
        raise UserError(
            what=f"the DVAE did not get better: its error was {before.error:.4f} and is {after.error:.4f}",
            where=str(base.dvae),
            fix="give more speech, another number of steps or a lower learning rate, or keep the base's own",
        )
    log.info("the DVAE's error was %.4f and is %.4f", before.error, after.error)
    pairs = [[dvae.get_codebook_indices(mel.to(device) / scale) for dvae in (own, tuned)] for mel in eval_mels.clips()]
    yield TunedDvae(
        file=file,
        before=before,
        after=after,
        same_codes=float(torch.cat([(one == other).flatten() for one, other in pairs]).float().mean()),
        steps=steps,
        learning_rate=rate,
    )
    del mels, eval_mels  # a mapped file cannot be removed on Windows
    shutil.rmtree(work, ignore_errors=True)


def _train(
    dvae: DiscreteVAE,
    mels: MelCorpus,
    scale: Tensor,
    steps: int,
    learning_rate: float,
    folder: Path,
    progress: ProgressFn,
) -> None:
    """Train `dvae` in place; resumes from the checkpoint in `folder` when there is one."""
    optimizer = EagerAdamW(dvae.parameters(), betas=(0.9, 0.99), weight_decay=1e-4)
    parts, saved, log_every = {"dvae": dvae, "optimizer": optimizer}, folder / "dvae_training.pt", max(1, steps // 20)
    dvae.train()
    for step in range(load_progress(saved, **parts), steps):
        mel = mels.crops(np.random.default_rng((1, step))).to(scale) / scale
        share = learning_rate_share(step, steps=steps, warmup_steps=min(WARMUP_STEPS, steps // 10))
        set_learning_rate(optimizer, learning_rate * share)
        held = dvae.codebook.embed.clone()
        error, commitment, _ = dvae(mel)
        loss = error.mean() + COMMITMENT_WEIGHT * commitment
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(dvae.parameters(), 1.0)
        optimizer.step()
        hold_unused_codes(dvae, held)
        if (step + 1) % log_every == 0:
            log.info("dvae step %d of %d: loss %.5f", step + 1, steps, loss.item())
            progress("training the DVAE", step + 1, steps)
        if (step + 1) % CHECKPOINT_EVERY == 0 or step + 1 == steps:
            save_progress(saved, step + 1, **parts)
    dvae.eval()


@torch.no_grad()
def evaluate_dvae(dvae: DiscreteVAE, mels: MelCorpus, scale: Tensor) -> DvaeQuality:
    """Quality of `dvae`, in evaluation mode, on whole clips of `mels`; `scale` is that of each channel, [C, 1]."""
    error, codes, kept = 0.0, [], []
    for mel in mels.clips():
        mel = mel.to(scale) / scale
        indices = dvae.get_codebook_indices(mel)
        error += float((dvae.decode(indices)[0] - mel).square().sum())
        codes.append(indices.flatten().cpu())
        kept.append(mel[0].cpu())
    every = torch.cat(kept, dim=1)
    spread = float((every - every.mean(1, keepdim=True)).square().sum())
    counts = torch.bincount(torch.cat(codes), minlength=dvae.num_tokens).double()
    share = counts[counts > 0] / counts.sum()
    return DvaeQuality(
        error=error / every.numel(),
        explained_variance=1 - error / spread,
        codes_used=len(share),
        perplexity=math.exp(-float((share * share.log()).sum())),
    )


@torch.no_grad()
def hold_unused_codes(dvae: DiscreteVAE, held: Tensor) -> None:
    """Put codes that are hardly chosen back to `held`, [E, K]: a moving average of nothing drifts to zero."""
    unused = (dvae.codebook.cluster_size < DEAD).nonzero().flatten()
    set_codes(dvae, unused, held[:, unused].T)


@torch.no_grad()
def restart_averages(dvae: DiscreteVAE) -> None:
    """Moving averages that give the codebook as it is: a file's own need not, and the first step would replace it."""
    set_codes(dvae, torch.arange(dvae.num_tokens, device=dvae.codebook.embed.device), dvae.codebook.embed.T.clone())


def set_codes(dvae: DiscreteVAE, which: Tensor, vectors: Tensor) -> None:
    """Put `vectors` ([n, E]) at the indices `which` ([n]), with the moving averages of a code chosen once a step."""
    book = dvae.codebook
    book.embed[:, which] = vectors.T
    book.cluster_size[which] = 1.0
    book.embed_avg[:, which] = vectors.T


def read_dvae(file: Path) -> DiscreteVAE:
    """A whole DVAE of a weight file, in float32 and eval mode.

    Raises:
        UserError: missing, damaged, no DVAE, or one without its decoder.
    """
    state = read_weights(file)
    dvae = build_dvae(state)
    assert isinstance(dvae, DiscreteVAE)
    if lacking := sorted(set(needed_tensors(dvae.state_dict())) - set(state)):
        raise UserError(
            what=f"the DVAE cannot be trained on: its file lacks {lacking[0]} and {len(lacking) - 1} more",
            where=str(file),
            fix="use the DVAE file that the base was published with",
        )
    return dvae.eval()


def _key(base: Base, clips: dict[Path, list[Path]], steps: int, rate: float) -> str:
    """8 hex digits that change with the DVAE, the clips, or how long and fast it learns."""
    files = [[(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in audio] for audio in clips.values()]
    parts = (fingerprint(base.dvae, base.mel_stats()), files, steps, rate)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]
