"""The two mel spectrograms of XTTS: one for conditioning, one for the DVAE.

Shapes: B rows, N samples at 22 050 Hz, F = N // 256 + 1 frames, 80 mel channels up to 8 kHz.

Source: coqui-tts, TorchMelSpectrogram and wav_to_mel_cloning: power 2, slaney norm, log of at least 1e-5, each channel
divided by the base's mel_stats.
"""

import torch
import torchaudio
from torch import Tensor, nn

from utils.model.no_tf32 import exact_float32
from utils.model.shapes import NUM_MELS
from utils.options import DATASET_RATE

HOP = 256
MEL_FLOOR = 1e-5


class LogMel(nn.Module):
    """Log-mel spectrogram divided by `mel_stats`.

    Args:
        mel_stats: one scale a channel, [80].
        fft_size: 2 048 for conditioning, 1 024 for the DVAE.
    """

    def __init__(self, mel_stats: Tensor, *, fft_size: int) -> None:
        super().__init__()
        self.spectrogram = torchaudio.transforms.MelSpectrogram(
            sample_rate=DATASET_RATE,
            n_fft=fft_size,
            win_length=1024,
            hop_length=HOP,
            f_min=0,
            f_max=8000,
            n_mels=NUM_MELS,
            power=2,
            norm="slaney",
        )
        self.register_buffer("scale", mel_stats.float().view(1, NUM_MELS, 1))
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(self, wav: Tensor) -> Tensor:
        """Audio [B, N] in [-1, 1] -> [B, 80, F], in float32 whatever the surrounding precision.

        Without TF32, as in synthesis, so that training conditions on the same values.
        """
        with exact_float32(), torch.autocast(wav.device.type, enabled=False):
            return self.spectrogram(wav.float()).clamp(min=MEL_FLOOR).log() / self.scale


def conditioning_mel(mel_stats: Tensor) -> LogMel:
    """The conditioning encoder's input."""
    return LogMel(mel_stats, fft_size=2048)


def dvae_mel(mel_stats: Tensor) -> LogMel:
    """What the DVAE encodes."""
    return LogMel(mel_stats, fft_size=1024)
