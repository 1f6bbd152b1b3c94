"""Train the decoder: GPT latents and a speaker embedding to a waveform at 24 000 Hz.

Shapes: B crops, M latents (one for 1 024 samples at 22 050 Hz), D latent width, E speaker embedding width, N samples at
24 000 Hz.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

from utils.audio.pitch import track_pitch
from utils.codec_training.training_state import (
    Stateful,
    learning_rate_share,
    load_progress,
    save_progress,
    set_learning_rate,
)
from utils.decoder_training.decoder_clips import SAMPLES_PER_LATENT, DecoderClip, DecoderClips, DecoderTraining
from utils.decoder_training.spectral import SpectralLoss, discriminator_loss, generator_losses
from utils.jobs.child import EXIT_BASE, StopRequest
from utils.model.decoder.acoustic import FRAMES_PER_LATENT, HOP, MIDDLE_HZ
from utils.model.decoder.vocos import SpectralGenerator
from utils.model.eager_adamw import EagerAdamW
from utils.model.shapes import NUM_MELS
from utils.options import OUTPUT_RATE

log = logging.getLogger(__name__)

OnLog = Callable[[int, dict[str, float]], None]
"""Called with (step, mean of each loss since the last call)."""


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
    critic: Callable[[], nn.Module] | None = None,
    last: int | None = None,
    on_log: OnLog | None = None,
) -> None:
    """Train the waveform decoder in place; resumes from the checkpoint in `folder` when there is one.

    The speaker encoder within `decoder` is left as it is. First the distance between spectrograms counts alone; from
    `adversarial_from` on a discriminator says what still sounds made. It learns from the first step on: one that knows
    nothing would spoil a decoder that speaks already.

    A stop by a signal saves and leaves as SystemExit with the status that shells give it.

    Args:
        decoder: on the device to train on, weight norm still in place.
        clips: what to learn from.
        settings: steps, learning rates and the rest.
        folder: gets decoder_training.pt every `checkpoint_every` steps, and at a stop.
        critic: makes the discriminator, of sounds [B, 1, N] to a list of `Verdict`; none for spectrograms alone.
        last: saves and returns after this many steps, from which the next call resumes; after all steps by default.
        on_log: called with the losses every `log_every` steps.

    Raises:
        UserError: no clip is long enough.
    """
    source, trainer = DecoderClips(clips, settings), _Trainer(decoder, settings, critic)
    history: list[dict[str, float]] = []
    steps = trainer.trunk_steps + settings.steps
    last = min(steps, last or steps)
    decoder.waveform_decoder.train()
    saved = folder / "decoder_training.pt"
    with StopRequest() as stop:
        for step in range(load_progress(saved, **trainer.parts), last):
            rng = np.random.default_rng((settings.seed, step))
            size = settings.trunk_batch_size if step < trainer.trunk_steps else settings.batch_size
            batch = [tensor.to(decoder.device) for tensor in source.batch(size, rng)]
            history.append(trainer.step(step, *batch))
            if (step + 1) % settings.log_every == 0:
                means = {name: float(np.mean([one[name] for one in history if name in one])) for name in history[-1]}
                losses = ", ".join(f"{name} {value:.4f}" for name, value in means.items())
                log.info("decoder step %d of %d: %s", step + 1, steps, losses)
                if on_log is not None:
                    on_log(step + 1, means)
                history.clear()
            if stop.number is not None or (step + 1) % settings.checkpoint_every == 0 or step + 1 == last:
                save_progress(saved, step + 1, **trainer.parts)
            if stop.number is not None and step + 1 < steps:
                log.warning("stopped after step %d of %d; the same command resumes there", step + 1, steps)
                raise SystemExit(EXIT_BASE + stop.number)
    decoder.eval()


class _Trainer:
    """Decoder, discriminator and their optimizers."""

    def __init__(self, decoder: HifiDecoder, settings: DecoderTraining, critic: Callable[[], nn.Module] | None) -> None:
        self.decoder, self.settings = decoder, settings
        self.generator: Any = decoder.waveform_decoder
        self.trunk_steps = settings.trunk_steps if hasattr(self.generator, "trunk") else 0
        """Steps before sound is made; none where there is no trunk to teach."""
        self.spectral = SpectralLoss(OUTPUT_RATE).to(decoder.device)
        self.optimizer = EagerAdamW(self.generator.parameters(), betas=(0.8, 0.99))
        self.parts: dict[str, Stateful] = {"generator": self.generator, "optimizer": self.optimizer}
        self.discriminator: nn.Module | None = None
        if critic is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(settings.seed)
                self.discriminator = critic().to(decoder.device)
            self.discriminator_optimizer = EagerAdamW(
                self.discriminator.parameters(), lr=settings.discriminator_learning_rate, betas=(0.8, 0.99)
            )
            # The names in saved states.
            self.parts |= {"discriminator": self.discriminator, "judge_optimizer": self.discriminator_optimizer}

    def step(self, step: int, latents: Tensor, speakers: Tensor, sound: Tensor) -> dict[str, float]:
        """One optimizer step, of the discriminator too when it is its time; returns the losses by name."""
        settings, frames = self.settings, frames_of(self.decoder, latents)
        if step < self.trunk_steps:
            # Of the trunk alone.
            self._set_learning_rate(step, self.trunk_steps)
            _, losses = self._outline(frames, speakers, sound)
            total = torch.stack(list(losses.values())).sum()
            _descend(self.optimizer, total, self.generator, settings.grad_clip_norm)
            return {name: loss.item() for name, loss in losses.items()}
        step -= self.trunk_steps
        self._set_learning_rate(step, settings.steps)
        with self._narrow():
            made, losses = self._decode(frames, speakers, sound)
        made, real = self._inner(made).float(), self._inner(sound)
        losses = self.spectral(made, real) | losses
        total = torch.stack(list(losses.values())).sum()
        if (critic := self.discriminator) is not None:
            with self._narrow():
                critic_loss = discriminator_loss(critic, made.detach(), real)
            _descend(self.discriminator_optimizer, critic_loss, critic, settings.grad_clip_norm)
            losses["judge"] = critic_loss.detach()
            if step >= settings.adversarial_from:
                with self._narrow():
                    losses["verdict"], losses["features"] = generator_losses(critic, made, real)
                total = total + settings.adversarial_weight * losses["verdict"]
                total = total + settings.feature_weight * losses["features"]
        _descend(self.optimizer, total, self.generator, settings.grad_clip_norm)
        return {name: loss.item() for name, loss in losses.items()}

    def _narrow(self) -> torch.autocast:
        return torch.autocast(self.decoder.device.type, torch.bfloat16, enabled=self.settings.bf16)

    def _set_learning_rate(self, step: int, steps: int) -> None:
        share = learning_rate_share(step, steps=steps, warmup_steps=self.settings.warmup_steps)
        set_learning_rate(self.optimizer, self.settings.learning_rate * share)

    def _decode(self, frames: Tensor, speakers: Tensor, sound: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Decoded sound; and, of a vocoder of frames, what its trunk gets wrong."""
        if not isinstance(self.generator, SpectralGenerator):
            return self.generator(frames, g=speakers), {}
        mel, losses = self._outline(frames, speakers, sound)
        return self.generator.vocoder(mel), losses

    def _outline(self, frames: Tensor, speakers: Tensor, sound: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The trunk's mels [B, 80, T], and how wrong they and its pitch are of sounds [B, 1, N]; margins do not count.

        The pitch is a second task of the trunk, whose spectra alone make sound.
        """
        outline = self.generator.trunk(frames, speakers)
        pitch = track_pitch(sound[:, 0], OUTPUT_RATE, HOP)[:, : frames.shape[2]]
        pitch = F.pad(pitch, (0, frames.shape[2] - pitch.shape[1]))
        voiced = pitch > 0
        octaves = (outline.pitch[:, 0] - (pitch / MIDDLE_HZ).log2()).abs()[voiced]
        # A frame's middle is half a frame after its beginning.
        target = self.spectral.log_mel(sound[..., HOP // 2 :])[..., : outline.mel.shape[2]]
        cut = round(self.settings.margin_latents * FRAMES_PER_LATENT)
        inner = slice(cut, target.shape[2] - cut)
        return outline.mel, {
            "pitch": octaves.sum() / max(1, len(octaves)),
            "voiced": F.binary_cross_entropy_with_logits(outline.pitch[:, 1], voiced.float()),
            "outline": F.l1_loss(outline.mel[..., inner], target[..., inner]),
        }

    def _inner(self, sound: Tensor) -> Tensor:
        """[B, 1, N] without the margins: what decoded sound and recording both hold, [B, 1, n]."""
        start = round(self.settings.margin_latents * SAMPLES_PER_LATENT)
        return sound[..., start : start + int(self.settings.crop_latents * SAMPLES_PER_LATENT)]


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor, module: nn.Module, norm: float) -> None:
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(module.parameters(), norm)
    optimizer.step()


@torch.no_grad()
def balance(decoder: HifiDecoder, clips: Sequence[DecoderClip]) -> Tensor:
    """Give each mel band the power that the recordings have in the mean; returns what was added, [80].

    A trunk that outlines the middle of what may come is right as often above as below, but power is a mean: bands that
    are hard to foretell came out up to 6 dB too soft.
    """
    spectral = SpectralLoss(OUTPUT_RATE)
    powers = torch.zeros(2, NUM_MELS)
    for clip in clips:
        latents = torch.from_numpy(np.load(clip.latents).astype(np.float32))[None]
        made = decode(decoder, latents, clip.speaker[None, :, None].float())
        real = torch.from_numpy(soundfile.read(clip.wav, dtype="float32")[0])[None, None, : made.shape[2]]
        for which, sound in enumerate((real, made[..., : real.shape[2]])):
            powers[which] += (2 * spectral.log_mel(sound)[0]).exp().mean(1)
    # A band in which the filter cannot follow must not run away: 1 is 8.7 dB.
    added = ((powers[0] / powers[1]).log() / 2).clamp(-1, 1)
    decoder.waveform_decoder.trunk.leave.bias[-NUM_MELS:] += added
    return added
