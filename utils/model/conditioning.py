"""Conditioning encoder and perceiver: a mel spectrogram to the 32 latents that condition the GPT.

Shapes: B rows, F mel frames, D model width, H heads, C channels a head, P = 32 latents.

The same modules, keys and sums as coqui-tts (ConditioningEncoder, PerceiverResampler), with the attention kernel open
to choice.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.model.attention import explicit_attention
from utils.model.shapes import NUM_LATENTS, NUM_MELS

Run = Callable[..., Tensor]
"""Calls a block with its inputs: as it is, or in a way that saves memory."""

PERCEIVER_HEADS = 8
PERCEIVER_HEAD_CHANNELS = 64
PERCEIVER_DEPTH = 2
ENCODER_BLOCKS = 6


def norm_groups(channels: int) -> int:
    """Groups of a GroupNorm (coqui-tts, arch_utils.normalization)."""
    groups = 8 if channels <= 16 else 16 if channels <= 64 else 32
    while channels % groups:
        groups //= 2
    assert groups > 2, f"{channels} channels cannot be normalized in groups"
    return groups


class EncoderBlock(nn.Module):
    """Self-attention over mel frames. The residual is added to the normalized input, as stock does."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(norm_groups(width), width)
        self.qkv = nn.Conv1d(width, 3 * width, 1)
        self.proj_out = nn.Conv1d(width, width, 1)
        nn.init.zeros_(self.proj_out.weight)
        assert self.proj_out.bias is not None
        nn.init.zeros_(self.proj_out.bias)

    def forward(self, x: Tensor, kernel: Callable[..., Tensor]) -> Tensor:
        """[B, D, F] -> [B, D, F]."""
        rows, width, frames = x.shape
        # GroupNorm in float32: sums over thousands of frames lose too much in half precision.
        normed = self.norm(x.float()).to(x.dtype)
        # The 1x1 convolutions as matrix products, frames first: heads then lie in memory as fused attention wants them.
        # Stock's channel order is head-major: each head's q, k and v lie together.
        qkv = F.linear(normed.transpose(1, 2), self.qkv.weight.squeeze(-1), self.qkv.bias)
        q, k, v = qkv.view(rows, frames, self.heads, 3, width // self.heads).permute(3, 0, 2, 1, 4)
        attended = kernel(q, k, v, causal=False).transpose(1, 2).reshape(rows, frames, width)
        return normed + F.linear(attended, self.proj_out.weight.squeeze(-1), self.proj_out.bias).transpose(1, 2)


class ConditioningEncoder(nn.Module):
    """Mel frames to features of model width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.init = nn.Conv1d(NUM_MELS, width, 1)
        self.attn = nn.ModuleList(EncoderBlock(width, heads) for _ in range(ENCODER_BLOCKS))

    def forward(self, mel: Tensor, kernel: Callable[..., Tensor], run: Run) -> Tensor:
        """[B, 80, F] -> [B, D, F]; `run` calls each block."""
        x = self.init(mel)
        for block in self.attn:
            x = run(block, x, kernel)
        return x


class PerceiverAttention(nn.Module):
    """Latents look at themselves and at the recording."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = PERCEIVER_HEADS * PERCEIVER_HEAD_CHANNELS
        self.to_q = nn.Linear(width, inner, bias=False)
        self.to_kv = nn.Linear(width, 2 * inner, bias=False)
        self.to_out = nn.Linear(inner, width, bias=False)

    def forward(self, latents: Tensor, context: Tensor, kernel: Callable[..., Tensor]) -> Tensor:
        """[B, P, D] and [B, F, D] -> [B, P, D]."""
        seen = torch.cat([latents, context], dim=1)
        q, (k, v) = self.to_q(latents), self.to_kv(seen).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (PERCEIVER_HEADS, PERCEIVER_HEAD_CHANNELS)).transpose(1, 2) for t in (q, k, v))
        return self.to_out(kernel(q, k, v, causal=False).transpose(1, 2).flatten(2))


class GatedGelu(nn.Module):
    """Half of the channels, gated by the other half."""

    def forward(self, x: Tensor) -> Tensor:
        value, gate = x.chunk(2, dim=-1)
        return value * F.gelu(gate)


class RmsNorm(nn.Module):
    """Vectors scaled to length sqrt(D), times a learned gain."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1) * x.size(-1) ** 0.5 * self.gamma


class PerceiverResampler(nn.Module):
    """Any number of frames to 32 latents."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = int(width * 4 * 2 / 3)
        self.latents = nn.Parameter(torch.empty(NUM_LATENTS, width).normal_(std=0.02))
        self.layers = nn.ModuleList(
            nn.ModuleList(
                [
                    PerceiverAttention(width),
                    nn.Sequential(nn.Linear(width, 2 * inner), GatedGelu(), nn.Linear(inner, width)),
                ]
            )
            for _ in range(PERCEIVER_DEPTH)
        )
        self.norm = RmsNorm(width)

    def forward(self, features: Tensor, kernel: Callable[..., Tensor] = explicit_attention) -> Tensor:
        """[B, F, D] -> [B, P, D]."""
        latents = self.latents.expand(features.size(0), -1, -1)
        for layer in self.layers:
            assert isinstance(layer, nn.ModuleList)
            look, think = layer
            latents = look(latents, features, kernel) + latents
            latents = think(latents) + latents
        return self.norm(latents)
