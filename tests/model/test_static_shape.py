"""Batches of one shape: every one is filled up alike, padding costs little, and what is learned stays the same."""

import pytest
import torch

from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.model.gpt import ForwardOptions
from utils.model.packing import NO_STATIC_SHAPE, PackedBatch, StaticShape, pack, round_up, row_length

LONGEST = row_length(200, 250, find_base("tiny").gpt_shape())
ROOM = StaticShape(clips=8, longest=LONGEST, total=round_up(8 * LONGEST, 256))
"""As `--max-mel-length 250` makes it for 8 clips of up to 200 text tokens."""


def batch_of(sizes: list[tuple[int, int]], *, layout: str, room: StaticShape = ROOM) -> PackedBatch:
    texts = [torch.arange(21, 21 + text) for text, _ in sizes]
    codes = [torch.arange(code) for _, code in sizes]
    return pack(texts, codes, find_base("tiny").gpt_shape(), layout=layout, static_shape=room)


SIZES = [
    [(40, 100)] * 8,  # A third of the room.
    [(200, 250)] * 8,  # All of it.
    [(9, 30)],  # An epoch's last batch.
]


@pytest.mark.parametrize("layout", ["packed", "rows"])
def test_every_batch_has_the_same_shape(layout):
    batches = [batch_of(sizes, layout=layout) for sizes in SIZES]
    assert len({batch.gather_indices.shape for batch in batches}) == 1
    assert len({len(batch.cu_seqlens) for batch in batches}) == 1
    assert len({batch.longest_clip for batch in batches}) == 1
    if layout == "packed":
        # 512 positions: what the kernel is given of the longest part decides which code runs.
        assert {batch.max_seqlen for batch in batches} == {round_up(LONGEST, 128)}


@pytest.mark.parametrize("sizes", SIZES, ids=len)
def test_no_piece_of_padding_is_longer_than_a_clip_may_be(sizes):
    batch = batch_of(sizes, layout="packed")
    padding = batch.lengths[len(sizes) :]
    assert sum(batch.lengths) == ROOM.total and batch.cu_seqlens[-1] == ROOM.total
    assert max(padding) <= LONGEST
    # Less than as many clips of full length would cost: attention's work is the sum of squares.
    assert sum(length**2 for length in padding) <= sum(padding) * LONGEST


def test_without_a_room_padding_is_one_short_piece():
    batch = batch_of([(40, 100), (9, 30)], layout="packed", room=NO_STATIC_SHAPE)
    assert len(batch.lengths) == 3 and batch.lengths[-1] < 32 and batch.max_seqlen == 256


@pytest.mark.parametrize("layout", ["packed", "rows"])
def test_what_is_computed_stays_the_same(layout):
    gpt = load_gpt(find_base("tiny"), ForwardOptions(sdpa=True, dropout=0.0)).train()
    room = StaticShape(clips=4, longest=200, total=1024)
    losses, gradients = [], []
    for each in (NO_STATIC_SHAPE, room):
        mels = torch.zeros(max(each.clips, 2), 80, 20)
        mels[:2] = torch.randn(2, 80, 20, generator=torch.Generator().manual_seed(1))
        found = gpt(batch_of([(20, 40), (9, 25)], layout=layout, room=each), mels)
        losses.append(torch.stack([found.text, found.codes]).tolist())
        gradients.append(torch.autograd.grad(found.codes, list(gpt.conditioning_encoder.parameters())))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    # Silence in place of clips that are missing teaches nothing.
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-3, atol=1e-5)
