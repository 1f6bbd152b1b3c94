"""The update of 8-bit AdamW on a GPU: one kernel for all parameters that are kept alike, instead of twenty for each.

The kernel gets a table of addresses, a row for each parameter, and a list of which parameter and which of its blocks
each program moves. The list stays the same from step to step; the table is sent anew, since gradients move.
"""

import struct
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from utils.training.optimizer.levels import BLOCK, DECADES, levels, lines
from utils.training.optimizer.plain_adamw import Scale

NUM_BLOCKS = 8
"""Blocks that one program moves."""
BLOCK_SIZE, PROGRAM_BLOCKS, LAST_DECADE = map(tl.constexpr, (BLOCK, NUM_BLOCKS, DECADES - 1))
ALIGNMENT = 16
"""Bytes that a GPU reads at once, where tensors begin at multiples of them."""
SIGNED_SLOPES, SIGNED_OFFSETS = (tl.constexpr(values) for values in lines(signed=True))
UNSIGNED_SLOPES, UNSIGNED_OFFSETS = (tl.constexpr(values) for values in lines(signed=False))
SMALLEST_SCALE = tl.constexpr(torch.finfo(torch.float32).tiny)
WEIGHT, REST, GRADIENT, MEAN, MEAN_SCALES, SQUARE, SQUARE_SCALES, COUNT, RATE, CORRECTION, COLUMNS = map(
    tl.constexpr, range(11)
)
"""Columns of the table: addresses, the number of values, and two float64 that depend on the parameter's step."""


def update_all(
    parameters: list[Tensor],
    states: Mapping[Tensor, dict[str, Tensor]],
    rests: Mapping[Tensor, Tensor],
    group: dict[str, Any],
    scale: Scale,
) -> int:
    """Move these parameters of one group in place, as `adamw8bit.update_part` does.

    Args:
        parameters: with gradients, all on one GPU.
        states: of each, the step counted already.
        rests: lower halves of those that are split (see `utils.model.split_weights`).
        group: learning rate and the other numbers of AdamW.
        scale: what gradients are multiplied by.

    Returns:
        Kernels that were launched: one for each way in which weights, gradients and moments are kept.
    """

    def kept(parameter: Tensor) -> tuple[bool, bool, bool, str]:
        assert parameter.grad is not None and parameter.is_contiguous(), "weights are updated in place"
        parameter.grad = parameter.grad.contiguous()
        places = [tensor.data_ptr() for tensor in (parameter, parameter.grad)]
        aligned = all(number % ALIGNMENT == 0 for number in (*places, parameter.numel()))
        return "exp_avg_codes" in states[parameter], parameter in rests, aligned, str(parameter.grad.dtype)

    num_kernels = 0
    with torch.cuda.device_of(parameters[0]):
        for (quantized, split, aligned, _), alike in groupby(sorted(parameters, key=kept), key=kept):
            form = {"QUANTIZED": quantized, "SPLIT": split, "ALIGNED": aligned}
            _launch(list(alike), states, rests, group, scale, form)
            num_kernels += 1
    return num_kernels


def _launch(
    parameters: list[Tensor],
    states: Mapping[Tensor, dict[str, Tensor]],
    rests: Mapping[Tensor, Tensor],
    group: dict[str, Any],
    scale: Scale,
    form: dict[str, bool],
) -> None:
    device, (beta1, beta2) = parameters[0].device, group["betas"]
    kinds = ("_codes", "_scales") if form["QUANTIZED"] else ("", "")
    rows, gradient_type = [], torch.float32
    for parameter in parameters:
        assert parameter.grad is not None
        gradient_type, state = parameter.grad.dtype, states[parameter]
        step = int(state["step"])
        moments = [state[name + kind] for name in ("exp_avg", "exp_avg_sq") for kind in kinds]
        tensors = [parameter, rests.get(parameter, parameter), parameter.grad, *moments]
        numbers = struct.pack("2d", group["lr"] / (1 - beta1**step), 1 / (1 - beta2**step))
        rows.append([*(tensor.data_ptr() for tensor in tensors), parameter.numel(), *struct.unpack("2q", numbers)])
    table = torch.tensor(rows, dtype=torch.int64, pin_memory=device.type == "cuda").to(device, non_blocking=True)
    owners, places = _programs(tuple(parameter.numel() for parameter in parameters), device)
    factor = scale if isinstance(scale, Tensor) else torch.full((), scale, device=device)
    _move[(len(owners),)](
        table,
        owners,
        places,
        levels(True, device),
        levels(False, device),
        factor,
        1 - beta1,
        beta2,
        1 - group["lr"] * group["weight_decay"],
        group["eps"],
        GRADIENT_TYPE=getattr(tl, str(gradient_type).removeprefix("torch.")),
        **form,
    )


@cache
def _programs(sizes: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Row of the table and place in the parameter of each program's values, [P] int32 each."""
    counts = torch.tensor([-(-size // (NUM_BLOCKS * BLOCK)) for size in sizes])
    owners = torch.repeat_interleave(torch.arange(len(sizes)), counts)
    places = torch.arange(len(owners)) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    return owners.int().to(device), places.int().to(device)


@triton.jit
def _address(row, COLUMN: tl.constexpr, KIND: tl.constexpr, ALIGNED: tl.constexpr):  # type: ignore[no-untyped-def]
    address = tl.load(row + COLUMN).to(tl.pointer_type(KIND))
    return tl.multiple_of(address, 16) if ALIGNED else address


@triton.jit
def _move(  # type: ignore[no-untyped-def]
    table,
    owners,
    places,
    signed_levels,
    unsigned_levels,
    factor,
    lerp,
    beta2,
    keep,
    eps,
    QUANTIZED: tl.constexpr,
    SPLIT: tl.constexpr,
    GRADIENT_TYPE: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    program = tl.program_id(0)
    row = table + tl.load(owners + program) * COLUMNS
    block = tl.load(places + program).to(tl.int64) * PROGRAM_BLOCKS + tl.arange(0, PROGRAM_BLOCKS)
    values = block[:, None] * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)[None, :]
    count = tl.load(row + COUNT)
    if ALIGNED:
        count = tl.multiple_of(count, 16)
    inside = values < count
    whole = block * BLOCK_SIZE < count
    rate = tl.load(row + RATE).to(tl.float64, bitcast=True).to(tl.float32)
    correction = tl.load(row + CORRECTION).to(tl.float64, bitcast=True).to(tl.float32)

    gradients = _address(row, GRADIENT, GRADIENT_TYPE, ALIGNED) + values
    gradient = tl.load(gradients, mask=inside, other=0.0).to(tl.float32) * tl.load(factor)
    if QUANTIZED:
        mean_codes = _address(row, MEAN, tl.uint8, ALIGNED) + values
        square_codes = _address(row, SQUARE, tl.uint8, ALIGNED) + values
        mean_scales = _address(row, MEAN_SCALES, tl.float32, ALIGNED) + block
        square_scales = _address(row, SQUARE_SCALES, tl.float32, ALIGNED) + block
        # What fills up the last block stays zero in both moments: it must not count for the block's scale.
        mean = tl.load(signed_levels + tl.load(mean_codes, mask=inside, other=0).to(tl.int32))
        square = tl.load(unsigned_levels + tl.load(square_codes, mask=inside, other=0).to(tl.int32))
        mean = tl.where(inside, mean * tl.load(mean_scales, mask=whole, other=0.0)[:, None], 0.0)
        square = tl.where(inside, square * tl.load(square_scales, mask=whole, other=0.0)[:, None], 0.0)
    else:
        means = _address(row, MEAN, tl.float32, ALIGNED) + values
        squares = _address(row, SQUARE, tl.float32, ALIGNED) + values
        mean = tl.load(means, mask=inside, other=0.0)
        square = tl.load(squares, mask=inside, other=0.0)

    mean += (gradient - mean) * lerp
    square = square * beta2 + gradient * gradient * (1 - beta2)
    change = rate * mean / (tl.sqrt(square * correction) + eps)

    if SPLIT:
        weights = _address(row, WEIGHT, tl.int16, ALIGNED) + values
        rests = _address(row, REST, tl.int16, ALIGNED) + values
        upper = tl.load(weights, mask=inside, other=0).to(tl.int32)
        bits = (upper << 16) + tl.load(rests, mask=inside, other=0).to(tl.int32)
        bits = (bits.to(tl.float32, bitcast=True) * keep - change).to(tl.int32, bitcast=True)
        # As utils.model.split_weights: the upper half is rounded to the nearest.
        upper = (bits + 0x8000) >> 16
        tl.store(weights, upper.to(tl.int16), mask=inside)
        tl.store(rests, (bits - (upper << 16)).to(tl.int16), mask=inside)
    else:
        weights = _address(row, WEIGHT, tl.float32, ALIGNED) + values
        tl.store(weights, tl.load(weights, mask=inside, other=0.0) * keep - change, mask=inside)

    if QUANTIZED:
        mean_scale = tl.max(tl.abs(mean), axis=1)
        share = mean / tl.maximum(mean_scale, SMALLEST_SCALE)[:, None]
        level = tl.abs(share) * SIGNED_SLOPES[0] + SIGNED_OFFSETS[0]
        for decade in tl.static_range(1, LAST_DECADE + 1):
            level = tl.minimum(level, tl.abs(share) * SIGNED_SLOPES[decade] + SIGNED_OFFSETS[decade])
        level = tl.floor(level)
        codes = tl.maximum(tl.where(share < 0, -level, level) + 127, 0.0)
        tl.store(mean_codes, codes.to(tl.uint8), mask=inside)
        tl.store(mean_scales, mean_scale, mask=whole)

        square_scale = tl.max(square, axis=1)
        share = square / tl.maximum(square_scale, SMALLEST_SCALE)[:, None]
        level = share * UNSIGNED_SLOPES[0] + UNSIGNED_OFFSETS[0]
        for decade in tl.static_range(1, LAST_DECADE + 1):
            level = tl.minimum(level, share * UNSIGNED_SLOPES[decade] + UNSIGNED_OFFSETS[decade])
        tl.store(square_codes, tl.maximum(tl.floor(level) - 1, 1.0).to(tl.uint8), mask=inside)
        tl.store(square_scales, square_scale, mask=whole)
    else:
        tl.store(means, mean, mask=inside)
        tl.store(squares, square, mask=inside)
