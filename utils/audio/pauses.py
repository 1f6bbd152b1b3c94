"""Find the pauses of a recording by its level, in constant memory.

Shapes: F frames of 10 ms.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

FRAMES_PER_SECOND = 100
SHORTEST_PAUSE_S = 0.16
"""Shorter dips are the closures of p, t and k, in the middle of words."""
_WINDOW_S = 30
"""Loudness and noise are those of this much of the recording around a place."""
_GRID_S = 5
_SILENT_DB = -60.0
"""Where nothing within the window is louder than this, nobody speaks."""
_NO_SOUND_DB = -119.0
_CLICK_FRAMES = 5
_FLAT_DB = 6.0
"""Loud and quiet frames that lie nearer together than this are one steady noise."""


@dataclass(frozen=True)
class Pause:
    """A stretch in which nobody speaks, in seconds."""

    start_s: float
    end_s: float

    @property
    def middle_s(self) -> float:
        return (self.start_s + self.end_s) / 2

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s


def stream_levels(blocks: Iterable[Tensor], sample_rate: int) -> NDArray[np.float32]:
    """Level of every 10 ms in dB below full scale, [F]; silence is -120, and a constant offset counts as silence.

    Args:
        blocks: successive parts of a mono recording, [1, n] each, of any lengths.
        sample_rate: in Hz.
    """
    edges = np.arange(FRAMES_PER_SECOND) * sample_rate // FRAMES_PER_SECOND
    found: list[NDArray[np.float32]] = []
    rest = np.empty(0, dtype=np.float32)
    for block in blocks:
        rest = np.concatenate([rest, block[0].numpy()])
        while len(rest) >= sample_rate:
            found.append(_levels(rest[:sample_rate], edges))
            rest = rest[sample_rate:]
    if len(rest):
        found.append(_levels(rest, edges[edges < len(rest)]))
    return np.concatenate(found) if found else np.empty(0, dtype=np.float32)


def _levels(samples: NDArray[np.float32], edges: NDArray[np.int64]) -> NDArray[np.float32]:
    centered = samples - samples.mean()
    counts = np.diff(np.append(edges, len(samples)))
    power = np.add.reduceat(np.square(centered, dtype=np.float64), edges) / np.maximum(1, counts)
    return (10 * np.log10(np.maximum(power, 1e-12))).astype(np.float32)


def find_pauses(levels: NDArray[np.float32]) -> list[Pause]:
    """Stretches in which nobody speaks, in order; the ends of the recording are not pauses of their own.

    A frame is quiet when it lies 40 dB below the loud frames of the half minute around it, or, where noise is nearer
    than that, little above the noise: 10 dB, and at most two fifths of the way from noise to speech.

    Args:
        levels: of `stream_levels`, [F].
    """
    if not len(levels):
        return []
    # 50 ms: single quiet frames are zero crossings, single louder ones are noise.
    power = np.convolve(np.pad(10 ** (levels.astype(np.float64) / 10), 2, mode="edge"), np.full(5, 0.2), mode="valid")
    smooth = 10 * np.log10(np.maximum(power, 1e-12)).astype(np.float32)
    quiet = smooth < _thresholds(smooth)
    spans = np.flatnonzero(np.diff(np.pad(quiet.astype(np.int8), 1))).reshape(-1, 2)
    if not len(spans):
        return []
    # What lasts 50 ms between two quiet stretches is a click, no word.
    apart = np.flatnonzero(spans[1:, 0] - spans[:-1, 1] > _CLICK_FRAMES)
    starts, stops = spans[np.append(0, apart + 1), 0], spans[np.append(apart, len(spans) - 1), 1]
    found = [
        Pause(float(a), float(b)) for a, b in zip(starts / FRAMES_PER_SECOND, stops / FRAMES_PER_SECOND, strict=True)
    ]
    return [pause for pause in found if pause.seconds >= SHORTEST_PAUSE_S - 1e-9]


def _thresholds(levels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Level below which a frame is quiet, [F]."""
    step, half = _GRID_S * FRAMES_PER_SECOND, _WINDOW_S * FRAMES_PER_SECOND // 2
    # Before a sound track begins there is less than the room's noise.
    first = int((levels > _NO_SOUND_DB).argmax())
    found = []
    for start in range(0, len(levels), step):
        middle = max(start + step // 2, first)
        floor, loud = np.percentile(levels[max(first, middle - half) : middle + half], [3, 95])
        found.append(_threshold(float(floor), float(loud)))
    return np.repeat(np.asarray(found, dtype=np.float32), step)[: len(levels)]


def _threshold(floor: float, loud: float) -> float:
    if loud < _SILENT_DB:
        return float("inf")
    if loud - floor < _FLAT_DB:
        return float("-inf")
    return max(loud - 40, min(floor + 10, floor + 0.4 * (loud - floor)))
