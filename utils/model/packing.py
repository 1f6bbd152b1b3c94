"""Lay each clip out tight, so that padding is only at the end of a row and plain causal attention is exact.

Shapes: B rows, P = 32 conditioning latents, L text tokens (language token included), M audio codes,
    Lp and Mp the padded lengths of both parts, T = the longest P + (L + 1) + (M + 4), rounded up.

A row reads [32 latents | START, L text tokens | start, M codes, 3 stops]; each position predicts the next one within
its part: L text tokens and STOP, then M codes and 4 stops. Source of the counts: coqui-tts, GPT.forward, with the
positions that its attention mask hides left out.
"""

from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

from utils.model.architecture import NUM_LATENTS, GptShape

IGNORED = -1
"""Target of a position that is not learned from."""
STOPS = 4
"""Stop codes that each clip must learn to say."""


@dataclass(frozen=True, kw_only=True)
class PackedBatch:
    """Token ids, targets and the index that moves embeddings from two padded parts into tight rows."""

    text: Tensor
    """START and text tokens, padded; [B, Lp]."""
    codes: Tensor
    """start, codes and 3 stops, padded; [B, Mp]."""
    text_targets: Tensor
    """Next text tokens, `IGNORED` beyond STOP; [B, Lp]."""
    code_targets: Tensor
    """Next codes, `IGNORED` beyond the fourth stop and in the conditioning segment; [B, Mp]."""
    tight: Tensor
    """For each tight position, its place among all rows of [latents | text | codes] padded; [B, T]."""
    code_places: Tensor
    """For each padded code, its place among all tight rows; [B, Mp]."""

    @property
    def num_text_targets(self) -> int:
        return int((self.text_targets != IGNORED).sum())

    @property
    def num_code_targets(self) -> int:
        return int((self.code_targets != IGNORED).sum())

    def to(self, device: torch.device, *, non_blocking: bool = True) -> Self:
        """The same batch on a device."""
        moved = {item.name: getattr(self, item.name).to(device, non_blocking=non_blocking) for item in fields(self)}
        return type(self)(**moved)

    def pin_memory(self) -> Self:
        """The same batch in page-locked memory, so that copies to a GPU overlap with work."""
        return type(self)(**{item.name: getattr(self, item.name).pin_memory() for item in fields(self)})


def row_length(num_text: int, num_codes: int) -> int:
    """Positions of a clip's tight row: L text tokens and M codes give 32 + L + 1 + M + 4."""
    return NUM_LATENTS + num_text + 1 + num_codes + STOPS


def pack(
    texts: list[Tensor],
    codes: list[Tensor],
    shape: GptShape,
    *,
    heard: list[tuple[int, int]] | None = None,
    multiple: int = 32,
) -> PackedBatch:
    """Pack clips into one batch.

    Args:
        texts: token ids of each clip, [L].
        codes: audio codes of each clip, [M].
        heard: for each clip the codes [start, end) that it is conditioned on and must not be scored on; None scores
            all codes.
        multiple: every padded length is rounded up to this. Few different shapes keep the CPU's bf16 kernel caches
            small (they grew to 12 GB with ragged shapes) and suit the GPU's tensor cores.

    Raises:
        AssertionError: a clip is longer than the model's position tables; preparation refuses such clips.
    """
    assert max(map(len, texts)) <= shape.max_text_tokens and max(map(len, codes)) <= shape.max_audio_tokens - 1
    text_in = [_edged(text, shape.start_text, 0, shape.stop_text) for text in texts]
    text_out = [_edged(text, None, 1, shape.stop_text) for text in texts]
    code_in = [_edged(clip, shape.start_audio, STOPS - 1, shape.stop_audio) for clip in codes]
    code_out = [_edged(clip, None, STOPS, shape.stop_audio) for clip in codes]
    for index, (start, end) in enumerate(heard or []):
        _hide(code_out[index], start, end, num_codes=len(codes[index]))
    text_length = min(_round_up(max(map(len, text_in)), min(multiple, 16)), shape.text_positions)
    code_length = min(_round_up(max(map(len, code_in)), multiple), shape.audio_positions)
    parts = [(len(text), len(code)) for text, code in zip(text_in, code_in, strict=True)]
    tight, code_places = _places(parts, text_length, code_length, multiple)
    return PackedBatch(
        text=_padded(text_in, text_length, shape.stop_text),
        codes=_padded(code_in, code_length, shape.stop_audio),
        text_targets=_padded(text_out, text_length, IGNORED),
        code_targets=_padded(code_out, code_length, IGNORED),
        tight=tight,
        code_places=code_places,
    )


def _places(parts: list[tuple[int, int]], text_padded: int, code_padded: int, multiple: int) -> tuple[Tensor, Tensor]:
    """Where each tight position comes from, [B, T], and where each padded code went, [B, Mp], over all rows."""
    longest = NUM_LATENTS + max(text_padded, *(text + code for text, code in parts))
    length = _round_up(longest, multiple)
    tight = torch.zeros(len(parts), length, dtype=torch.long)
    code_places = torch.zeros(len(parts), code_padded, dtype=torch.long)
    for row, (text, code) in enumerate(parts):
        codes_at = NUM_LATENTS + text
        tight[row, :codes_at] = torch.arange(codes_at)
        tight[row, codes_at : codes_at + code] = torch.arange(code) + NUM_LATENTS + text_padded
        code_places[row, :code] = torch.arange(code) + codes_at
    row_numbers = torch.arange(len(parts)).unsqueeze(1)
    loose_length = NUM_LATENTS + text_padded + code_padded
    return tight + row_numbers * loose_length, code_places + row_numbers * length


def _edged(ids: Tensor, first: int | None, num_last: int, last: int) -> Tensor:
    """`ids` with an optional first id and `num_last` repeated last ids, as int64."""
    parts = [ids.long(), torch.full((num_last,), last)]
    return torch.cat(parts if first is None else [torch.tensor([first]), *parts])


def _hide(targets: Tensor, start: int, end: int, *, num_codes: int) -> None:
    """Ignore the codes the model was conditioned on; a clip heard from end to end keeps its stop targets."""
    targets[max(start, 0) : min(end, num_codes)] = IGNORED


def _padded(rows: list[Tensor], length: int, value: int) -> Tensor:
    padded = torch.full((len(rows), length), value, dtype=torch.long)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return padded


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
