"""Train the decoder that turns GPT latents and a speaker embedding into sound at 24 000 Hz.

Shapes: B crops, M latents (one for 1 024 samples at 22 050 Hz), D latent width, E speaker embedding width, N samples at
24 000 Hz.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

from utils.audio.pitch import track_pitch
from utils.config import CODE_SAMPLES, SAMPLE_RATE
from utils.errors import UserError
from utils.model.harmonic import HarmonicGenerator, pitch_losses
from utils.training.component import learning_rate_share, load_progress, save_progress, set_learning_rate
from utils.training.spectral import SpectralDiscriminator, SpectralLoss, discriminator_loss, generator_losses

log = logging.getLogger(__name__)

OUTPUT_RATE = 24_000
"""Sample rate of the decoder's sound, in Hz."""
SAMPLES_PER_LATENT = CODE_SAMPLES * OUTPUT_RATE / SAMPLE_RATE
"""Samples at 24 000 Hz that one latent stands for: 1 114.6, not a whole number."""

OnLog = Callable[[int, dict[str, float]], None]
"""Called with (step, mean of each loss since the last call)."""


@dataclass(frozen=True, kw_only=True)
class DecoderTraining:
    """How long and how fast a decoder learns."""

    steps: int = 6000
    """Optimizer steps in all."""
    batch_size: int = 8
    """Crops in one step."""
    crop_latents: int = 20
    """Latents of a crop that count in the loss; 20 are 0.93 s."""
    margin_latents: int = 2
    """Latents on each side that are decoded but do not count: at a cut the decoder lacks its context."""
    learning_rate: float = 1e-3
    """Peak learning rate of the decoder."""
    warmup_steps: int = 100
    """Steps over which the learning rate rises."""
    adversarial_from: int | None = None
    """Step from which a discriminator judges as well; never when None."""
    adversarial_weight: float = 0.1
    """Weight of the discriminator's verdict and of the distance in its features."""
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
        self._clips, self._lengths = [clip for clip, _ in kept], np.array([length for _, length in kept])

    def batch(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Latents [count, M, D], speakers [count, E, 1] and sound [count, 1, N]; longer clips are drawn more often."""
        chosen = rng.choice(len(self._clips), size=count, p=self._lengths / self._lengths.sum())
        starts = [int(rng.integers(0, self._lengths[one] - self.num_latents + 1)) for one in chosen]
        crops = [self._crop(self._clips[one], start) for one, start in zip(chosen, starts, strict=True)]
        speakers = torch.stack([self._clips[one].speaker for one in chosen]).float()
        return torch.stack([latents for latents, _ in crops]), speakers[:, :, None], torch.stack([s for _, s in crops])

    def _crop(self, clip: DecoderClip, start: int) -> tuple[Tensor, Tensor]:
        """Latents [M, D] from `start` on and the sound at the same place, [1, N]."""
        latents = np.load(clip.latents, mmap_mode="r")[start : start + self.num_latents].astype(np.float32)
        sound = torch.zeros(1, self.num_samples)
        first = round(start * SAMPLES_PER_LATENT)
        with soundfile.SoundFile(clip.wav) as file:
            assert file.samplerate == OUTPUT_RATE, f"{clip.wav} is at {file.samplerate} Hz"
            file.seek(min(first, file.frames))
            heard = file.read(self.num_samples, dtype="float32")
        sound[0, : len(heard)] = torch.from_numpy(heard)
        return torch.from_numpy(latents), sound


def frames_of(decoder: HifiDecoder, latents: Tensor) -> Tensor:
    """Latents [B, M, D] at the decoder's own rate, [B, D, T].

    Source: coqui-tts, HifiDecoder.forward, which squeezes the batch away where it has one row.
    """
    steps = decoder.ar_mel_length_compression / decoder.output_hop_length
    z = F.interpolate(latents.transpose(1, 2), scale_factor=steps, mode="linear")
    return F.interpolate(z, scale_factor=decoder.output_sample_rate / decoder.input_sample_rate, mode="linear")


def decode(decoder: HifiDecoder, latents: Tensor, speakers: Tensor) -> Tensor:
    """Sound of a batch: latents [B, M, D] and speakers [B, E, 1] to [B, 1, N]."""
    return decoder.waveform_decoder(frames_of(decoder, latents), g=speakers)


def train_decoder(
    decoder: HifiDecoder,
    clips: Sequence[DecoderClip],
    *,
    settings: DecoderTraining,
    folder: Path,
    on_log: OnLog | None = None,
) -> None:
    """Train the waveform decoder in place; goes on from the checkpoint in `folder` when there is one.

    The speaker encoder within `decoder` is left as it is. First the distance between spectrograms is all that counts;
    from `adversarial_from` on a discriminator says what still sounds made.

    Args:
        decoder: on the device to train on, weight norm still in place.
        clips: what to learn from.
        settings: steps, learning rates and the rest.
        folder: gets decoder_training.pt every `checkpoint_every` steps.
        on_log: told how it goes every `log_every` steps.

    Raises:
        UserError: no clip is long enough.
    """
    source, trainer = DecoderClips(clips, settings), _Trainer(decoder, settings)
    history: list[dict[str, float]] = []
    decoder.waveform_decoder.train()
    for step in range(load_progress(folder / "decoder_training.pt", **trainer.parts), settings.steps):
        batch = source.batch(settings.batch_size, np.random.default_rng((settings.seed, step)))
        history.append(trainer.step(step, *(tensor.to(decoder.device) for tensor in batch)))
        if (step + 1) % settings.log_every == 0:
            means = {name: float(np.mean([one[name] for one in history if name in one])) for name in history[-1]}
            told = ", ".join(f"{name} {value:.4f}" for name, value in means.items())
            log.info("decoder step %d of %d: %s", step + 1, settings.steps, told)
            if on_log is not None:
                on_log(step + 1, means)
            history.clear()
        if (step + 1) % settings.checkpoint_every == 0 or step + 1 == settings.steps:
            save_progress(folder / "decoder_training.pt", step + 1, **trainer.parts)
    decoder.eval()


class _Trainer:
    """Decoder, discriminator and their optimizers."""

    def __init__(self, decoder: HifiDecoder, settings: DecoderTraining) -> None:
        self.decoder, self.settings = decoder, settings
        self.generator: nn.Module = decoder.waveform_decoder
        self.spectral = SpectralLoss(OUTPUT_RATE).to(decoder.device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.discriminator = SpectralDiscriminator().to(decoder.device)
        self.optimizer = torch.optim.AdamW(self.generator.parameters(), betas=(0.8, 0.99))
        judge = self.discriminator.parameters()
        self.judge_optimizer = torch.optim.AdamW(judge, lr=settings.discriminator_learning_rate, betas=(0.8, 0.99))
        self.parts = {
            "generator": self.generator,
            "discriminator": self.discriminator,
            "optimizer": self.optimizer,
            "judge_optimizer": self.judge_optimizer,
        }

    def step(self, step: int, latents: Tensor, speakers: Tensor, sound: Tensor) -> dict[str, float]:
        """One optimizer step, of the discriminator too when it is its time; returns the losses by name."""
        settings = self.settings
        share = learning_rate_share(step, steps=settings.steps, warmup_steps=settings.warmup_steps)
        set_learning_rate(self.optimizer, settings.learning_rate * share)
        made, pitch = self._decode(latents, speakers, sound)
        made, real = self._inner(made), self._inner(sound)
        losses = self.spectral(made, real) | pitch
        total = torch.stack(list(losses.values())).sum()
        if settings.adversarial_from is not None and step >= settings.adversarial_from:
            losses["judge"] = self._judge(made.detach(), real)
            losses["verdict"], losses["features"] = generator_losses(self.discriminator, made, real)
            total = total + settings.adversarial_weight * (losses["verdict"] + losses["features"])
        _descend(self.optimizer, total, self.generator, settings.grad_clip_norm)
        return {name: loss.item() for name, loss in losses.items()}

    def _decode(self, latents: Tensor, speakers: Tensor, sound: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Decoded sound; and, where the decoder has a harmonic source, what it gets wrong of the pitch.

        The source is given the true pitch: harmonics then lie where the recording's are, and only there a distance of
        spectra says in which direction to go.
        """
        frames = frames_of(self.decoder, latents)
        if not isinstance(self.generator, HarmonicGenerator):
            return self.generator(frames, g=speakers), {}
        pitch = track_pitch(sound[:, 0], OUTPUT_RATE, self.generator.hop)[:, : frames.shape[2]]
        pitch = F.pad(pitch, (0, frames.shape[2] - pitch.shape[1]))
        made, told = self.generator.speak(frames, speakers, pitch)
        return made, pitch_losses(told, pitch)

    def _judge(self, made: Tensor, real: Tensor) -> Tensor:
        """One step of the discriminator; returns its loss."""
        loss = discriminator_loss(self.discriminator, made, real)
        _descend(self.judge_optimizer, loss, self.discriminator, self.settings.grad_clip_norm)
        return loss.detach()

    def _inner(self, sound: Tensor) -> Tensor:
        """[B, 1, N] without the margins: what decoded sound and recording both hold, [B, 1, n]."""
        start = round(self.settings.margin_latents * SAMPLES_PER_LATENT)
        return sound[..., start : start + int(self.settings.crop_latents * SAMPLES_PER_LATENT)]


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor, module: nn.Module, norm: float) -> None:
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(module.parameters(), norm)
    optimizer.step()
