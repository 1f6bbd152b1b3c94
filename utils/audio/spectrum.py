"""Power spectrogram of a signal.

Shapes: B signals, T samples, N samples of a window, F frames.
"""

from typing import Any

import torch
from torch import Tensor


def power_spectrogram(wav: Tensor, window: Tensor, hop: int, **stft: Any) -> Tensor:
    """Squared magnitude of each frequency in each frame.

    Args:
        wav: [B, T].
        window: [N].
        hop: samples from one frame to the next.
        stft: more arguments of `torch.stft`; its `n_fft` is the size of the window when not given.

    Returns:
        [B, n_fft // 2 + 1, F].
    """
    size = stft.pop("n_fft", len(window))
    spectrum = torch.stft(wav, size, hop, len(window), window=window, return_complex=True, **stft)
    # Not abs().square(): the magnitude guards against overflow, and takes three times as long as the transform.
    return spectrum.real.square() + spectrum.imag.square()
