"""Train the DVAE, which turns speech into codes: from scratch for a new base, or from existing weights.

Shapes: B crops, C mel channels (80), F mel frames (256 samples each at 22 050 Hz), M = F / 4 codes, E codebook width,
K codes in the codebook (1 024).
"""

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from TTS.tts.layers.xtts.dvae import DiscreteVAE

from utils.codec_training.training_state import learning_rate_share, load_progress, save_progress, set_learning_rate
from utils.errors import UserError
from utils.model.dvae import build_dvae, needed_tensors
from utils.model.mel import dvae_mel
from utils.model.shapes import NUM_MELS
from utils.model.weights import read_weights, write_weights

log = logging.getLogger(__name__)

FRAMES_PER_CODE = 4
OnLog = Callable[[int, float, "DvaeQuality | None"], None]
"""Called with (step, mean training loss since the last call, quality on the evaluation clips)."""


@dataclass(frozen=True, kw_only=True)
class DvaeShape:
    """The size of a DVAE; the defaults are the starter's, XTTS v2 has hidden_dim 512, codebook_dim 512, 3 blocks."""

    num_tokens: int = 1024
    """Codes K in the codebook."""
    codebook_dim: int = 256
    """Width E of a codebook vector."""
    hidden_dim: int = 128
    """Channels after the first strided convolution; the second doubles them."""
    num_resnet_blocks: int = 2
    """Residual blocks on each side of the codebook."""


DEAD = 0.05
"""A code is dead when its moving average of choices per step is below this."""


@dataclass(frozen=True, kw_only=True)
class DvaeTraining:
    """How long and how fast a DVAE learns."""

    steps: int = 6000
    """Optimizer steps in all."""
    batch_size: int = 48
    """Crops in one step."""
    crop_frames: int = 128
    """Frames of a crop, a multiple of 4; 128 frames are 1.5 s."""
    learning_rate: float = 2e-3
    """Peak learning rate, reached after `warmup_steps`, then a cosine down to a fiftieth."""
    warmup_steps: int = 100
    """Steps over which the learning rate rises."""
    open_steps: int = 150
    """Steps without quantization, then the codebook is made of the encoder's outputs; 0 keeps the codebook as it is."""
    grad_clip_norm: float = 1.0
    """Gradients are scaled down to this L2 norm."""
    commitment_weight: float = 0.25
    """Weight of the pull of encoder outputs towards their code vectors."""
    revive_every: int = 50
    """Steps between revivals of dead codes."""
    revive_until: float = 0.8
    """Share of the steps after which dead codes are left alone, so that the codebook settles."""
    hold_unused: bool = False
    """Keep codes that the new speech never uses where they are: a model that knows the codebook starts from it."""
    log_every: int = 250
    """Steps between log lines."""
    checkpoint_every: int = 500
    """Steps between checkpoints."""
    seed: int = 1
    """Fixes crops and revivals."""


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


class MelCorpus:
    """Log-mels of many clips in one memory-mapped file, so that any crop is one read.

    Args:
        folder: where `build` has written frames.npy ([sum of F, C], float16) and lengths.npy.

    Raises:
        UserError: the folder holds no mel corpus.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / "lengths.npy").is_file():
            raise UserError(what="no mel corpus here", where=str(folder), fix="build it from audio first")
        self.frames = np.load(folder / "frames.npy", mmap_mode="r")
        self.lengths = np.load(folder / "lengths.npy")
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]])

    @classmethod
    def build(cls, wavs: Iterable[Tensor], folder: Path) -> "MelCorpus":
        """Write the log-mels of `wavs` ([1, N] each, 22 050 Hz) below `folder`; complete when lengths.npy exists.

        One clip is held at a time: a hundred hours are 5 GB of mels.
        """
        folder.mkdir(parents=True, exist_ok=True)
        spectrogram, lengths = dvae_mel(torch.ones(NUM_MELS)), []
        with (folder / "frames.npy").open("wb") as file:
            _write_header(file, 0)
            for wav in wavs:
                mel = spectrogram(wav)[0].T.half().contiguous().numpy()
                file.write(mel.tobytes())
                lengths.append(len(mel))
            file.seek(0)
            # numpy leaves room in a header for the number of rows to grow.
            _write_header(file, sum(lengths))
        np.save(folder / "lengths.npy", np.array(lengths))
        return cls(folder)

    def __len__(self) -> int:
        return len(self.lengths)

    def stats(self) -> Tensor:
        """Scale of each channel, shape [C], float32: the standard deviation of its log-mel, never below 0.1.

        XTTS v2 ships its own scales; dividing by the deviation gives every channel the same say in the error.
        """
        every = max(1, len(self.frames) // 200_000)
        return torch.from_numpy(self.frames[::every].astype(np.float32).std(0)).clamp(min=0.1)

    def crops(self, count: int, frames: int, rng: np.random.Generator) -> Tensor:
        """`count` random crops, each clip as likely as it is long, shape [count, C, frames], float32.

        Clips that are shorter than a crop are followed by what comes next in the file: in a codec a seam does no harm.

        Raises:
            UserError: all clips together are shorter than a crop.
        """
        if len(self.frames) <= frames:
            raise UserError(
                what=f"there are {len(self.frames)} mel frames of speech, a crop takes {frames}",
                fix="give more recordings",
            )
        starts = rng.integers(0, len(self.frames) - frames, size=count)
        batch = np.stack([self.frames[start : start + frames] for start in starts]).astype(np.float32)
        return torch.from_numpy(batch).transpose(1, 2).contiguous()

    def clip(self, index: int) -> Tensor:
        """Log-mel of one clip, shape [1, C, F], cut to whole codes."""
        length = self.lengths[index] // FRAMES_PER_CODE * FRAMES_PER_CODE
        frames = self.frames[self.starts[index] : self.starts[index] + length].astype(np.float32)
        return torch.from_numpy(frames.T.copy())[None]


def new_dvae(shape: DvaeShape) -> DiscreteVAE:
    """A DVAE with random weights, laid out like the one of XTTS v2."""
    return DiscreteVAE(
        channels=NUM_MELS,
        num_tokens=shape.num_tokens,
        codebook_dim=shape.codebook_dim,
        hidden_dim=shape.hidden_dim,
        num_resnet_blocks=shape.num_resnet_blocks,
        num_layers=2,
        kernel_size=3,
        positional_dims=1,
        use_transposed_convs=False,
    )


def train_dvae(
    dvae: DiscreteVAE,
    mels: MelCorpus,
    *,
    mel_stats: Tensor,
    settings: DvaeTraining,
    folder: Path,
    eval_mels: MelCorpus | None = None,
    on_log: OnLog | None = None,
) -> None:
    """Train `dvae` in place; resumes from the checkpoint in `folder` when there is one.

    Args:
        dvae: on the device to train on.
        mels: training clips.
        mel_stats: scale of each channel, [C].
        settings: steps, learning rate and the rest.
        folder: gets dvae_training.pt every `checkpoint_every` steps.
        eval_mels: clips to measure on, never trained on.
        on_log: called with the losses every `log_every` steps.
    """
    optimizer = torch.optim.AdamW(dvae.parameters(), betas=(0.9, 0.99), weight_decay=1e-4)
    parts = {"dvae": dvae, "optimizer": optimizer}
    scale = mel_stats.to(next(dvae.parameters()).device)[:, None]
    losses: list[float] = []
    dvae.train()
    for step in range(load_progress(folder / "dvae_training.pt", **parts), settings.steps):
        rng = np.random.default_rng((settings.seed, step))
        mel = mels.crops(settings.batch_size, settings.crop_frames, rng).to(scale) / scale
        if settings.open_steps and step == settings.open_steps:
            init_codebook(dvae, mels.crops(1024, 64, rng).to(scale) / scale, rng)
        share = learning_rate_share(step, steps=settings.steps, warmup_steps=settings.warmup_steps)
        set_learning_rate(optimizer, settings.learning_rate * share)
        held = dvae.codebook.embed.clone()
        losses.append(_step(dvae, mel, optimizer, settings, quantize=step >= settings.open_steps))
        if settings.hold_unused:
            hold_unused_codes(dvae, held)
        in_time = settings.open_steps < step < settings.revive_until * settings.steps
        if in_time and step % settings.revive_every == 0:
            revive_dead_codes(dvae, mel, rng)
        if (step + 1) % settings.log_every == 0:
            quality = evaluate_dvae(dvae, eval_mels, mel_stats) if eval_mels is not None else None
            log.info("dvae step %d of %d: loss %.5f %s", step + 1, settings.steps, np.mean(losses), quality or "")
            if on_log is not None:
                on_log(step + 1, float(np.mean(losses)), quality)
            losses.clear()
        if (step + 1) % settings.checkpoint_every == 0 or step + 1 == settings.steps:
            save_progress(folder / "dvae_training.pt", step + 1, **parts)
    dvae.eval()


@torch.no_grad()
def evaluate_dvae(dvae: DiscreteVAE, mels: MelCorpus, mel_stats: Tensor, *, max_clips: int = 200) -> DvaeQuality:
    """Quality of `dvae` on whole clips of `mels`, at most `max_clips` of them."""
    was_training = dvae.training
    dvae.eval()
    scale = mel_stats.to(next(dvae.parameters()).device)[:, None]
    error, frames, codes, kept = 0.0, 0, [], []
    for index in range(min(len(mels), max_clips)):
        mel = mels.clip(index).to(scale.device) / scale
        indices = dvae.get_codebook_indices(mel)
        error += float((dvae.decode(indices)[0] - mel).square().sum())
        frames += mel.shape[2]
        codes.append(indices.flatten().cpu())
        kept.append(mel[0].cpu())
    dvae.train(was_training)
    every = torch.cat(kept, dim=1)
    spread = float((every - every.mean(1, keepdim=True)).square().sum())
    counts = torch.bincount(torch.cat(codes), minlength=dvae.num_tokens).double()
    share = counts[counts > 0] / counts.sum()
    return DvaeQuality(
        error=error / (frames * every.shape[0]),
        explained_variance=1 - error / spread,
        codes_used=len(share),
        perplexity=math.exp(-float((share * share.log()).sum())),
    )


@torch.no_grad()
def init_codebook(dvae: DiscreteVAE, mel: Tensor, rng: np.random.Generator, *, rounds: int = 10) -> None:
    """Set the codebook to k-means centers of the encoder's outputs on `mel` ([B, C, F], divided by mel_stats).

    Random code vectors lie far from the encoder's outputs: a handful would win everything and the rest die.
    """
    outputs = _encoder_outputs(dvae, mel)
    assert len(outputs) >= dvae.num_tokens, "too few frames to make a codebook from"
    centers = outputs[torch.from_numpy(rng.permutation(len(outputs))[: dvae.num_tokens]).to(outputs.device)]
    for _ in range(rounds):
        nearest = torch.cdist(outputs, centers).argmin(1)
        counts = torch.bincount(nearest, minlength=len(centers))[:, None]
        sums = torch.zeros_like(centers).index_add_(0, nearest, outputs)
        centers = torch.where(counts > 0, sums / counts.clamp(min=1), centers)
    _set_codes(dvae, torch.arange(dvae.num_tokens, device=centers.device), centers)


@torch.no_grad()
def revive_dead_codes(dvae: DiscreteVAE, mel: Tensor, rng: np.random.Generator) -> int:
    """Move codes that are hardly chosen any more onto encoder outputs of this batch; returns how many."""
    dead = (dvae.codebook.cluster_size < DEAD).nonzero().flatten()
    outputs = _encoder_outputs(dvae, mel)
    dead = dead[: len(outputs)]
    chosen = torch.from_numpy(rng.permutation(len(outputs))[: len(dead)]).to(outputs.device)
    _set_codes(dvae, dead, outputs[chosen])
    return len(dead)


@torch.no_grad()
def hold_unused_codes(dvae: DiscreteVAE, held: Tensor) -> None:
    """Put codes that are hardly chosen back to `held`, [E, K]: a moving average of nothing drifts to zero."""
    unused = (dvae.codebook.cluster_size < DEAD).nonzero().flatten()
    _set_codes(dvae, unused, held[:, unused].T)


@torch.no_grad()
def restart_averages(dvae: DiscreteVAE) -> None:
    """Moving averages that give the codebook as it is: a file's own need not, and the first step would replace it."""
    _set_codes(dvae, torch.arange(dvae.num_tokens, device=dvae.codebook.embed.device), dvae.codebook.embed.T.clone())


def save_dvae(folder: Path, dvae: DiscreteVAE, mel_stats: Tensor) -> None:
    """Write dvae.safetensors (in float16) and mel_stats.pth ([C], float32), as a base model holds them.

    Half precision moves some close calls between codes: encode with what `load_dvae` gives back, not with `dvae`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    floating = {name: tensor.half() for name, tensor in dvae.state_dict().items() if tensor.is_floating_point()}
    write_weights(folder / "dvae.safetensors", dvae.state_dict() | floating)
    torch.save(mel_stats.float().cpu(), folder / "mel_stats.pth")


def load_dvae(folder: Path) -> tuple[DiscreteVAE, Tensor]:
    """The DVAE of a base folder in float32 and eval mode, and its mel_stats [C]: to measure it or to train it further.

    Raises:
        UserError: a file is missing, damaged, or no DVAE.
    """
    files = [folder / name for name in ("dvae.safetensors", "dvae.pth")]
    dvae = read_dvae(next((file for file in files if file.is_file()), files[0]))
    return dvae, read_weights(folder / "mel_stats.pth")["mel_stats"].float()


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


def _write_header(file: IO[bytes], rows: int) -> None:
    """The .npy header of [rows, C] float16."""
    header = {"descr": "<f2", "fortran_order": False, "shape": (rows, NUM_MELS)}
    np.lib.format.write_array_header_1_0(file, header)


def _step(
    dvae: DiscreteVAE, mel: Tensor, optimizer: torch.optim.Optimizer, settings: DvaeTraining, *, quantize: bool
) -> float:
    """One optimizer step on `mel` ([B, C, F], divided by mel_stats); returns the loss."""
    if quantize:
        error, commitment, _ = dvae(mel)
        loss = error.mean() + settings.commitment_weight * commitment
    else:
        loss = F.mse_loss(dvae.decoder(dvae.encoder(mel)), mel)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(dvae.parameters(), settings.grad_clip_norm)
    optimizer.step()
    return loss.item()


def _encoder_outputs(dvae: DiscreteVAE, mel: Tensor) -> Tensor:
    """What the codebook sees of `mel`, as [B * M, E]."""
    return dvae.encoder(mel).transpose(1, 2).flatten(0, 1)


def _set_codes(dvae: DiscreteVAE, which: Tensor, vectors: Tensor) -> None:
    """Put `vectors` ([n, E]) at the indices `which` ([n]), with the moving averages of a code chosen once a step."""
    book = dvae.codebook
    book.embed[:, which] = vectors.T
    book.cluster_size[which] = 1.0
    book.embed_avg[:, which] = vectors.T
