"""A base's speaker encoder, arranged for many crops on a CPU; its embeddings are stock's to the rounding of float32.

Shapes: B crops, N samples at 16 000 Hz, M mel bands, F frames, E values of an embedding.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from utils.audio.spectrum import power_spectrogram

_CROPS_AT_ONCE = 8
"""What their layers pass on to each other then stays in the processor's cache."""


class FastSpeakerEncoder(nn.Module):
    """Coqui's `ResNetSpeakerEncoder` with fewer passes over memory.

    Batch norms that follow a convolution become part of it, the power spectrum is computed without the magnitude, and
    all tensors are laid out channels last.

    Args:
        encoder: from `load_speaker_encoder`; it is changed.
    """

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        for block in (block for layer in _layers(encoder) for block in layer):
            block.conv2, block.bn2 = fuse_conv_bn_eval(block.conv2, block.bn2), nn.Identity()
            if block.downsample is not None:
                block.downsample = fuse_conv_bn_eval(*block.downsample)
        encoder.torch_spec = _MelSpectrogram(*encoder.torch_spec)
        self.encoder = encoder.to(memory_format=torch.channels_last)

    @torch.inference_mode()
    def forward(self, wavs: Tensor) -> Tensor:
        """Embeddings of unit length, [B, E], of crops, [B, N]."""
        return torch.cat([self.encoder(part, l2_norm=True) for part in wavs.split(_CROPS_AT_ONCE)])


def _layers(encoder: Any) -> tuple[Any, ...]:
    return encoder.layer1, encoder.layer2, encoder.layer3, encoder.layer4


class _MelSpectrogram(nn.Module):
    """As torchaudio's, after the same pre-emphasis.

    Args:
        emphasis: coqui's filter of two taps.
        mel: torchaudio's `MelSpectrogram`.
    """

    def __init__(self, emphasis: Any, mel: Any) -> None:
        super().__init__()
        self.n_fft, self.hop = mel.n_fft, mel.hop_length
        self.filter = nn.Buffer(emphasis.filter.flatten())
        self.window = nn.Buffer(mel.spectrogram.window)
        self.filters = nn.Buffer(mel.mel_scale.fb)

    def forward(self, wavs: Tensor) -> Tensor:
        """[B, M, F] of [B, N]."""
        before = torch.cat([wavs[:, 1:2], wavs[:, :-1]], dim=1)
        emphasized = self.filter[0] * before + self.filter[1] * wavs
        power = power_spectrogram(emphasized, self.window, self.hop, n_fft=self.n_fft)
        return (power.transpose(1, 2) @ self.filters).transpose(1, 2)
