"""Training examples of a decoder: GPT latents of known speech, and crops of them with their waveform.

Shapes: B crops, M latents (one for 1 024 samples at 22 050 Hz), D latent width, E speaker embedding width, N samples at
24 000 Hz.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor

from utils.errors import UserError
from utils.model.gpt import XttsGpt
from utils.model.packing import STOPS, pack
from utils.options import CODE_SAMPLES, DATASET_RATE, OUTPUT_RATE

SAMPLES_PER_LATENT = CODE_SAMPLES * OUTPUT_RATE / DATASET_RATE
"""Samples at 24 000 Hz that one latent stands for: 1 114.6, not a whole number."""


@dataclass(frozen=True, kw_only=True)
class DecoderTraining:
    """How long and how fast a decoder learns."""

    steps: int = 6000
    """Optimizer steps in which sound is made."""
    batch_size: int = 8
    """Crops in one of them."""
    trunk_steps: int = 0
    """Steps before them in which an acoustic trunk learns alone: they make no sound, so they are cheap."""
    trunk_batch_size: int = 48
    """Crops in one of those."""
    speaker_noise: float = 0.0
    """Length of the noise on a speaker embedding, as a share of the embedding's: more voices than the known ones."""
    crop_latents: int = 20
    """Latents of a crop that count in the loss; 20 are 0.93 s."""
    margin_latents: int = 2
    """Latents on each side that are decoded but do not count: at a cut the decoder lacks its context."""
    learning_rate: float = 1e-3
    """Peak learning rate of the decoder."""
    warmup_steps: int = 100
    """Steps over which the learning rate rises."""
    adversarial_from: int = 0
    """Step from which the discriminator's loss counts; it learns from the first one on."""
    adversarial_weight: float = 0.1
    """Weight of the discriminator's verdict."""
    feature_weight: float = 0.1
    """Weight of the distance in its features."""
    bf16: bool = False
    """Whether convolutions run in bfloat16; spectra and losses do not."""
    discriminator_learning_rate: float = 2e-4
    """Learning rate of the discriminator."""
    grad_clip_norm: float = 10.0
    """Gradients are scaled down to this L2 norm."""
    log_every: int = 100
    """Steps between log lines."""
    checkpoint_every: int = 250
    """Steps between checkpoints."""
    seed: int = 1
    """Fixes the crops."""


@dataclass(frozen=True, kw_only=True)
class DecoderClip:
    """One clip: what the GPT thought while saying it, and how it sounds."""

    latents: Path
    """.npy file, [M, D], float16 or float32."""
    wav: Path
    """Mono recording at 24 000 Hz; it may be shorter than its latents by part of a code, silence follows."""
    speaker: Tensor
    """Speaker embedding, [E]."""


class DecoderClips:
    """Random crops of clips that are read from disk when they are needed.

    Args:
        clips: at least one that is long enough for a crop.
        settings: for the lengths.

    Raises:
        UserError: no clip is long enough.
    """

    def __init__(self, clips: Sequence[DecoderClip], settings: DecoderTraining) -> None:
        self.num_latents = settings.crop_latents + 2 * settings.margin_latents
        self.num_samples = round(self.num_latents * SAMPLES_PER_LATENT)
        # Only the header is read here: a memory map knows its length.
        lengths = [len(np.load(clip.latents, mmap_mode="r")) for clip in clips]
        kept = [(clip, length) for clip, length in zip(clips, lengths, strict=True) if length >= self.num_latents]
        if not kept:
            raise UserError(
                what=f"none of {len(clips)} clips has {self.num_latents} latents or more",
                fix="use longer clips or a shorter crop",
            )
        self._speaker_noise = settings.speaker_noise
        self._clips, self._lengths = [clip for clip, _ in kept], np.array([length for _, length in kept])

    def batch(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Latents [count, M, D], speakers [count, E, 1] and sound [count, 1, N]; longer clips are drawn more often."""
        chosen = rng.choice(len(self._clips), size=count, p=self._lengths / self._lengths.sum())
        starts = [int(rng.integers(0, self._lengths[one] - self.num_latents + 1)) for one in chosen]
        crops = [self._crop(self._clips[one], start) for one, start in zip(chosen, starts, strict=True)]
        speakers = torch.stack([self._clips[one].speaker for one in chosen]).float()
        noise = torch.from_numpy(rng.standard_normal(speakers.shape)).float() / speakers.shape[1] ** 0.5
        speakers = speakers + self._speaker_noise * speakers.norm(dim=1, keepdim=True) * noise
        return torch.stack([latents for latents, _ in crops]), speakers[:, :, None], torch.stack([s for _, s in crops])

    def _crop(self, clip: DecoderClip, start: int) -> tuple[Tensor, Tensor]:
        """Latents [M, D] from `start` on and the sound at the same place, [1, N]."""
        latents = np.load(clip.latents, mmap_mode="r")[start : start + self.num_latents].astype(np.float32)
        sound = torch.zeros(1, self.num_samples)
        first = round(start * SAMPLES_PER_LATENT)
        with soundfile.SoundFile(clip.wav) as file:
            assert file.samplerate == OUTPUT_RATE, f"{clip.wav} is at {file.samplerate} Hz"
            file.seek(min(first, file.frames))
            samples = file.read(self.num_samples, dtype="float32")
        sound[0, : len(samples)] = torch.from_numpy(samples)
        return torch.from_numpy(latents), sound


@torch.inference_mode()
def known_latents(
    gpt: XttsGpt, conditioning: Tensor, tokens: Sequence[Tensor], codes: Sequence[Tensor]
) -> list[Tensor]:
    """States that say the codes of each clip, and the stop after them, as decoding hands them on: [M + 1, D] each.

    Args:
        gpt: in evaluation mode.
        conditioning: latents of the voice that all clips are said with, [1, 32, D].
        tokens: texts, [N] each.
        codes: the true codes (teacher forcing), [M] each.
    """
    batch = pack(list(tokens), list(codes), gpt.shape).to(conditioning.device)
    embedded = gpt.embed(batch, conditioning.expand(len(codes), -1, -1))
    hidden = gpt.final_norm(gpt.transform(embedded, batch)).flatten(0, 1)
    # Places stand clip after clip, codes and stops; the first stop is the last state that decoding sees.
    indices = batch.code_indices[: batch.num_code_targets].split([len(clip) + STOPS for clip in codes])
    return [hidden[own[: len(clip) + 1]] for own, clip in zip(indices, codes, strict=True)]
