"""Encode speaker embeddings as text in report.json, and decode them."""

import base64

import numpy as np
import torch
from torch import Tensor


def packed(vector: Tensor) -> str:
    """A unit vector as base64 of signed bytes, scaled to its largest value: 1 % of precision is plenty to compare."""
    scaled = vector / vector.abs().max().clamp(min=1e-9) * 127
    return base64.b64encode(scaled.round().to(torch.int8).numpy().tobytes()).decode("ascii")


def unpacked(texts: list[str]) -> np.ndarray:
    """Vectors that were `packed`, as unit vectors, [count, size] float32."""
    rows = np.stack([np.frombuffer(base64.b64decode(text), dtype=np.int8) for text in texts]).astype(np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
