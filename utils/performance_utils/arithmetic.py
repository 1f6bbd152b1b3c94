"""Floating-point operations that training needs at least, and a measurement of what a device can do."""

import time
from collections.abc import Callable, Sequence

import torch

from utils.errors import is_out_of_memory

XTTS_TEXT_ROWS, XTTS_AUDIO_ROWS = 6_681, 1_026
"""Rows of XTTS v2's two heads."""
CONDITIONING_FLOPS = 108.7e9
"""The conditioning encoder for one clip at XTTS v2's width of 1024, forward and backward."""
FIRST_SIDE, LARGEST_SIDE = 512, 8192
"""Sides of the square matrices that are multiplied."""
LONG_ENOUGH_S = 0.002
"""A product that takes this long is not measured by what starting it costs."""


def useful_flops(
    text_tokens: Sequence[int],
    codes: Sequence[int],
    *,
    layers: int,
    width: int,
    text_rows: int = XTTS_TEXT_ROWS,
    audio_rows: int = XTTS_AUDIO_ROWS,
) -> float:
    """Arithmetic of training all weights on these clips, forward and backward, in FLOP.

    F = sum_i [6 N T_i + 6 layers width T_i^2 + 6 width (text_rows T_text + audio_rows T_codes) + C],
    T_i = 32 + text + 1 + codes + 4, with N = 12 layers width^2 weights in the blocks (377.49e6 in XTTS v2) and
    C = 108.7e9 for the conditioning encoder at a width of 1024, scaled with width squared at others.
    Padding, recomputation and what frozen weights save are not in it.

    Args:
        text_tokens, codes: of each clip.
        layers, width, text_rows, audio_rows: sizes of the GPT.
    """
    blocks = 12 * layers * width**2
    total = CONDITIONING_FLOPS * (width / 1024) ** 2 * len(codes)
    for text, code in zip(text_tokens, codes, strict=True):
        positions = 32 + text + 1 + code + 4
        total += 6 * blocks * positions + 6 * layers * width * positions**2
        total += 6 * width * (text_rows * (text + 1) + audio_rows * (code + 4))
    return total


def peak_flops(device: str | torch.device, dtype: torch.dtype = torch.bfloat16) -> float | None:
    """FLOP/s of a large matrix product, measured in some tens of milliseconds; None where memory has no room for it.

    On CUDA the peaks of memory are reset afterwards: the matrices are no part of what training takes.

    Args:
        device: cpu or cuda.
        dtype: of the matrices.
    """
    side, seconds = FIRST_SIDE, 0.0
    try:
        while True:
            seconds = product_s(device, dtype, side=side, repeats=3)
            if seconds >= LONG_ENOUGH_S or side == LARGEST_SIDE:
                return 2 * side**3 / seconds
            side *= 2
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return 2 * (side // 2) ** 3 / seconds if seconds else None
    finally:
        if torch.device(device).type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)


def product_s(device: str | torch.device, dtype: torch.dtype, *, side: int, repeats: int) -> float:
    """Least seconds of a product of two square matrices; see `least_s`."""
    where = torch.device(device)
    # Of a generator of their own: what training draws must not depend on this. Ones would cost a GPU less power.
    random = torch.Generator(where).manual_seed(0)
    a, b = (torch.randn(side, side, generator=random, dtype=dtype, device=where) for _ in range(2))
    return least_s(lambda: torch.mm(a, b), where, repeats=repeats)


def least_s(work: Callable[[], object], device: torch.device, *, repeats: int) -> float:
    """Least seconds of one run of several: neighbors only ever slow it down.

    On a CPU by processor time over the threads, which they disturb less.
    """
    on_gpu = device.type == "cuda"
    work()
    best = float("inf")
    for _ in range(repeats):
        if on_gpu:
            torch.cuda.synchronize(device)
        begin = time.perf_counter() if on_gpu else time.process_time()
        work()
        if on_gpu:
            torch.cuda.synchronize(device)
            best = min(best, time.perf_counter() - begin)
        else:
            best = min(best, (time.process_time() - begin) / torch.get_num_threads())
    return best
