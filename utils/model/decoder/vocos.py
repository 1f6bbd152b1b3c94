"""A vocoder that works at the rate of frames: log-mel spectrograms to sound through an inverse STFT.

HiFi-GAN makes sound by upsampling, sample by sample; here a network at 94 frames a second predicts magnitude and phase
of each frame's spectrum, and one inverse Fourier transform does the rest. That is a tenth of the arithmetic.

Shapes: B sounds, T frames of 256 samples at 24 000 Hz, C mel channels (80), K frequency bins (513).
Source: Siuzdak 2023, Vocos: Closing the gap between time-domain and Fourier-based neural vocoders.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.model.decoder.acoustic import HOP, AcousticModel
from utils.model.shapes import NUM_MELS

FFT_SIZE = 1024
KERNEL = 7
EXPANSION = 3
LARGEST = 100.0
"""Magnitudes are at most this, as in Vocos: an exponential would have no bound."""


class SpectralVocoder(nn.Module):
    """Logarithms of mel magnitudes [B, C, T], each in its frame's middle, to sound [B, 1, 256 T].

    Args:
        width: channels of the network.
        blocks: ConvNeXt blocks.
    """

    window: Tensor

    def __init__(self, width: int = 320, blocks: int = 8) -> None:
        super().__init__()
        self.enter = nn.Conv1d(NUM_MELS, width, KERNEL, padding=KERNEL // 2)
        self.blocks = nn.ModuleList(ConvNextBlock(width, scale=1 / blocks) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.leave = nn.Linear(width, FFT_SIZE + 2)
        self.register_buffer("window", torch.hann_window(FFT_SIZE), persistent=False)
        self.lookahead = (KERNEL // 2) * (1 + blocks) + FFT_SIZE // HOP // 2
        """Frames after a frame that its sound depends on: half a kernel of each convolution, and of the window."""

    def forward(self, mel: Tensor) -> Tensor:
        x = self.enter(mel)
        for block in self.blocks:
            x = block(x)
        spectrum = self.leave(self.norm(x.transpose(1, 2))).transpose(1, 2).float()
        magnitude, phase = spectrum.chunk(2, dim=1)
        magnitude = magnitude.exp().clamp(max=LARGEST)
        return self._sound(magnitude * torch.complex(phase.cos(), phase.sin()))

    def _sound(self, spectrum: Tensor) -> Tensor:
        """Overlap-add of the frames' spectra [B, K, T]; the first frame's middle is at sample 128.

        torch.istft puts the first frame's middle at sample 0 and makes 256 (T - 1) samples.
        """
        frames = torch.fft.irfft(spectrum, FFT_SIZE, dim=1) * self.window[:, None]
        length = (frames.shape[2] - 1) * HOP + FFT_SIZE
        edge = (FFT_SIZE - HOP) // 2
        sound = _overlap_add(frames, length)[..., edge : length - edge]
        weight = _overlap_add(self.window.square()[None, :, None].expand(1, -1, frames.shape[2]), length)
        # At both ends fewer windows overlap; a floor keeps a frame's tail there from being blown up.
        return sound / weight[..., edge : length - edge].clamp(min=0.1)


class SpectralGenerator(nn.Module):
    """Frames [B, C, T] and voices [B, E, 1] to sound: an acoustic model predicts mels, the vocoder makes sound of them.

    Args:
        trunk: predicts each frame's mel.
        vocoder: trained on real mels of any speech; only the trunk learns a voice.
    """

    def __init__(self, trunk: AcousticModel, vocoder: SpectralVocoder) -> None:
        super().__init__()
        self.trunk, self.vocoder = trunk, vocoder
        self.context, self.lookahead = vocoder.lookahead, trunk.lookahead
        """Frames around a frame that its sound depends on, and those after it that its mel depends on."""

    def forward(self, x: Tensor, g: Tensor) -> Tensor:
        """Sound [B, 1, N] of frames [B, C, T] (or [C, T]) and a voice [B, E, 1]."""
        sound: Tensor = self.vocoder(self.trunk(x if x.dim() == 3 else x[None], g).mel)
        return sound

    def prepare(self, frames: Tensor, speaker: Tensor) -> Tensor:
        """Mels of a sentence so far, [1, C, T]."""
        mel: Tensor = self.trunk(frames, speaker).mel
        return mel

    def render(self, mel: Tensor, speaker: Tensor, first: int, last: int) -> Tensor:
        """Sound [1, N] of the frames from `first` to `last`."""
        sound: Tensor = self.vocoder(mel[:, :, first:last])
        return sound[:, 0]


class ConvNextBlock(nn.Module):
    """Depthwise convolution, then two layers on each frame, added to what came in (Liu et al. 2022, in one dimension).

    Args:
        width: channels.
        scale: what each channel of the block's own output begins with.
    """

    def __init__(self, width: int, *, scale: float) -> None:
        super().__init__()
        self.neighbors = nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, EXPANSION * width)
        self.narrow = nn.Linear(EXPANSION * width, width)
        self.scale = nn.Parameter(torch.full((width,), scale))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.neighbors(x).transpose(1, 2))
        return x + (self.scale * self.narrow(F.gelu(self.widen(y)))).transpose(1, 2)


def _overlap_add(frames: Tensor, length: int) -> Tensor:
    """Frames [B, 1024, T] that start 256 samples apart, added up: [B, 1, length]."""
    return F.fold(frames, (1, length), (1, FFT_SIZE), stride=(1, HOP))[:, 0]
