"""What the hardware can do at most, measured, and how much arithmetic a training step needs at least."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from utils.hardware import cpu

PARAMETERS = {30: 441.02e6}
"""Trained parameters by number of layers, where the sizes are XTTS v2's."""
UPDATE_BYTES = 28
"""Fused AdamW reads weight, gradient and two moments, and writes three of them: 7 float32 a parameter."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Peak rates of one device."""

    device: str
    flops: float
    """Of a large bf16 matrix product, in FLOP/s."""
    bandwidth: float
    """Of a copy on the device, read and written, in bytes/s."""


def measure_limits(device: str) -> Limits:
    """Measure both rates on this machine; the best of several runs, because neighbours only ever slow them down."""
    where = torch.device(device)
    side = 8192 if where.type == "cuda" else 2048
    a, b = (torch.randn(side, side, dtype=torch.bfloat16, device=where) for _ in range(2))
    product = _fastest(lambda: torch.mm(a, b), where)
    source = torch.empty(1 << 28, dtype=torch.uint8, device=where)
    target = torch.empty_like(source)
    copy = _fastest(lambda: target.copy_(source), where)
    name = torch.cuda.get_device_name(where) if where.type == "cuda" else cpu().model
    threads = "" if where.type == "cuda" else f" ({torch.get_num_threads()} threads)"
    return Limits(device=name + threads, flops=2 * side**3 / product, bandwidth=2 * source.nbytes / copy)


def useful_flops(text_tokens: list[int], codes: list[int], layers: int, width: int, heads: int) -> float:
    """Arithmetic of training on these clips, forward and backward, in FLOP.

    F = sum_i [6 * N * T_i + 6 * layers * width * T_i^2 + 6 * width * (6681 T_text + 1026 T_codes) + C],
    T_i = 32 + text + 1 + codes + 4, with N = 377.49e6 weights in the blocks and C = 108.7e9 for the conditioning
    encoder at full size; both scaled with width squared and layers at other sizes.
    """
    blocks = 12 * layers * width**2
    conditioning = 108.7e9 * (width / 1024) ** 2
    total = 0.0
    for text, code in zip(text_tokens, codes, strict=True):
        positions = 32 + text + 1 + code + 4
        total += 6 * blocks * positions + 6 * layers * width * positions**2
        total += 6 * width * (6681 * (text + 1) + 1026 * (code + 4)) + conditioning
    return total


def num_parameters(layers: int, width: int, heads: int) -> float:
    """Trained parameters: XTTS v2's at full size, by its blocks and embeddings at others."""
    return PARAMETERS.get(layers, 12 * layers * width**2 + 2 * 7_707 * width)


def _fastest(work: Callable[[], object], device: torch.device) -> float:
    """Least seconds of one run; on a CPU by processor time over the threads, which neighbours disturb less."""
    work()
    best = float("inf")
    for _ in range(7):
        if device.type == "cuda":
            torch.cuda.synchronize()
            begin = time.perf_counter()
            work()
            torch.cuda.synchronize()
            best = min(best, time.perf_counter() - begin)
        else:
            begin = time.process_time()
            work()
            best = min(best, (time.process_time() - begin) / torch.get_num_threads())
    return best
