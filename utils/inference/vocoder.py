"""GPT latents to a waveform, whole or as they come: the base's HiFi-GAN with weight normalization folded in once.

Streaming is exact. Latents are interpolated to frames on one grid that begins with the sentence; each chunk is computed
with as many frames around it as the convolutions see, and only samples that no later latent can change are given. The
chunks behind one another are the waveform of the whole sentence, so nothing needs to be cross-faded.

Shapes: M latents (21.5 a second), D model width, T frames of 256 samples, N samples at 24 000 Hz.
"""

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from utils.model.decoder.acoustic import FRAMES_PER_LATENT, HOP
from utils.model.decoder.harmonic import HarmonicGenerator
from utils.model.decoder.vocos import SpectralGenerator
from utils.model.weights import NoRandomWeights

UNSETTLED = 4
"""Last frames that the next latent still changes: those interpolated from the last one held on."""
CONTEXT = 14
"""Frames on either side that a sample of HiFi-GAN depends on: 12.2 before it and 13.2 after it."""

WINDOW = 256
"""Frames that a GPU computes at a time, 2.7 s: longer sentences have one shape."""


class Vocoder:
    """The waveform decoder of a base.

    Args:
        decoder: HifiDecoder with its weights, in evaluation mode; its parametrizations are removed.
        bf16: compute in bfloat16; for processors that multiply it natively.
    """

    def __init__(self, decoder: nn.Module, *, bf16: bool = False) -> None:
        for module in decoder.modules():
            if parametrize.is_parametrized(module, "weight"):
                # Weight norm recomputes every weight at each call; folded in, the sums stay the same.
                parametrize.remove_parametrizations(module, "weight")
        generator: Any = decoder.waveform_decoder
        stock: Any = decoder
        # The starter's small generators gain nothing by bfloat16.
        self.dtype = torch.float32
        self.generator: _Plain | _Harmonic | SpectralGenerator = generator
        if isinstance(generator, HarmonicGenerator):
            self.generator = _Harmonic(generator)
        elif not isinstance(generator, SpectralGenerator):
            self.dtype = torch.bfloat16 if bf16 else torch.float32
            self.generator = _Plain(generator, self.dtype)
        self.module: nn.Module = getattr(self.generator, "module", generator)
        """What it computes with, maybe beside the decoder's own."""
        frames = UNSETTLED + self.generator.lookahead + self.generator.context
        self.delay_codes = math.ceil(frames / FRAMES_PER_LATENT)
        """Codes by which the samples of a stream lag behind, at the usual tempo."""
        self._scales = (
            stock.ar_mel_length_compression / stock.output_hop_length,
            stock.output_sample_rate / stock.input_sample_rate,
        )

    def __call__(self, latents: Tensor, speaker: Tensor, *, speed: float = 1.0) -> Tensor:
        """Waveform of one sentence.

        Args:
            latents: [1, M, D].
            speaker: speaker embedding, [1, E, 1].
            speed: 2 speaks twice as fast.

        Returns:
            float32 in [-1, 1], [1, N], on the CPU.

        Source: coqui-tts, Xtts.inference.
        """
        return self.stream(speaker, speed=speed).add(latents, is_last=True)

    def stream(self, speaker: Tensor, *, speed: float = 1.0) -> "WaveformStream":
        """A sentence whose latents come bit by bit; the arguments are those of a call."""
        return WaveformStream(self, speaker.float(), speed)

    def frames(self, latents: Tensor, speed: float) -> Tensor:
        """Latents [1, M, D] interpolated to frames [1, D, T] (coqui-tts, HifiDecoder.forward)."""
        if latents.shape[1] / speed < 1:
            latents = latents[:, :1]  # a word so short that nothing would be left of it
            speed = 1.0
        frames = latents.float().transpose(1, 2)
        for scale in (1 / speed, *self._scales):
            if scale != 1:
                frames = F.interpolate(frames, scale_factor=scale, mode="linear")
        return frames


class WaveformStream:
    """The waveform of one sentence, chunk by chunk."""

    def __init__(self, vocoder: Vocoder, speaker: Tensor, speed: float) -> None:
        self._vocoder, self._speaker, self._speed = vocoder, speaker, speed
        self._done = 0
        """Frames whose samples were given."""

    @torch.inference_mode()
    def add(self, latents: Tensor, *, is_last: bool) -> Tensor:
        """The samples that have become certain.

        Args:
            latents: all so far, [1, M, D].
            is_last: no more will come.

        Returns:
            float32 in [-1, 1], [1, N] on the CPU; N may be 0.
        """
        if not latents.size(1):
            return torch.zeros(1, 0)
        generator = self._vocoder.generator
        frames = self._vocoder.frames(latents, self._speed)
        # A slower tempo holds the last latent on for longer.
        unsettled = 0 if is_last else UNSETTLED + int(UNSETTLED / self._speed if self._speed != 1 else 0)
        end = settled = max(0, frames.size(2) - unsettled)
        inputs: Any = generator.prepare(frames[:, :, :settled] if settled else frames[:, :, :1], self._speaker)
        if not is_last:
            settled -= generator.lookahead
            end = settled - generator.context
        if end <= self._done:
            return torch.zeros(1, 0)
        first, last = max(0, self._done - generator.context), min(settled, end + generator.context)
        wav = generator.render(inputs, self._speaker, first, last)
        wav = wav[:, (self._done - first) * HOP : (end - first) * HOP]
        self._done = end
        # The starter's envelope filter may go a little beyond the range of samples.
        return wav.float().clamp(-1, 1).cpu()


class _Plain:
    """Stock's generator. The other two, `_Harmonic` and `SpectralGenerator`, offer the same."""

    context = CONTEXT
    """Frames on either side that a sample depends on."""
    lookahead = 0
    """Last frames of what is prepared that later ones change."""

    def __init__(self, generator: nn.Module, dtype: torch.dtype) -> None:
        self._is_flat = next(generator.parameters()).device.type == "cpu"
        self._dtype = dtype
        self.module = _with_channels_last(copy.deepcopy(generator)) if self._is_flat else generator
        self.module.requires_grad_(False).to(dtype)

    def prepare(self, frames: Tensor, speaker: Tensor) -> Tensor:
        """What is computed from the whole sentence so far."""
        return frames

    def render(self, inputs: Tensor, speaker: Tensor, first: int, last: int) -> Tensor:
        """Samples [1, N] of the frames from `first` to `last`, of what `prepare` gave."""
        x, g = inputs[:, :, first:last].to(self._dtype), speaker.to(self._dtype)
        if not self._is_flat:
            return self._in_windows(x, g)
        x = x[:, :, None].contiguous(memory_format=torch.channels_last)
        wav: Tensor = self.module(x, g=g[..., None])
        return wav[:, 0, 0]

    def _in_windows(self, x: Tensor, g: Tensor) -> Tensor:
        """Samples [1, N] of frames [1, D, T], at most WINDOW of them at a time.

        cuDNN chooses kernels again for each length. Padding the frames would change the last samples, as the layers pad
        with zeros after their own biases; windows that overlap by the context of a sample compute the same.
        """
        length, pieces = x.size(2), []
        step = WINDOW - 2 * CONTEXT if length > WINDOW else length
        for start in range(0, length, step):
            first = max(0, min(start - CONTEXT, length - WINDOW))
            wav = self.module(x[:, :, first : first + WINDOW], g=g)[:, 0]
            pieces.append(wav[:, (start - first) * HOP : (min(start + step, length) - first) * HOP])
        return torch.cat(pieces, 1)


class _Harmonic:
    """A former starter's: pitch, envelope and source are those of the sentence, as its phase has to continue."""

    context = CONTEXT + 4  # the envelope's filter looks two frames further, at a waveform that has its own context

    def __init__(self, generator: HarmonicGenerator) -> None:
        self._generator = generator
        # In float64: the phase of the source sums up what the pitch is rounded by, and sums over another number of
        # frames round in another way. In float32 a stream's high harmonics drift from the whole sentence's.
        precise = copy.deepcopy(generator).double()
        self._outline = precise.outline
        self.module: nn.Module = precise
        self.lookahead = generator.lookahead + 1

    def prepare(self, frames: Tensor, speaker: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        outline = self._outline(frames.double(), speaker.double())
        source = self._generator.source(outline)
        return frames, None if outline.mel is None else outline.mel.float(), source

    def render(self, inputs: tuple[Tensor, Tensor | None, Tensor], speaker: Tensor, first: int, last: int) -> Tensor:
        frames, mel, source = inputs
        part = slice(first, last)
        wav = self._generator.render(
            frames[:, :, part],
            speaker,
            None if mel is None else mel[:, :, part],
            source[:, :, first * HOP : last * HOP],
        )
        return wav[:, 0]


def _with_channels_last(module: nn.Module) -> nn.Module:
    """One-dimensional convolutions as flat two-dimensional ones, whose channels may lie last in memory.

    oneDNN computes wide kernels over few channels up to three times as fast so; the sums are the same.
    """
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Conv1d | nn.ConvTranspose1d):
            setattr(module, name, _flat(child))
        else:
            _with_channels_last(child)
    return module


def _flat(layer: nn.Conv1d | nn.ConvTranspose1d) -> nn.Module:
    shared: dict[str, Any] = {
        "in_channels": layer.in_channels,
        "out_channels": layer.out_channels,
        "kernel_size": (1, *layer.kernel_size),
        "stride": (1, *layer.stride),
        "padding": (0, *layer.padding),
        "dilation": (1, *layer.dilation),
        "groups": layer.groups,
        "bias": layer.bias is not None,
    }
    flat: nn.Conv2d | nn.ConvTranspose2d
    with NoRandomWeights():
        if isinstance(layer, nn.ConvTranspose1d):
            flat = nn.ConvTranspose2d(output_padding=(0, layer.output_padding[0]), **shared)
        else:
            flat = nn.Conv2d(**shared)
    flat.weight = nn.Parameter(layer.weight.detach()[:, :, None].contiguous(memory_format=torch.channels_last))
    flat.bias = layer.bias
    return flat
