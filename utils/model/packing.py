"""Pack clips so that padding stands only at the end of a row, or nowhere, and attention needs no mask.

Shapes: B clips, P = 32 conditioning latents, L text tokens (language token included), M audio codes,
    Lp and Mp the padded lengths of both parts, R rows of T positions, K and J scored positions.

A clip reads [32 latents | START, L text tokens | start, M codes, 3 stops]; each position predicts the next one within
its part: L text tokens and STOP, then M codes and 4 stops. Where the model sees the text's STOP, the text part reads it
as well and it predicts nothing. Source of the counts: coqui-tts, GPT.forward, with the
positions that its attention mask hides not counted.

Two layouts: "rows" gives each clip a row of its own, rounded up to few different lengths (R = B); "packed" puts all
clips behind one another in one row (R = 1), for attention kernels that take the bounds between clips (cu_seqlens).
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor

from utils.model.shapes import NUM_LATENTS, GptShape

IGNORED = -1
"""Target of a position that is not learned from."""
STOPS = 4
"""Stop codes that each clip must learn to say."""

Layout = Literal["rows", "packed"]


ROW_MULTIPLE = 32
"""Rows are filled up to a multiple of this many positions."""


class StaticShape(NamedTuple):
    """A shape that every batch is filled up to, so that all have one shape; 0 leaves them as they come."""

    clips: int = 0
    """Clips of a batch."""
    longest: int = 0
    """Positions of the longest clip."""
    total: int = 0
    """Positions of a packed row."""


NO_STATIC_SHAPE = StaticShape()


@dataclass(frozen=True, kw_only=True)
class PackedBatch:
    """Token ids, the index that moves embeddings from two padded parts into packed rows, and what is scored where."""

    text: Tensor
    """START and text tokens, padded; [B, Lp]."""
    codes: Tensor
    """start, codes and 3 stops, padded; [B, Mp]."""
    gather_indices: Tensor
    """For each packed position, its index among all rows of [latents | text | codes] padded; [R, T]."""
    text_indices: Tensor
    """Packed positions that predict text, counted over all rows; [K]."""
    text_targets: Tensor
    """The text tokens they must predict, `IGNORED` where K was rounded up; [K]."""
    code_indices: Tensor
    """Packed positions that predict codes, counted over all rows; [J]."""
    code_targets: Tensor
    """The codes they must predict, `IGNORED` where J was rounded up; [J]."""
    cu_seqlens: Tensor
    """Where each part of a packed row begins, and the end: clips, then padding in one piece or more; int32, [N + 1]."""
    reading: Tensor
    """Position within its clip that is read while each code is spoken, NaN where unknown; float32, [B, Q] or [0, 0]."""
    reading_starts: Tensor
    """Each clip's first position, counted over all rows, and its first code's within the clip; [B, 2] or [0, 2]."""
    num_text_targets: int
    num_code_targets: int
    num_positions: int
    """Positions that belong to clips; the rest of R * T is padding."""
    lengths: tuple[int, ...]
    """Positions of each part of a packed row, some of which may be 0; empty in the rows layout."""
    longest_clip: int
    """Positions that the longest clip has or may have, rounded up."""

    @property
    def max_seqlen(self) -> int:
        """Positions of a packed row's longest part, rounded up: few different numbers keep compiled code few."""
        return round_up(max(*self.lengths, self.longest_clip), 128)

    def to(self, device: torch.device, *, non_blocking: bool = True) -> Self:
        """The same batch on a device."""
        return self._with(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same batch in page-locked memory, so that copies to a GPU overlap with work."""
        return self._with(lambda tensor: tensor.pin_memory())

    def _with(self, change: Callable[[Tensor], Tensor]) -> Self:
        tensors = {item.name: getattr(self, item.name) for item in fields(self) if item.type is Tensor}
        changed: dict[str, Any] = {name: change(tensor) for name, tensor in tensors.items()}
        return replace(self, **changed)


def row_length(num_text: int, num_codes: int, shape: GptShape) -> int:
    """Positions of a clip: L text tokens and M codes give 32 + L + 1 + M + 4, and one more for a STOP that is seen."""
    return NUM_LATENTS + num_text + 1 + shape.sees_stop + num_codes + STOPS


def pack(
    texts: list[Tensor],
    codes: list[Tensor],
    shape: GptShape,
    *,
    conditioned_codes: list[tuple[int, int]] | None = None,
    reading: list[Tensor] | None = None,
    layout: Layout = "rows",
    multiple: int = ROW_MULTIPLE,
    static_shape: StaticShape = NO_STATIC_SHAPE,
) -> PackedBatch:
    """Pack clips into one batch.

    Args:
        texts: token ids of each clip, [L].
        codes: audio codes of each clip, [M].
        conditioned_codes: for each clip the codes [start, end) of its own conditioning audio, which are not scored:
            the model could copy them. None scores all codes.
        reading: for each clip the text token that is spoken with each code, [M] float32, or empty where unknown; None
            where nothing is learned from it.
        layout: a row a clip, or one row for all.
        multiple: every padded length is rounded up to this. Few different shapes keep the CPU's bf16 kernel caches
            small (they grew to 12 GB with ragged shapes) and suit the GPU's tensor cores.
        static_shape: what the batch is filled up to, so that all batches have one shape; one that needs more gets more.

    Raises:
        AssertionError: a clip is longer than the model's position tables; preparation refuses such clips.
    """
    assert max(map(len, texts)) <= shape.max_text_tokens and max(map(len, codes)) <= shape.max_audio_tokens - 1
    text_in = [_edged(text, shape.start_text, int(shape.sees_stop), shape.stop_text) for text in texts]
    code_in = [_edged(clip, shape.start_audio, STOPS - 1, shape.stop_audio) for clip in codes]
    text_rows = _padded(text_in, _rounded([len(t) for t in text_in], 16, shape.text_positions), shape.stop_text)
    code_rows = _padded(code_in, _rounded([len(c) for c in code_in], multiple, shape.audio_positions), shape.stop_audio)
    parts = [(len(text), len(code)) for text, code in zip(text_in, code_in, strict=True)]
    starts, size = _starts([NUM_LATENTS + sum(part) for part in parts], layout, multiple, static_shape)
    text_scored, code_scored = _scored(texts, codes, parts, starts, conditioned_codes, shape)
    lengths = _lengths(parts, size[1], static_shape) if layout == "packed" else ()
    indices, reading_starts = _reading(reading, parts, starts, multiple)
    return PackedBatch(
        text=text_rows,
        codes=code_rows,
        gather_indices=_gather_indices(parts, starts, size, text_rows.size(1), code_rows.size(1)),
        text_indices=_flat(text_scored[0], 0, multiple),
        text_targets=_flat(text_scored[1], IGNORED, multiple),
        code_indices=_flat(code_scored[0], 0, multiple),
        code_targets=_flat(code_scored[1], IGNORED, multiple),
        cu_seqlens=torch.tensor([0, *accumulate(lengths)], dtype=torch.int32),
        reading=indices,
        reading_starts=reading_starts,
        num_text_targets=sum(map(len, text_scored[1])),
        num_code_targets=sum(map(len, code_scored[1])),
        num_positions=sum(NUM_LATENTS + sum(part) for part in parts),
        lengths=lengths,
        longest_clip=round_up(max(static_shape.longest, *(NUM_LATENTS + sum(part) for part in parts)), multiple),
    )


def _starts(
    lengths: list[int], layout: Layout, multiple: int, static_shape: StaticShape
) -> tuple[list[int], tuple[int, int]]:
    """Where each clip begins, counted over all rows, and the size (R, T) of the packed rows."""
    if layout == "rows":
        length = round_up(max(static_shape.longest, *lengths), multiple)
        # An epoch's last batch may have fewer clips: rows of padding then stand for those that are missing.
        return [row * length for row in range(len(lengths))], (max(static_shape.clips, len(lengths)), length)
    starts = [sum(lengths[:clip]) for clip in range(len(lengths))]
    return starts, (1, max(round_up(sum(lengths), multiple), static_shape.total))


def _gather_indices(
    parts: list[tuple[int, int]], starts: list[int], size: tuple[int, int], text_padded: int, code_padded: int
) -> Tensor:
    """For each packed position its index among the padded parts, [R, T]; padding repeats the first index."""
    # [latents | text | codes] padded leaves padding between a clip's text and its codes, which only a mask could hide.
    # Gathered by this index, all padding follows the clip, where causal attention never looks: a mask, which keeps
    # fused kernels off, becomes unnecessary. What padding repeats does not matter: nothing attends to it or scores it.
    gathered = torch.zeros(size[0] * size[1], dtype=torch.long)
    loose_length = NUM_LATENTS + text_padded + code_padded
    for clip, ((text, code), start) in enumerate(zip(parts, starts, strict=True)):
        indices = torch.cat([torch.arange(NUM_LATENTS + text), torch.arange(code) + NUM_LATENTS + text_padded])
        gathered[start : start + len(indices)] = indices + clip * loose_length
    return gathered.view(size)


def _scored(
    texts: list[Tensor],
    codes: list[Tensor],
    parts: list[tuple[int, int]],
    starts: list[int],
    conditioned_codes: list[tuple[int, int]] | None,
    shape: GptShape,
) -> tuple[tuple[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]]:
    """Positions and targets of each clip's text, and of its codes; only positions that are learned from."""
    text_indices, text_targets, code_indices, code_targets = [], [], [], []
    for clip, ((text, code), start) in enumerate(zip(parts, starts, strict=True)):
        text_at = start + NUM_LATENTS
        text_targets.append(_edged(texts[clip], None, 1, shape.stop_text))
        text_indices.append(torch.arange(len(text_targets[-1])) + text_at)
        kept = torch.ones(code, dtype=torch.bool)
        if conditioned_codes is not None:
            # A clip conditioned on its whole self still keeps its stop targets.
            kept[max(conditioned_codes[clip][0], 0) : min(conditioned_codes[clip][1], len(codes[clip]))] = False
        code_indices.append((torch.arange(code) + text_at + text)[kept])
        code_targets.append(_edged(codes[clip], None, STOPS, shape.stop_audio)[kept])
    return (text_indices, text_targets), (code_indices, code_targets)


def _reading(
    reading: list[Tensor] | None, parts: list[tuple[int, int]], starts: list[int], multiple: int
) -> tuple[Tensor, Tensor]:
    """Text tokens as positions within their clips, and where clips and their codes begin; see `PackedBatch`."""
    if reading is None:
        return torch.zeros(0, 0), torch.zeros(0, 2, dtype=torch.long)
    longest = max(len(tokens) for tokens in reading)
    indices = torch.full((len(reading), round_up(max(longest, 1), multiple)), float("nan"))
    for row, tokens in zip(indices, reading, strict=True):
        # START stands before the first token.
        row[: len(tokens)] = tokens + NUM_LATENTS + 1
    firsts = [NUM_LATENTS + text for text, _ in parts]
    return indices, torch.tensor([starts, firsts]).T.contiguous()


def _lengths(parts: list[tuple[int, int]], total: int, static_shape: StaticShape) -> tuple[int, ...]:
    """Positions of each clip of a packed row of `total` positions, and of its padding.

    Attention costs the square of a part's length: much padding is cut into as many pieces that batches of one
    shape have equally many parts.
    """
    clips, pieces = [NUM_LATENTS + sum(part) for part in parts], 1
    if static_shape.total:
        # Enough pieces that none is longer than a clip.
        pieces = max(static_shape.clips + -(-static_shape.total // static_shape.longest) - len(clips), 1)
    size, more = divmod(total - sum(clips), pieces)
    return (*clips, *(size + (piece < more) for piece in range(pieces)))


def _edged(ids: Tensor, first: int | None, num_last: int, last: int) -> Tensor:
    """`ids` with an optional first id and `num_last` repeated last ids, as int64."""
    parts = [ids.long(), torch.full((num_last,), last)]
    return torch.cat(parts if first is None else [torch.tensor([first]), *parts])


def _padded(rows: list[Tensor], length: int, value: int) -> Tensor:
    padded = torch.full((len(rows), length), value, dtype=torch.long)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return padded


def _flat(rows: list[Tensor], value: int, multiple: int) -> Tensor:
    """All rows behind one another, filled up with `value` to a multiple."""
    whole = torch.cat(rows)
    return _padded([whole], round_up(len(whole), multiple), value)[0]


def _rounded(lengths: list[int], multiple: int, most: int) -> int:
    """The longest length rounded up, but not beyond the position table."""
    return min(round_up(max(lengths), multiple), most)


def round_up(value: int, multiple: int) -> int:
    """The value, or the next multiple above it."""
    return -(-value // multiple) * multiple
