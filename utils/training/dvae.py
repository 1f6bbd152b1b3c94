"""Train the discrete VAE that turns speech into codes: from scratch for a new base, or on from an existing one.

Shapes: B crops, C mel channels (80), F mel frames (256 samples each at 22 050 Hz), M = F / 4 codes, E codebook width,
K codes in the codebook (1 024).
"""

import json
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from TTS.tts.layers.tortoise.arch_utils import TorchMelSpectrogram
from TTS.tts.layers.xtts.dvae import DiscreteVAE

from utils.errors import UserError

log = logging.getLogger(__name__)

FRAMES_PER_CODE = 4
MEL_STATS_KEY = "mel_stats"
"""Name of the per-channel mel scale beside the DVAE's own tensors in the safetensors file."""


@dataclass(frozen=True, kw_only=True)
class DvaeShape:
    """The size of a DVAE; the defaults are the starter's, XTTS v2 has hidden_dim 512, codebook_dim 512, 3 blocks."""

    num_mels: int = 80
    """Mel channels C."""
    num_tokens: int = 1024
    """Codes K in the codebook."""
    codebook_dim: int = 256
    """Width E of a codebook vector."""
    hidden_dim: int = 128
    """Channels after the first strided convolution; the second doubles them."""
    num_resnet_blocks: int = 2
    """Residual blocks on each side of the codebook."""


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
    """Steps without quantization before the codebook is made from the encoder's outputs; 0 keeps the codebook as it is."""
    commitment_weight: float = 0.25
    """Weight of the pull of encoder outputs towards their code vectors."""
    revive_every: int = 50
    """Steps between revivals of dead codes."""
    revive_until: float = 0.8
    """Share of the steps after which dead codes are left alone, so that the codebook settles."""
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
        """Write the log-mels of `wavs` ([1, N] each, 22 050 Hz) below `folder`; complete when lengths.npy exists."""
        folder.mkdir(parents=True, exist_ok=True)
        spectrogram = mel_spectrogram(None)
        mels = [spectrogram(wav)[0].T.half().numpy() for wav in wavs]
        np.save(folder / "frames.npy", np.concatenate(mels))
        np.save(folder / "lengths.npy", np.array([len(mel) for mel in mels]))
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
        """
        starts = rng.integers(0, len(self.frames) - frames, size=count)
        batch = np.stack([self.frames[start : start + frames] for start in starts]).astype(np.float32)
        return torch.from_numpy(batch).transpose(1, 2).contiguous()

    def clip(self, index: int) -> Tensor:
        """Log-mel of one clip, shape [1, C, F], cut to whole codes."""
        length = self.lengths[index] // FRAMES_PER_CODE * FRAMES_PER_CODE
        frames = self.frames[self.starts[index] : self.starts[index] + length].astype(np.float32)
        return torch.from_numpy(frames.T.copy())[None]


def mel_spectrogram(mel_stats: Tensor | None) -> TorchMelSpectrogram:
    """The log-mel of XTTS: 80 channels, hop 256, divided by `mel_stats` ([C]) when given.

    Source: coqui-tts, TTS/tts/layers/tortoise/arch_utils.py, TorchMelSpectrogram.
    """
    spectrogram = TorchMelSpectrogram(mel_norm_file=None, sampling_rate=22_050)
    spectrogram.mel_norms = mel_stats
    return spectrogram


def build_dvae(shape: DvaeShape) -> DiscreteVAE:
    """A DVAE with random weights, laid out like the one of XTTS v2."""
    return DiscreteVAE(
        channels=shape.num_mels,
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
    on_log: Callable[[int, float, DvaeQuality | None], None] | None = None,
    eval_mels: MelCorpus | None = None,
) -> None:
    """Train `dvae` in place; goes on from the checkpoint in `folder` when there is one.

    Args:
        dvae: on the device to train on.
        mels: training clips.
        mel_stats: scale of each channel, [C].
        settings: steps, learning rate and the rest.
        folder: gets dvae_training.pt every `checkpoint_every` steps.
        on_log: called with (step, training error, quality on `eval_mels` or None) every `log_every` steps.
        eval_mels: clips to measure on, never trained on.
    """
    device = next(dvae.parameters()).device
    optimizer = torch.optim.AdamW(dvae.parameters(), lr=settings.learning_rate, betas=(0.9, 0.99), weight_decay=1e-4)
    checkpoint = folder / "dvae_training.pt"
    first_step = _resume(checkpoint, dvae, optimizer)
    scale = mel_stats.to(device)[:, None]
    dvae.train()
    error = 0.0
    for step in range(first_step, settings.steps):
        rng = np.random.default_rng((settings.seed, step))
        mel = mels.crops(settings.batch_size, settings.crop_frames, rng).to(device) / scale
        if step == settings.open_steps and settings.open_steps:
            init_codebook(dvae, mels.crops(1024, 64, rng).to(device) / scale, rng)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * _schedule(step, settings)
        loss = _loss(dvae, mel, quantize=step >= settings.open_steps, weight=settings.commitment_weight)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(dvae.parameters(), 1.0)
        optimizer.step()
        error += loss.item() / settings.log_every
        reviving = settings.open_steps < step < settings.revive_until * settings.steps
        if reviving and step % settings.revive_every == 0:
            revive_dead_codes(dvae, mel, rng)
        if (step + 1) % settings.log_every == 0:
            quality = evaluate_dvae(dvae, eval_mels, mel_stats) if eval_mels is not None else None
            log.info("dvae step %d of %d: loss %.5f %s", step + 1, settings.steps, error, quality or "")
            if on_log is not None:
                on_log(step + 1, error, quality)
            error = 0.0
        if (step + 1) % settings.checkpoint_every == 0 or step + 1 == settings.steps:
            _checkpoint(checkpoint, dvae, optimizer, step + 1)
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
    """Set the codebook to k-means centres of the encoder's outputs on `mel` ([B, C, F], divided by mel_stats).

    Random code vectors lie far from the encoder's outputs: a handful would win everything and the rest die.
    """
    outputs = _encoder_outputs(dvae, mel)
    assert len(outputs) >= dvae.num_tokens, "too few frames to make a codebook from"
    centres = outputs[torch.from_numpy(rng.permutation(len(outputs))[: dvae.num_tokens]).to(outputs.device)]
    for _ in range(rounds):
        nearest = torch.cdist(outputs, centres).argmin(1)
        counts = torch.bincount(nearest, minlength=len(centres))[:, None]
        sums = torch.zeros_like(centres).index_add_(0, nearest, outputs)
        centres = torch.where(counts > 0, sums / counts.clamp(min=1), centres)
    _set_codes(dvae, torch.arange(dvae.num_tokens, device=centres.device), centres)


@torch.no_grad()
def revive_dead_codes(dvae: DiscreteVAE, mel: Tensor, rng: np.random.Generator, *, threshold: float = 0.05) -> int:
    """Move codes that are hardly chosen any more onto encoder outputs of this batch; returns how many.

    Args:
        threshold: a code is dead when its moving average of choices per step is below this.
    """
    dead = (dvae.codebook.cluster_size < threshold).nonzero().flatten()
    outputs = _encoder_outputs(dvae, mel)
    dead = dead[: len(outputs)]
    chosen = torch.from_numpy(rng.permutation(len(outputs))[: len(dead)]).to(outputs.device)
    _set_codes(dvae, dead, outputs[chosen])
    return len(dead)


def save_dvae(path: Path, dvae: DiscreteVAE, *, mel_stats: Tensor, shape: DvaeShape) -> None:
    """Write weights, `mel_stats` and the shape (as JSON metadata) as safetensors."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in dvae.state_dict().items()}
    save_file(tensors | {MEL_STATS_KEY: mel_stats.cpu()}, path, metadata={"shape": json.dumps(asdict(shape))})


def load_dvae(path: Path) -> tuple[DiscreteVAE, Tensor, DvaeShape]:
    """The DVAE written by `save_dvae`, in eval mode, with mel_stats [C] and its shape.

    Raises:
        UserError: the file is missing or is no such file.
    """
    try:
        with safe_open(path, framework="pt") as file:
            shape = DvaeShape(**json.loads((file.metadata() or {})["shape"]))
            tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118 (not a dict)
            mel_stats = tensors.pop(MEL_STATS_KEY)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise UserError(what=f"not a DVAE file: {error}", where=str(path)) from error
    dvae = build_dvae(shape)
    dvae.load_state_dict(tensors)
    return dvae.eval(), mel_stats, shape


def _loss(dvae: DiscreteVAE, mel: Tensor, *, quantize: bool, weight: float) -> Tensor:
    """Mean squared error, plus the commitment when quantizing."""
    if not quantize:
        return torch.nn.functional.mse_loss(dvae.decoder(dvae.encoder(mel)), mel)
    error, commitment, _ = dvae(mel)
    return error.mean() + weight * commitment


def _encoder_outputs(dvae: DiscreteVAE, mel: Tensor) -> Tensor:
    """What the codebook sees of `mel`, as [B * M, E]."""
    return dvae.encoder(mel).transpose(1, 2).flatten(0, 1)


def _set_codes(dvae: DiscreteVAE, which: Tensor, vectors: Tensor) -> None:
    """Put `vectors` ([n, E]) in the places `which` ([n]), with the moving averages of a code chosen once a step."""
    book = dvae.codebook
    book.embed[:, which] = vectors.T
    book.cluster_size[which] = 1.0
    book.embed_avg[:, which] = vectors.T


def _schedule(step: int, settings: DvaeTraining) -> float:
    """Share of the peak learning rate: linear warm-up, then half a cosine down to 2 %."""
    if step < settings.warmup_steps:
        return (step + 1) / settings.warmup_steps
    done = (step - settings.warmup_steps) / max(1, settings.steps - settings.warmup_steps)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))


def _checkpoint(path: Path, dvae: DiscreteVAE, optimizer: torch.optim.Optimizer, step: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    torch.save({"dvae": dvae.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, part)
    part.rename(path)


def _resume(path: Path, dvae: DiscreteVAE, optimizer: torch.optim.Optimizer) -> int:
    """The step to go on from: 0 without a checkpoint."""
    if not path.is_file():
        return 0
    saved = torch.load(path, weights_only=True)
    dvae.load_state_dict(saved["dvae"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["step"]
