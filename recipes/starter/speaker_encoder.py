"""Train a speaker encoder by speaker identification: audio to a unit vector that is near for the same voice.

Shapes: B clips, N samples at 16 000 Hz, E embedding width, S speakers.
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from TTS.encoder.models.resnet import ResNetSpeakerEncoder

from utils.codec_training.training_state import learning_rate_share, load_progress, save_progress, set_learning_rate
from utils.errors import UserError
from utils.options import SPEAKER_RATE

log = logging.getLogger(__name__)

AUDIO_CONFIG = {
    "fft_size": 512,
    "win_length": 400,
    "hop_length": 160,
    "sample_rate": SPEAKER_RATE,
    "preemphasis": 0.97,
    "num_mels": 64,
}
"""Spectrogram settings of XTTS v2 (coqui-tts, HifiDecoder's speaker_encoder_audio_config)."""


@dataclass(frozen=True, kw_only=True)
class SpeakerShape:
    """The size of a speaker encoder; the defaults are the starter's, stock has 32-256 filters and 3, 4, 6, 3 blocks."""

    width: int = 128
    """Length E of an embedding."""
    filters: tuple[int, ...] = (8, 16, 32, 64)
    """Channels of the four stages."""
    layers: tuple[int, ...] = (2, 2, 2, 2)
    """Blocks of the four stages."""


@dataclass(frozen=True, kw_only=True)
class SpeakerTraining:
    """How long and how fast a speaker encoder learns."""

    steps: int = 1500
    """Optimizer steps in all."""
    batch_size: int = 48
    """Crops in one step, each of a random speaker."""
    crop_s: float = 2.0
    """Length of a crop, in seconds; shorter clips are repeated."""
    learning_rate: float = 2e-3
    """Peak learning rate."""
    warmup_steps: int = 50
    """Steps over which the learning rate rises."""
    margin: float = 0.2
    """Angle, in radians, by which the right speaker must win; it rises to this over the first half of the steps."""
    scale: float = 20.0
    """Factor from cosines to logits."""
    log_every: int = 100
    """Steps between log lines."""
    checkpoint_every: int = 250
    """Steps between checkpoints."""
    seed: int = 1
    """Fixes crops and levels."""


@dataclass(frozen=True, kw_only=True)
class SpeakerClip:
    """One recording of a known speaker."""

    samples: np.ndarray
    """Mono int16 at 16 000 Hz, [N]; may be a memory map."""
    speaker: int
    """Number of the speaker, from 0."""


def new_speaker_encoder(shape: SpeakerShape) -> ResNetSpeakerEncoder:
    """A speaker encoder with random weights, laid out like the one of XTTS v2."""
    return ResNetSpeakerEncoder(
        input_dim=AUDIO_CONFIG["num_mels"],
        proj_dim=shape.width,
        layers=list(shape.layers),
        num_filters=list(shape.filters),
        log_input=True,
        use_torch_spec=True,
        audio_config=AUDIO_CONFIG,
    )


class AngularMargin(nn.Module):
    """Logits of an additive angular margin softmax: the cosine to each speaker's direction.

    Source: Deng et al. 2019, ArcFace, equation 3.
    """

    def __init__(self, width: int, num_speakers: int) -> None:
        super().__init__()
        self.directions = nn.Parameter(torch.randn(num_speakers, width))

    def forward(self, embeddings: Tensor, speakers: Tensor, *, margin: float, scale: float) -> Tensor:
        """Embeddings [B, E] and speakers [B] to logits [B, S]; the right speaker's angle is enlarged by `margin`."""
        cosine = F.linear(F.normalize(embeddings), F.normalize(self.directions)).clamp(-1 + 1e-6, 1 - 1e-6)
        sine = (1 - cosine.square()).sqrt()
        harder = cosine * math.cos(margin) - sine * math.sin(margin)
        right = F.one_hot(speakers, len(self.directions)).bool()
        return scale * torch.where(right, torch.minimum(harder, cosine), cosine)


def train_speaker_encoder(
    encoder: ResNetSpeakerEncoder,
    clips: Sequence[SpeakerClip],
    *,
    settings: SpeakerTraining,
    folder: Path,
    on_log: Callable[[int, float, float], None] | None = None,
) -> None:
    """Train `encoder` in place; resumes from the checkpoint in `folder` when there is one.

    Args:
        encoder: on the device to train on.
        clips: recordings of at least two speakers, numbered without gaps.
        settings: steps, learning rate and the rest.
        folder: gets speaker_training.pt every `checkpoint_every` steps.
        on_log: called with (step, mean loss, share of crops classified correctly) every `log_every` steps.

    Raises:
        UserError: there are fewer than two speakers.
    """
    by_speaker = _by_speaker(clips)
    head = AngularMargin(encoder.proj_dim, len(by_speaker)).to(next(encoder.parameters()).device)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], weight_decay=1e-3)
    parts = {"encoder": encoder, "head": head, "optimizer": optimizer}
    losses: list[float] = []
    hits: list[float] = []
    encoder.train()
    for step in range(load_progress(folder / "speaker_training.pt", **parts), settings.steps):
        rng = np.random.default_rng((settings.seed, step))
        wavs, speakers = (tensor.to(head.directions.device) for tensor in _batch(by_speaker, settings, rng))
        share = learning_rate_share(step, steps=settings.steps, warmup_steps=settings.warmup_steps)
        set_learning_rate(optimizer, settings.learning_rate * share)
        margin = settings.margin * min(1.0, 2 * step / settings.steps)
        logits = head(encoder(wavs), speakers, margin=margin, scale=settings.scale)
        loss = F.cross_entropy(logits, speakers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        hits.append((logits.argmax(1) == speakers).float().mean().item())
        if (step + 1) % settings.log_every == 0:
            loss_mean, right = float(np.mean(losses)), float(np.mean(hits))
            log.info("speaker step %d of %d: loss %.4f, right %.3f", step + 1, settings.steps, loss_mean, right)
            if on_log is not None:
                on_log(step + 1, loss_mean, right)
            losses.clear()
            hits.clear()
        if (step + 1) % settings.checkpoint_every == 0 or step + 1 == settings.steps:
            save_progress(folder / "speaker_training.pt", step + 1, **parts)
    encoder.eval()


@torch.no_grad()
def embed_clips(encoder: ResNetSpeakerEncoder, clips: Sequence[SpeakerClip]) -> Tensor:
    """Unit embeddings of whole clips, [len(clips), E], on the CPU."""
    device = next(encoder.parameters()).device
    encoder.eval()
    rows = [encoder(_samples(clip.samples)[None].to(device), l2_norm=True)[0].cpu() for clip in clips]
    return torch.stack(rows)


def identification_accuracy(known: Tensor, known_speakers: Tensor, asked: Tensor, asked_speakers: Tensor) -> float:
    """Share of `asked` embeddings whose nearest mean of `known` embeddings is their own speaker's.

    Args:
        known: unit embeddings to make each speaker's mean from, [n, E].
        known_speakers: their speakers, [n].
        asked: unit embeddings of other clips of these speakers, [m, E].
        asked_speakers: their speakers, [m].
    """
    means = torch.stack([known[known_speakers == one].mean(0) for one in range(int(known_speakers.max()) + 1)])
    return float((F.normalize(asked) @ F.normalize(means).T).argmax(1).eq(asked_speakers).float().mean())


def separation(voice: Tensor, others: Tensor) -> tuple[float, float, float]:
    """How well one voice stands out: mean cosine within it, to the others, and the equal error rate.

    Args:
        voice: unit embeddings of clips of one voice, [n, E].
        others: unit embeddings of clips of other voices, [m, E].
    """
    cosines = voice @ voice.T
    same = cosines[torch.triu(torch.ones_like(cosines), diagonal=1).bool()]
    different = (voice @ others.T).flatten()
    thresholds = torch.cat([same, different]).sort().values
    # At the equal error threshold as many same pairs fall below it as different pairs lie above.
    refused = torch.searchsorted(same.sort().values, thresholds) / len(same)
    accepted = 1 - torch.searchsorted(different.sort().values, thresholds) / len(different)
    rate = torch.maximum(refused, accepted).min()
    return float(same.mean()), float(different.mean()), float(rate)


def _by_speaker(clips: Sequence[SpeakerClip]) -> list[list[np.ndarray]]:
    """Samples of each speaker's clips."""
    numbers = sorted({clip.speaker for clip in clips})
    if len(numbers) < 2:
        raise UserError(
            what=f"{len(numbers)} speaker cannot be distinguished", fix="give clips of two speakers or more"
        )
    assert numbers == list(range(len(numbers))), "speakers are numbered from 0 without gaps"
    return [[clip.samples for clip in clips if clip.speaker == number] for number in numbers]


def _batch(
    by_speaker: list[list[np.ndarray]], settings: SpeakerTraining, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Random crops at random levels, [B, N] and their speakers [B]."""
    length = int(settings.crop_s * SPEAKER_RATE)
    speakers = rng.integers(0, len(by_speaker), size=settings.batch_size)
    crops = []
    for speaker in speakers:
        samples = by_speaker[speaker][rng.integers(0, len(by_speaker[speaker]))]
        samples = np.resize(samples, length) if len(samples) < length else samples
        start = rng.integers(0, len(samples) - length + 1)
        crops.append(_samples(samples[start : start + length]) * 10 ** rng.uniform(-0.5, 0.1))
    return torch.stack(crops), torch.from_numpy(speakers)


def _samples(samples: np.ndarray) -> Tensor:
    """int16 to float32 in [-1, 1]."""
    return torch.from_numpy(samples.astype(np.float32) / 32768)
