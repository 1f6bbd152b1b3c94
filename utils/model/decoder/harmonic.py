"""HiFi-GAN with a harmonic source: the generator is given a sine source of the predicted pitch.

Plain HiFi-GAN has to find the phase of every harmonic by itself, which takes days of a GPU. After hours of a CPU it
hums at the rate of its own frames, whatever the voice's pitch. Here the pitch is read from the latents, a source of
that pitch is made by formula, and each stage of the generator is conditioned on it.

Shapes: B sounds, T frames of 256 samples, N = 256 T samples at 24 000 Hz.
Source: Wang, Takaki and Yamagishi 2019, Neural source-filter waveform models, section II.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor, nn
from TTS.vocoder.models.hifigan_generator import LRELU_SLOPE, HifiganGenerator

from utils.model.decoder.acoustic import MIDDLE_HZ, AcousticFeatures, AcousticModel
from utils.model.shapes import NUM_MELS, DecoderShape
from utils.options import OUTPUT_RATE

LEAST_HZ, MOST_HZ = 50.0, 500.0
HIGHEST_HARMONIC_HZ = 10_000.0
SOURCES = 3
"""A sine, all its harmonics, and noise."""
HOP, FFT_SIZE = 256, 1024
FLOOR = 1e-5
MOST_GAIN = 3.0
"""Gains are at most e^3 either way, 26 dB: where a sound has nothing, only its rounding would be measured."""
HIDDEN = 64


class EnvelopeFilter(nn.Module):
    """Brings the mel spectrogram of a sound to the predicted one; all else of the sound stays: pitch, phase, noise.

    Source: the short-time filter of Allen and Rabiner 1977; gains between the mel bands' middles are weighted means.
    """

    bands: Tensor
    weights: Tensor
    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        bands = torchaudio.functional.melscale_fbanks(
            FFT_SIZE // 2 + 1, 0.0, OUTPUT_RATE / 2, NUM_MELS, OUTPUT_RATE, norm="slaney"
        )
        self.register_buffer("bands", bands, persistent=False)
        self.register_buffer("weights", _weights(bands), persistent=False)
        self.register_buffer("window", torch.hann_window(FFT_SIZE), persistent=False)

    def forward(self, sound: Tensor, mel: Tensor) -> Tensor:
        """The sound [B, 1, N] with the predicted logarithms of mel magnitudes, [B, 80, T], in the frames' middles."""
        # A spectrum for each frame's middle, and one on either side.
        padded = F.pad(sound[:, 0], (HOP // 2, HOP // 2))
        spectrum = torch.stft(padded, FFT_SIZE, HOP, window=self.window, return_complex=True)
        predicted = F.pad(mel, (1, 1), mode="replicate")
        # The root's gradient at zero is infinite: the floor goes under it.
        magnitude = (spectrum.real.square() + spectrum.imag.square()).clamp(min=FLOOR**2).sqrt()
        measured = (self.bands.T @ magnitude).clamp(min=FLOOR).log()
        gains = (self.weights @ (predicted - measured).clamp(-MOST_GAIN, MOST_GAIN)).exp()
        made = torch.istft(spectrum * gains, FFT_SIZE, HOP, window=self.window, length=padded.shape[1])
        return made[:, None, HOP // 2 : HOP // 2 + sound.shape[2]]


def _weights(bands: Tensor) -> Tensor:
    """How much each band [K, 80] says of each bin, [K, 80]; a bin that no band covers follows the nearest that does."""
    covered = bands.sum(1) > 0
    nearest = (torch.arange(len(covered))[:, None] - covered.nonzero().T).abs().argmin(1)
    rows = bands[covered.nonzero()[nearest, 0]]
    return rows / rows.sum(1, keepdim=True)


class HarmonicGenerator(HifiganGenerator):
    """Takes HifiganGenerator's own arguments; `forward` is the same to its callers.

    Args:
        trunk: says how each frame shall sound, and a filter sees to it; without one a small head reads the pitch.
    """

    def __init__(self, *args: Any, trunk: AcousticModel | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        width = self.ups[0].in_channels
        if trunk is not None:
            self.trunk, self.lookahead = trunk, trunk.lookahead
            self.listen = nn.Conv1d(NUM_MELS, width, 7, padding=3)
            self.envelope = EnvelopeFilter()
        else:
            self.lookahead = 3 + 2 + 2  # half a kernel of each convolution on the way
            self.pitch_head = nn.Sequential(
                nn.Conv1d(width, HIDDEN, 5, padding=2), nn.LeakyReLU(LRELU_SLOPE), nn.Conv1d(HIDDEN, 2, 5, padding=2)
            )
        strides = [up.stride[0] for up in self.ups]
        self.hop = math.prod(strides)
        self.sources = nn.ModuleList(
            _source_layer(up.out_channels, math.prod(strides[stage + 1 :])) for stage, up in enumerate(self.ups)
        )

    def forward(self, x: Tensor, g: Tensor) -> Tensor:
        """Sound [B, 1, N] of frames [B, C, T] (or [C, T], as stock's decoder gives one sound) and a voice [B, E, 1]."""
        x = x if x.dim() == 3 else x[None]
        outline = self.outline(x, g)
        return self.render(x, g, outline.mel, self.source(outline))

    def outline(self, x: Tensor, g: Tensor) -> AcousticFeatures:
        """How frames [B, C, T] of voices [B, E, 1] shall sound; each depends on `lookahead` frames after it."""
        if hasattr(self, "trunk"):
            features: AcousticFeatures = self.trunk(x, g)
            return features
        return AcousticFeatures(pitch=self.pitch_head(self.conv_pre(x) + self.cond_layer(g)))

    def source(self, outline: AcousticFeatures) -> Tensor:
        """The source that the outline asks for, [B, 3, N]."""
        return make_source(pitch_of(outline.pitch), self.hop)

    def render(self, x: Tensor, g: Tensor, mel: Tensor | None, source: Tensor) -> Tensor:
        """Sound [B, 1, N] of frames, voices, the outline's mel spectrum and a source; near frames alone decide it."""
        o = self.conv_pre(x) + self.cond_layer(g)
        if mel is not None:
            o = o + self.listen(mel)
        for stage, (up, condition, listen) in enumerate(zip(self.ups, self.conds, self.sources, strict=True)):
            o = up(F.leaky_relu(o, LRELU_SLOPE)) + condition(g) + listen(source)
            blocks = self.resblocks[stage * self.num_kernels : (stage + 1) * self.num_kernels]
            o = torch.stack([block(o) for block in blocks]).mean(0)
        sound = torch.tanh(self.conv_post(F.leaky_relu(o)))
        return sound if mel is None else self.envelope(sound, mel)


def harmonic_generator(shape: DecoderShape) -> HarmonicGenerator:
    """A generator of these sizes with random weights; the rest is as stock fixes it (coqui-tts, HifiDecoder)."""
    blocks = shape.trunk_blocks
    return HarmonicGenerator(
        shape.latent_width,
        1,
        "1",
        [[1, 3, 5]] * 3,
        [3, 7, 11],
        [16, 16, 4, 4],
        shape.initial_channels,
        [8, 8, 2, 2],
        inference_padding=0,
        cond_channels=shape.speaker_width,
        conv_pre_weight_norm=False,
        conv_post_weight_norm=False,
        conv_post_bias=False,
        cond_in_each_up_layer=True,
        trunk=AcousticModel(shape.latent_width, shape.speaker_width, blocks) if blocks else None,
    )


def pitch_of(predicted: Tensor) -> Tensor:
    """Pitch in Hz of each frame, 0 where unvoiced, [B, T], as the pitch head [B, 2, T] predicts it."""
    hertz = (MIDDLE_HZ * 2 ** predicted[:, 0].float()).clamp(LEAST_HZ, MOST_HZ)
    return torch.where(predicted[:, 1] > 0, hertz, 0.0)


def make_source(pitch: Tensor, hop: int) -> Tensor:
    """Sine, harmonics and noise of a pitch in Hz [B, T]: [B, 3, hop * T]; the noise is always the same."""
    voiced, frames = pitch > 0, torch.arange(pitch.shape[1], device=pitch.device)
    # Where nothing is voiced the last pitch continues, silently: its phase then never jumps.
    held = pitch.gather(1, torch.where(voiced, frames, 0).cummax(1).values).clamp(min=LEAST_HZ)
    gate = F.interpolate(voiced[:, None].to(pitch.dtype), scale_factor=hop, mode="linear")
    hertz = F.interpolate(held[:, None], scale_factor=hop, mode="linear")
    phase = ((hertz.double() / OUTPUT_RATE).cumsum(-1) % 1).float()
    number = F.interpolate((HIGHEST_HARMONIC_HZ / held).floor()[:, None], scale_factor=hop, mode="nearest")
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(1, 1, phase.shape[-1], generator=generator).to(phase).expand_as(phase)
    return torch.cat([gate * (2 * torch.pi * phase).sin(), gate * _harmonics(phase, number), noise], dim=1)


def _harmonics(phase: Tensor, number: Tensor) -> Tensor:
    """Sum of the first `number` cosines at a phase (in turns), brought to a root mean square of 1.

    Source: the Dirichlet kernel, 1 + 2 sum cos(2 pi k x) = sin((2 K + 1) pi x) / sin(pi x).
    """
    below = (torch.pi * phase).sin()
    near = below.abs() < 1e-4
    kernel = ((2 * number + 1) * torch.pi * phase).sin() / torch.where(near, 1.0, below)
    cosines = (torch.where(near, 2 * number + 1, kernel) - 1) / 2
    return cosines * (2 / number.clamp(min=1)).sqrt()


def _source_layer(channels: int, stride: int) -> nn.Conv1d:
    """Brings the source to a stage's rate and channels."""
    if stride == 1:
        return nn.Conv1d(SOURCES, channels, 7, padding=3)
    return nn.Conv1d(SOURCES, channels, 2 * stride, stride=stride, padding=stride // 2)
