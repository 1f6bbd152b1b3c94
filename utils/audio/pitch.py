"""Estimate the pitch of each frame of speech.

Shapes: B sounds, N samples, T frames.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

LOWEST_HZ, HIGHEST_HZ = 60.0, 450.0
WINDOW_S = 0.04
BROADEST_HZ = 2_500.0
"""Pitch lies below this frequency."""
VOICED = 0.6
"""Least normalized autocorrelation of a voiced frame."""
QUIET = 1e-3
"""Root mean square below which a frame is silence."""
SHORTEST_WINS = 0.12
"""Multiples of the true period are as high: so much more counts the shortest than the longest."""


def track_pitch(sound: Tensor, sample_rate: int, hop: int) -> Tensor:
    """Pitch in Hz of each `hop` samples, 0 where nothing is voiced.

    Args:
        sound: [B, N].
        sample_rate: in Hz.
        hop: samples a frame; each is estimated from 40 ms around its middle.

    Returns:
        [B, ceil(N / hop)].

    Source: Boersma 1993: the autocorrelation of a windowed frame, divided by that of the window.
    """
    size, count = round(WINDOW_S * sample_rate), -(-sound.shape[1] // hop)
    before = (size - hop) // 2
    padded = F.pad(sound.float(), (before, count * hop + size - before - sound.shape[1]))
    frames = padded.unfold(1, size, hop)[:, :count]
    window = torch.hann_window(size, device=sound.device)
    # High harmonics would want lags between samples.
    kept = round(2 * size * BROADEST_HZ / sample_rate)
    correlation = autocorrelation((frames - frames.mean(-1, keepdim=True)) * window, kept) / autocorrelation(window)
    first, last = int(sample_rate / HIGHEST_HZ), int(sample_rate / LOWEST_HZ)
    periods, heights = peaks(correlation[..., first : last + 1])
    voiced = (heights > VOICED) & (frames.square().mean(-1).sqrt() > QUIET)
    return torch.where(voiced, sample_rate / (periods + first), 0.0)


def autocorrelation(frames: Tensor, kept: int | None = None) -> Tensor:
    """Of each row, 1 at lag 0, from its `kept` lowest frequencies of as many as it has samples; the same shape."""
    size = frames.shape[-1]
    power = torch.fft.rfft(frames, n=2 * size).abs().square()
    if kept is not None:
        power[..., kept:] = 0
    lags = torch.fft.irfft(power)[..., :size]
    return lags / lags[..., :1].clamp(min=1e-9)


def peaks(heights: Tensor) -> tuple[Tensor, Tensor]:
    """Where each row is highest, between samples by a parabola through three points, and how high."""
    bonus = SHORTEST_WINS * torch.linspace(1, 0, heights.shape[-1], device=heights.device)
    # Dividing by the window's own makes long lags a little higher than the 1 of a perfect repetition.
    best = (heights.clamp(max=1.0) + bonus).argmax(-1, keepdim=True)
    inner = best.clamp(1, heights.shape[-1] - 2)
    left, middle, right = (heights.gather(-1, inner + shift)[..., 0] for shift in (-1, 0, 1))
    bend = (left - 2 * middle + right).clamp(max=-1e-9)
    return inner[..., 0] + (0.5 * (left - right) / bend).clamp(-1, 1), heights.gather(-1, best)[..., 0]
