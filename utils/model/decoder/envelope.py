"""Apply a predicted spectral envelope to a waveform with a filter that changes from frame to frame.

Shapes: B sounds, T frames of 256 samples at 24 000 Hz, N = 256 T samples, K frequency bins.
"""

import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor, nn

from utils.model.shapes import NUM_MELS
from utils.options import OUTPUT_RATE

HOP, FFT_SIZE = 256, 1024
FLOOR = 1e-5
MOST = 3.0
"""Gains are at most e^3 either way, 26 dB: where a sound has nothing, only its rounding would be measured."""


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
        gains = (self.weights @ (predicted - measured).clamp(-MOST, MOST)).exp()
        made = torch.istft(spectrum * gains, FFT_SIZE, HOP, window=self.window, length=padded.shape[1])
        return made[:, None, HOP // 2 : HOP // 2 + sound.shape[2]]


def _weights(bands: Tensor) -> Tensor:
    """How much each band [K, 80] says of each bin, [K, 80]; a bin that no band covers follows the nearest that does."""
    covered = bands.sum(1) > 0
    nearest = (torch.arange(len(covered))[:, None] - covered.nonzero().T).abs().argmin(1)
    rows = bands[covered.nonzero()[nearest, 0]]
    return rows / rows.sum(1, keepdim=True)
