"""Attention as plain matrix products with its own backward pass: the fastest way on a CPU in bf16.

There the backward pass of PyTorch's flash kernel reaches a tenth of what bf16 products do, while the sequences of XTTS
(at most about 1,000 positions) are so short that keeping the weights costs less than a block's other activations.

Shapes: B rows, H heads, T queries, S keys, C channels a head; a group has N clips padded to L positions.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from utils.model.packing import round_up

MULTIPLE = 32
"""Clips are padded to a multiple of this many positions: the CPU keeps a kernel for each shape of bf16 products."""
SPARE = 250_000
"""Scores, over all heads, that a group may compute for padding: less than one more round of operations costs."""


class MatrixAttention(torch.autograd.Function):
    """Softmax attention over rows; the softmax adds up in float32, whatever the products' data type."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        """[B, H, T, C] and twice [B, H, S, C] -> [B, H, T, C]; causal needs T = S."""
        with torch.autocast("cpu", enabled=False):
            rows = [x.flatten(0, 1) for x in (q, k, v)]
            scaled = rows[0] * q.size(-1) ** -0.5
            output, weights = _forward(scaled, rows[1], rows[2], causal=causal)
        ctx.save_for_backward(scaled, rows[1], rows[2], weights)
        return output.unflatten(0, q.shape[:2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of q, k and v."""
        (grad_output,) = gradients
        found = _backward(grad_output.flatten(0, 1), *ctx.saved_tensors)
        return (*(part.unflatten(0, grad_output.shape[:2]) for part in found), None)


class PackedMatrixAttention(torch.autograd.Function):
    """The same, causally, within each clip of one packed row; clips of like length are computed together."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, plan: "Plan") -> Tensor:
        """[1, H, T, C] each -> [1, H, T, C]; groups of the same number of positions follow one another."""
        heads, _, channels = q.shape[1:]
        kept: list[Tensor] = []
        parts = []
        with torch.autocast("cpu", enabled=False):
            for group in plan.groups:
                padded = [group.gather(x.squeeze(0)) for x in (q, k, v)]
                scaled = padded[0] * channels**-0.5
                output, weights = _forward(scaled, padded[1], padded[2], causal=True)
                kept += [scaled, padded[1], padded[2], weights]
                parts.append(output.view(heads, -1, channels))
        ctx.plan = plan
        ctx.save_for_backward(*kept)
        return plan.scatter(parts).unsqueeze(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of q, k and v."""
        (grad_output,) = gradients
        heads, _, channels = grad_output.shape[1:]
        saved = ctx.saved_tensors
        found: list[list[Tensor]] = [[], [], []]
        for number, group in enumerate(ctx.plan.groups):
            # Padding repeats its clip's first position, whose gradient must count once. With zeros there, padded
            # queries add nothing to keys and values; padded keys follow every true query, so causality hides them.
            given = group.gather(grad_output.squeeze(0), padding=0.0)
            for parts, part in zip(found, _backward(given, *saved[4 * number : 4 * number + 4]), strict=True):
                parts.append(part.view(heads, -1, channels))
        return (*(ctx.plan.scatter(parts).unsqueeze(0) for parts in found), None)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Clips of a packed row that are padded to one length and computed together."""

    indices: Tensor
    """Where each of the group's positions lies in the packed row, [N * L]; padding repeats its clip's first."""
    padding: Tensor
    """Which of the group's positions are padding."""
    num_clips: int

    def gather(self, row: Tensor, *, padding: float | None = None) -> Tensor:
        """The group's clips, padded: [H, T, C] -> [H * N, L, C]."""
        found = row.index_select(1, self.indices)
        if padding is not None:
            found.index_fill_(1, self.padding, padding)
        return found.view(row.size(0) * self.num_clips, -1, row.size(-1))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the clips of a packed row are grouped; the same for all blocks of a step."""

    groups: list[Group]
    indices: Tensor
    """Where each position of the packed row lies among all groups' positions, [T]."""

    def scatter(self, parts: list[Tensor]) -> Tensor:
        """The groups' positions, back in the order of the packed row: [H, N * L, C] each -> [H, T, C]."""
        whole = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return whole.index_select(1, self.indices)


def plan_groups(lengths: tuple[int, ...], heads: int) -> Plan:
    """Group clips of like length, so that many short ones do not cost a round of small operations each.

    Args:
        lengths: positions of each part of a packed row, in their order; empty parts are skipped.
        heads: attention heads.
    """
    order = sorted((clip for clip, length in enumerate(lengths) if length), key=lambda clip: -lengths[clip])
    starts = [sum(lengths[:clip]) for clip in range(len(lengths))]
    groups, indices, base = [], torch.empty(sum(lengths), dtype=torch.long), 0
    for clips in _alike(order, lengths, heads):
        group = _group([(starts[clip], lengths[clip]) for clip in clips])
        longest = round_up(lengths[clips[0]], MULTIPLE)
        for row, clip in enumerate(clips):
            begin = base + row * longest
            indices[starts[clip] : starts[clip] + lengths[clip]] = torch.arange(begin, begin + lengths[clip])
        base += len(clips) * longest
        groups.append(group)
    return Plan(groups=groups, indices=indices)


def _alike(order: list[int], lengths: tuple[int, ...], heads: int) -> list[list[int]]:
    """Clips, longest first, in runs whose padding costs at most `SPARE` scores."""
    runs: list[list[int]] = []
    wasted = 0
    for clip in order:
        more = heads * (lengths[runs[-1][0]] ** 2 - lengths[clip] ** 2) if runs else 0
        if not runs or wasted + more > SPARE:
            runs.append([])
            wasted = more = 0
        runs[-1].append(clip)
        wasted += more
    return runs


def _group(clips: list[tuple[int, int]]) -> Group:
    longest = round_up(clips[0][1], MULTIPLE)
    indices, padding = [], []
    for row, (start, length) in enumerate(clips):
        place = torch.full((longest,), start)
        place[:length] += torch.arange(length)
        indices.append(place)
        padding.append(torch.arange(length, longest) + row * longest)
    return Group(indices=torch.cat(indices), padding=torch.cat(padding), num_clips=len(clips))


def _forward(scaled: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> tuple[Tensor, Tensor]:
    """Attention output, [N, T, C], and the weights, [N, T, S], of queries that are scaled already."""
    size = (*scaled.shape[:2], k.size(1))
    hidden = scaled.new_zeros(size[1:])
    if causal:
        hidden = hidden.fill_(float("-inf")).triu_(1)
    # Scores as `baddbmm`, the output as `bmm`: selective checkpointing keeps the outputs of the latter only.
    scores = torch.baddbmm(hidden.expand(size), scaled, k.transpose(1, 2), beta=1 if causal else 0)
    weights = scores.softmax(dim=-1)
    return torch.bmm(weights, v), weights


def _backward(
    grad_output: Tensor, scaled: Tensor, k: Tensor, v: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the unscaled queries, the keys and the values."""
    # With S = QK^T / sqrt(C), P = softmax(S) and O = PV: dV = P^T dO, dP = dO V^T, dS = P * (dP - rowsum(P * dP)),
    # dQ = dS K / sqrt(C), dK = dS^T Q / sqrt(C). `scaled` is Q / sqrt(C). P is kept, not computed again: at this length
    # it costs little memory. It is 0 where the causal mask is, and so is dS there.
    to_v = torch.bmm(weights.transpose(1, 2), grad_output)
    to_weights = torch.bmm(grad_output, v.transpose(1, 2))
    to_scores = torch._softmax_backward_data(to_weights, weights, -1, weights.dtype)
    to_q = torch.bmm(to_scores, k).mul_(k.size(-1) ** -0.5)
    return to_q, torch.bmm(to_scores.transpose(1, 2), scaled), to_v
