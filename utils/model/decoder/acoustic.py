"""The acoustic model: predicts pitch and log-mel spectrum of each frame before the generator runs.

HiFi-GAN narrows the latents to a few channels at once and has its parameters where the sound is made, at hundreds of
frames a second and more. What a code sounds like in a voice can be worked out at 94 frames a second, for a
thousandth of the arithmetic, and be taught by spectrograms alone.

Shapes: B sounds, T frames of 256 samples at 24 000 Hz, C channels of a frame, E width of a speaker embedding, W width.
Source of the blocks: Liu et al. 2022, A ConvNet for the 2020s, in one dimension as in Siuzdak 2023, Vocos.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.model.shapes import NUM_MELS

WIDTH = 192
KERNEL = 9
EXPANSION = 3
MIDDLE_HZ = 150.0
"""Pitches are predicted in octaves from here."""
HOP = 256
"""Samples a frame."""
FRAMES_PER_LATENT = (1024 / 22_050) / (HOP / 24_000)
"""4.354: a latent stands for 1 024 samples at 22 050 Hz, a frame for 256 at 24 000 Hz."""


@dataclass(frozen=True)
class AcousticFeatures:
    """How each frame shall sound."""

    pitch: Tensor
    """Octaves from `MIDDLE_HZ`, and whether it is voiced (above 0): [B, 2, T]."""
    mel: Tensor | None = None
    """Logarithms of mel magnitudes, [B, 80, T]; None where there is no trunk."""


class AcousticModel(nn.Module):
    """Frames [B, C, T] and voices [B, E, 1] to their outline.

    Args:
        frame_width: C.
        speaker_width: E.
        blocks: at least 1.
    """

    def __init__(self, frame_width: int, speaker_width: int, blocks: int) -> None:
        super().__init__()
        self.enter = nn.Conv1d(frame_width + 2, WIDTH, KERNEL, padding=KERNEL // 2)
        self.blocks = nn.ModuleList(TrunkBlock(WIDTH, speaker_width) for _ in range(blocks))
        self.norm = nn.LayerNorm(WIDTH)
        self.leave = nn.Linear(WIDTH, 2 + NUM_MELS)
        self.lookahead = (KERNEL // 2) * (1 + blocks)
        """Frames after a frame that its outline depends on: half a kernel of each convolution on the way."""

    def forward(self, x: Tensor, g: Tensor) -> AcousticFeatures:
        x = self.enter(torch.cat([x, _places(x)], dim=1))
        for block in self.blocks:
            x = block(x, g)
        predicted = self.leave(self.norm(x.transpose(1, 2))).transpose(1, 2)
        return AcousticFeatures(pitch=predicted[:, :2], mel=predicted[:, 2:])


class TrunkBlock(nn.Module):
    """ConvNeXt block whose normalized frames the voice scales and shifts (Perez et al. 2018, FiLM)."""

    def __init__(self, width: int, speaker_width: int) -> None:
        super().__init__()
        self.neighbours = nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2, groups=width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.voice = nn.Linear(speaker_width, 2 * width)
        self.widen = nn.Linear(width, EXPANSION * width)
        self.narrow = nn.Linear(EXPANSION * width, width)

    def forward(self, x: Tensor, g: Tensor) -> Tensor:
        scale, shift = self.voice(g.transpose(1, 2)).chunk(2, dim=2)
        y = self.norm(self.neighbours(x).transpose(1, 2)) * (1 + scale) + shift
        return x + self.narrow(F.gelu(self.widen(y))).transpose(1, 2)


def _places(x: Tensor) -> Tensor:
    """Where in its latent each frame lies, as a point on a circle, [B, 2, T]; the first frame begins a latent."""
    turns = (torch.arange(x.shape[2], device=x.device) + 0.5) / FRAMES_PER_LATENT
    angles = 2 * torch.pi * (turns % 1)
    return torch.stack([angles.sin(), angles.cos()]).to(x.dtype).expand(len(x), -1, -1)
