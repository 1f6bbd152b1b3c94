"""The update of 8-bit AdamW on a processor: one pass over memory, compiled for it at the first step (2 seconds, kept).

Each loop below is one that the compiler turns into vector instructions: over one block, which stays in the fastest
cache, without a branch, and of one type.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from utils.training.optimizer.levels import BLOCK, DECADES, levels, lines, rows_of

SIGNED = tuple(tuple(map(np.float32, values)) for values in lines(signed=True))
UNSIGNED = tuple(tuple(map(np.float32, values)) for values in lines(signed=False))
SIGNED_SLOPES, SIGNED_OFFSETS = SIGNED
UNSIGNED_SLOPES, UNSIGNED_OFFSETS = UNSIGNED
MAGNITUDE = np.int32(0x7FFFFFFF)
"""All bits of a float32 but its sign: without it, floats are in the order of the integers that share their bits."""
ZERO, ONE, MIDDLE, TINY = (np.float32(number) for number in (0, 1, 127, np.finfo(np.float32).tiny))
FEWEST_BLOCKS = 64
"""For which a second thread is worth waking."""

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def update_blocks(
    weights: Tensor, gradient: Tensor, state: dict[str, Tensor], part: slice, group: dict[str, Any], scale: float
) -> int:
    """Move the values of a parameter that fill whole blocks, in place, as `adamw8bit.update_part` does.

    Args:
        weights, gradient: the values and their gradients, flat, float32; gradients are read only.
        state: of the parameter; codes and scales of these values change.
        part: which values of the parameter they are, from a block's first on.
        group: learning rate and the other numbers of AdamW.
        scale: what gradients are multiplied by.

    Returns:
        How many values were moved; fewer than a block are left.
    """
    count = len(weights) // BLOCK
    step, (beta1, beta2) = int(state["step"]), group["betas"]
    numbers = (
        1 - beta1,
        beta2,
        1 - beta2,
        scale,
        1 - group["lr"] * group["weight_decay"],
        group["lr"] / (1 - beta1**step),
        1 / (1 - beta2**step),
        group["eps"],
    )
    first = rows_of(part).start
    tables = [levels(signed, torch.device("cpu")).numpy() for signed in (True, False)]
    arrays = [values[: count * BLOCK].view(count, BLOCK).numpy() for values in (weights, gradient)]
    for name in ("exp_avg", "exp_avg_sq"):
        arrays.append(state[f"{name}_codes"][first : first + count].numpy())
        arrays.append(state[f"{name}_scales"][first : first + count, 0].numpy())

    def move(begin: int, end: int) -> None:
        _move(*(array[begin:end] for array in arrays), *tables, *map(np.float32, numbers))

    threads = min(torch.get_num_threads(), max(count // FEWEST_BLOCKS, 1))
    edges = [count * thread // threads for thread in range(threads + 1)]
    if threads == 1:
        move(0, count)
    else:
        list(_pool(threads).map(move, edges[:-1], edges[1:]))
    return count * BLOCK


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="adamw8bit")


# Gradients that are not finite never get here, and sums may be contracted as the processor does it best.
_compiled: Callable[[Callable[..., None]], Callable[..., None]] = njit(
    nogil=True, cache=True, error_model="numpy", fastmath={"nnan", "ninf", "nsz", "contract"}
)


@_compiled
def _move(
    weights: Floats,
    gradient: Floats,
    mean_codes: Bytes,
    mean_scales: Floats,
    square_codes: Bytes,
    square_scales: Floats,
    signed_levels: Floats,
    unsigned_levels: Floats,
    lerp: np.float32,
    beta2: np.float32,
    rest2: np.float32,
    scale: np.float32,
    keep: np.float32,
    rate: np.float32,
    correction: np.float32,
    eps: np.float32,
) -> None:
    mean, square = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    largest = np.empty(2, np.int32)
    for block in range(len(weights)):
        mean_scale, square_scale = mean_scales[block], square_scales[block] * beta2
        _look_up(mean_codes, block, signed_levels, mean)
        _look_up(square_codes, block, unsigned_levels, square)
        for i in range(BLOCK):
            slope = gradient[block, i] * scale
            before = mean[i] * mean_scale
            mean[i] = before + (slope - before) * lerp
            square[i] = square[i] * square_scale + slope * slope * rest2
        for i in range(BLOCK):
            weights[block, i] = weights[block, i] * keep - rate * mean[i] / (np.sqrt(square[i] * correction) + eps)
        _largest(mean.view(np.int32), square.view(np.int32), largest)
        scales = largest.view(np.float32)
        mean_scales[block], square_scales[block] = scales[0], scales[1]
        _encode_signed(mean, ONE / max(scales[0], TINY), mean_codes, block)
        _encode_unsigned(square, ONE / max(scales[1], TINY), square_codes, block)


@_compiled
def _look_up(codes: Bytes, block: int, table: Floats, values: Floats) -> None:
    for i in range(BLOCK):
        values[i] = table[codes[block, i]]


@_compiled
def _largest(mean: NDArray[np.int32], square: NDArray[np.int32], largest: NDArray[np.int32]) -> None:
    """As integers: a maximum of floats is not vectorized."""
    first = second = np.int32(0)
    for i in range(BLOCK):
        first = max(first, np.int32(mean[i] & MAGNITUDE))
    for i in range(BLOCK):
        second = max(second, square[i])
    largest[0], largest[1] = first, second


@_compiled
def _encode_signed(values: Floats, inverse: np.float32, codes: Bytes, block: int) -> None:
    for i in range(BLOCK):
        share = values[i] * inverse
        magnitude = abs(share)
        level = magnitude * SIGNED_SLOPES[0] + SIGNED_OFFSETS[0]
        for decade in range(1, DECADES):
            level = min(level, magnitude * SIGNED_SLOPES[decade] + SIGNED_OFFSETS[decade])
        level = np.floor(level)
        values[i] = max(MIDDLE + (level if share >= ZERO else -level), ZERO)
    for i in range(BLOCK):
        codes[block, i] = np.uint8(np.int32(values[i]))


@_compiled
def _encode_unsigned(values: Floats, inverse: np.float32, codes: Bytes, block: int) -> None:
    for i in range(BLOCK):
        share = values[i] * inverse
        level = share * UNSIGNED_SLOPES[0] + UNSIGNED_OFFSETS[0]
        for decade in range(1, DECADES):
            level = min(level, share * UNSIGNED_SLOPES[decade] + UNSIGNED_OFFSETS[decade])
        values[i] = max(np.floor(level) - ONE, ONE)
    for i in range(BLOCK):
        codes[block, i] = np.uint8(np.int32(values[i]))
