"""Guided attention: a loss that teaches some attention heads which text position is being spoken.

A GPT that learns to speak from little speech aligns by counting: its attention follows the text by position alone, and
the longer the sentence the less it knows where it is. Word times show it. Two heads learn to find the word of the code
they stand at, which they can attend to, and two higher ones the place of the code that comes next.

Shapes: B clips, R packed rows of T positions, H heads, C channels a head, Q codes and K positions of the longest clip.

Source of the idea: guided attention (Tachibana, Uenoyama and Aihara 2017), here with measured times in place of a
diagonal.
"""

import torch
from torch import Tensor

from utils.model.packing import PackedBatch

WINDOW = 2.0
"""Tokens around the right one that count as right: times within a word are interpolated, and so not exact."""
HIDDEN = -1e4
"""Score of what cannot be seen; finite, so that a clip without times gives no NaN."""
HEAD = -1
"""Which head of a guided block learns it."""


def guided_blocks(num_blocks: int) -> dict[int, bool]:
    """The blocks with a guided head, and whether it looks ahead to the next code."""
    ahead = {num_blocks * sixth // 6: sixth > 2 for sixth in (1, 2, 3, 4)}
    return dict(sorted(ahead.items()))


def reading_loss(q: Tensor, k: Tensor, batch: PackedBatch, *, ahead: bool) -> Tensor:
    """Sum over codes of -log of the attention that the guided head pays to the right part of the text, float32.

    Args:
        q, k: of one block, [R, H, T, C].
        batch: which says where in their texts its clips are.
        ahead: whether a position is to find the code after it, or the one it holds.
    """
    starts, first = batch.reading_starts.split(1, dim=1)
    wanted = batch.reading
    if not ahead:
        # A position that holds a code looks for that code's text: the indices move one position further on.
        wanted = torch.cat([torch.full_like(wanted[:, :1], float("nan")), wanted[:, :-1]], dim=1)
    keys = torch.arange(batch.longest_clip, device=q.device)[None]
    # The start code stands before the first code and predicts it.
    queries = first + torch.arange(wanted.size(1), device=q.device)
    scores = torch.bmm(_gather(q, starts + queries), _gather(k, starts + keys).transpose(1, 2)).float()
    scores = (scores * q.size(-1) ** -0.5).masked_fill(keys[:, None] > queries[:, :, None], HIDDEN)
    middle = wanted.nan_to_num()[:, :, None]
    # Only the few keys of the window: an exponential that underflows takes ten times as long as another one.
    right = (middle - WINDOW).ceil() + torch.arange(2 * WINDOW + 1, device=q.device)
    inside = (right <= middle + WINDOW) & (right >= 0) & (right < batch.longest_clip)
    found = scores.log_softmax(-1).gather(2, right.clamp(0, batch.longest_clip - 1).long())
    missed = -found.masked_fill(~inside, HIDDEN).logsumexp(-1)
    return torch.where(wanted.isnan(), 0.0, missed).sum()


def _gather(rows: Tensor, indices: Tensor) -> Tensor:
    """The guided head's vectors at indices counted over all rows: [R, H, T, C] to [B, n, C]."""
    flat = rows[:, HEAD].flatten(0, 1)
    # Behind the last clip there may be nothing; causality hides what is taken instead.
    return flat.index_select(0, indices.clamp(max=len(flat) - 1).flatten()).view(*indices.shape, -1)
