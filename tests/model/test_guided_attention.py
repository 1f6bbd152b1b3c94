"""The guided attention loss is what its formula says, the same in every layout, and it teaches."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.model.test_gpt_parity import SHAPE
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.guided_attention import reading_loss
from utils.model.packing import NUM_LATENTS, pack
from utils.training.data.clip_list import TrainingClip

UNKNOWN = float("nan")


def clips() -> tuple[list, list, list]:
    """Three ragged clips; of the last one it is not known where it is in its text."""
    generator = torch.Generator().manual_seed(3)
    lengths = [(17, 41), (5, 60), (33, 23)]
    texts = [torch.randint(2, 47, (text,), generator=generator) for text, _ in lengths]
    codes = [torch.randint(0, 127, (code,), generator=generator) for _, code in lengths]
    reading = [torch.linspace(0, text - 1, code) for text, code in lengths[:2]]
    return texts, codes, [*reading, torch.zeros(0)]


def gpt(**options) -> XttsGpt:
    torch.manual_seed(1)
    return XttsGpt(SHAPE, ForwardOptions(dropout=0.0, reading_weight=0.5, **options)).train()


def by_hand(q: torch.Tensor, k: torch.Tensor, first: int, wanted: list[float], *, ahead: bool) -> float:
    """The loss of one clip in a row of its own, one code after the other."""
    total = 0.0
    for number, place in enumerate(wanted):
        position = first + number + (0 if ahead else 1)
        if math.isnan(place):
            continue
        scores = (k[0, -1, : position + 1] @ q[0, -1, position]) * q.size(-1) ** -0.5
        near = (torch.arange(position + 1) - place).abs() <= 2
        total -= math.log(scores.softmax(0)[near].sum())
    return total


def reading_batch(reading: Tensor, longest: int) -> Any:
    """What the loss reads of a batch: one clip whose codes begin after 20 positions."""
    return SimpleNamespace(reading_starts=torch.tensor([[0, 20]]), reading=reading, longest_clip=longest)


@pytest.mark.parametrize("ahead", [False, True])
def test_loss_is_the_attention_that_misses_the_text_that_is_read(ahead):
    torch.manual_seed(0)
    q, k = torch.randn(1, 4, 30, 8), torch.randn(1, 4, 30, 8)
    wanted = [3.0, UNKNOWN, 4.5, 6.0]
    batch = reading_batch(torch.tensor([[*wanted, UNKNOWN]]), 30)
    assert reading_loss(q, k, batch, ahead=ahead).item() == pytest.approx(
        by_hand(q, k, 20, wanted, ahead=ahead), rel=1e-5
    )


def test_attention_at_the_right_place_loses_nothing():
    q, k = torch.zeros(1, 1, 40, 8), torch.zeros(1, 1, 40, 8)
    q[..., 20:, 0], k[0, 0, 5, 0] = 30.0, 30.0
    near, far = (reading_batch(torch.full((1, 8), place), 40) for place in (5.0, 12.0))
    assert reading_loss(q, k, near, ahead=True).item() == pytest.approx(0, abs=1e-3)
    assert reading_loss(q, k, far, ahead=True).item() > 8 * 100


@pytest.mark.parametrize("sdpa", [False, True])
@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_layouts_and_switches_change_neither_losses_nor_gradients(sdpa, checkpointing):
    texts, codes, reading = clips()
    mels = torch.randn(3, 80, 37, generator=torch.Generator().manual_seed(4))
    found = []
    for layout, options in (
        ("rows", {"sdpa": False}),
        ("packed", {"sdpa": sdpa, "checkpointing": checkpointing}),
    ):
        model = gpt(**options)
        losses = model(pack(texts, codes, SHAPE, reading=reading, layout=layout), mels)
        (losses.codes + losses.reading).backward()
        found.append((losses, model.gpt.h[1].attn.c_attn.weight.grad))
    (rows, gradient), (packed, same) = found
    assert rows.reading.item() > 0
    assert packed.reading.item() == pytest.approx(rows.reading.item(), rel=1e-4)
    assert packed.codes.item() == pytest.approx(rows.codes.item(), rel=1e-4)
    assert (gradient - same).norm() <= 1e-3 * gradient.norm()


def test_it_stands_beside_the_loss_and_is_learned_in_training_only():
    texts, codes, reading = clips()
    mels = torch.randn(3, 80, 37, generator=torch.Generator().manual_seed(4))
    batch, plain = pack(texts, codes, SHAPE, reading=reading), pack(texts, codes, SHAPE)
    model = gpt()
    assert model(batch, mels).codes.item() == pytest.approx(model(plain, mels).codes.item(), rel=1e-6)
    assert model(plain, mels).reading.item() == 0
    assert model.eval()(batch, mels).reading.item() == 0
    unknown = [torch.zeros(0)] * 3
    assert model.train()(pack(texts, codes, SHAPE, reading=unknown), mels).reading.item() == 0


@pytest.mark.slow
def test_some_steps_teach_a_head_to_read_along():
    texts, codes, reading = clips()
    mels = torch.randn(3, 80, 37, generator=torch.Generator().manual_seed(4))
    batch, model = pack(texts, codes, SHAPE, reading=reading), gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    missed = []
    for _ in range(40):
        losses = model(batch, mels)
        (losses.codes + losses.reading).backward()
        optimizer.step()
        optimizer.zero_grad()
        missed.append(losses.reading.item())
    assert missed[-1] < 0.5 * missed[0]


def test_a_clip_knows_the_token_in_the_middle_of_each_code():
    clip = TrainingClip(
        audio=None,
        num_samples=4 * 1024,
        is_native=True,
        tokens=torch.arange(9),
        codes=np.zeros(4, dtype=np.int16),
        reading=np.array([[0, 1], [2 * 1024 / 22_050, 5], [4 * 1024 / 22_050, 9]], dtype=np.float32),
    )
    assert clip.tokens_read() == pytest.approx([2, 4, 6, 8], abs=1e-4)


def test_positions_count_latents_and_the_start_token():
    batch = pack([torch.tensor([4, 5, 6])], [torch.tensor([1, 2])], SHAPE, reading=[torch.tensor([0.0, 2.5])])
    assert batch.reading[0, :2].tolist() == [NUM_LATENTS + 1, NUM_LATENTS + 3.5] and batch.reading[0, 2:].isnan().all()
    assert batch.reading_starts.tolist() == [[0, NUM_LATENTS + 4]]
