"""Vectors of clips: as text in report.json, and near-duplicate audio found by comparing clips of similar length."""

import base64

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LIKENESS = 0.9
"""From here on two fingerprints are one recording's; other clips of one voice stay below 0.6."""
_LENGTH = 0.06
"""Copies differ in length by no more than this share: what trimming leaves at their edges."""
_BLOCK = 512


def near_copies(vectors: NDArray[np.float32], seconds: NDArray[np.float64]) -> dict[int, tuple[int, float]]:
    """For each clip that is nearly the same as an earlier one: which, and how alike they are.

    Args:
        vectors: fingerprints, unit vectors, [count, size].
        seconds: length of each clip, [count].

    Returns:
        {number of the later clip: (number of the earliest one like it, likeness)}.
    """
    order = np.argsort(seconds, kind="stable")
    lengths, sorted_vectors = seconds[order], vectors[order]
    found: dict[int, tuple[int, float]] = {}
    for start in range(0, len(order), _BLOCK):
        stop = min(start + _BLOCK, len(order))
        end = int(np.searchsorted(lengths, lengths[stop - 1] * (1 + _LENGTH), side="right"))
        likeness = sorted_vectors[start:stop] @ sorted_vectors[start:end].T
        for row, column in np.argwhere(likeness >= LIKENESS):
            if column <= row or lengths[start + column] > lengths[start + row] * (1 + _LENGTH):
                continue
            pair = int(order[start + row]), int(order[start + column])
            first, later = min(pair), max(pair)
            if later not in found or first < found[later][0]:
                found[later] = (first, float(likeness[row, column]))
    return found


def packed(vector: Tensor) -> str:
    """A unit vector as base64 of signed bytes, scaled to its largest value: 1 % of precision is plenty to compare."""
    scaled = vector / vector.abs().max().clamp(min=1e-9) * 127
    return base64.b64encode(scaled.round().to(torch.int8).numpy().tobytes()).decode("ascii")


def unpacked(texts: list[str]) -> np.ndarray:
    """Vectors that were `packed`, as unit vectors, [count, size] float32."""
    rows = np.stack([np.frombuffer(base64.b64decode(text), dtype=np.int8) for text in texts]).astype(np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
