"""Our packed forward computes what stock's `GPT.forward` computes: losses and every gradient, in float32."""

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.model.stock import stock_gpt, stock_inputs, without_dropout
from utils.model.gpt import ForwardOptions, XttsGpt, _dropped
from utils.model.packing import IGNORED, Layout, PackedBatch, pack, row_length
from utils.model.shapes import GptShape

SHAPE = GptShape(
    layers=3,
    width=64,
    heads=4,
    text_rows=50,
    audio_rows=130,
    start_text=48,
    stop_text=0,
    start_audio=128,
    stop_audio=129,
    max_text_tokens=60,
    max_audio_tokens=120,
)
TEXT_WEIGHT, CODE_WEIGHT = 0.01, 1.0


def clips(batch: int) -> tuple[list, list, torch.Tensor]:
    """Ragged token ids and codes, and a conditioning mel for each clip."""
    generator = torch.Generator().manual_seed(batch)
    lengths = [(17, 41), (5, 99), (33, 23), (58, 64)][:batch]
    texts = [torch.randint(2, 47, (text,), generator=generator) for text, _ in lengths]
    codes = [torch.randint(0, 127, (code,), generator=generator) for _, code in lengths]
    return texts, codes, torch.randn(batch, 80, 37, generator=generator)


def our_copy(stock, options: ForwardOptions) -> XttsGpt:
    ours = XttsGpt(SHAPE, options)
    ours.load_state_dict(stock.state_dict(), strict=True)
    return ours.train()


def mean_losses(ours: XttsGpt, batch: PackedBatch, mels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    sums = ours(batch, mels)
    return sums.text / batch.num_text_targets, sums.codes / batch.num_code_targets


def assert_same_gradients(ours: XttsGpt, stock, *, only_codes: bool = False) -> None:
    theirs = dict(stock.named_parameters())
    for name, parameter in ours.named_parameters():
        expected = theirs[name].grad
        if only_codes and name.startswith("text_head"):
            continue
        assert parameter.grad is not None and expected is not None, name
        # The floor is for a parameter whose true gradient is zero: it holds rounding noise only.
        scale = max(expected.norm().item(), 1e-6)
        assert (parameter.grad - expected).norm().item() <= 1e-3 * scale, name


def trained(batch: int, layout: Layout, ours_in: torch.dtype = torch.float32, **options: Any) -> tuple[Any, ...]:
    """Stock's model and ours with their gradients, and the losses of each; ours computes under autocast's type."""
    stock = stock_gpt(SHAPE).train()
    without_dropout(stock)
    ours = our_copy(stock, ForwardOptions(**options, dropout=0.0))
    texts, codes, mels = clips(batch)
    theirs = stock(**stock_inputs(texts, codes), cond_mels=mels.unsqueeze(1))[:2]
    with torch.autocast("cpu", dtype=ours_in, enabled=ours_in != torch.float32):
        losses = mean_losses(ours, pack(texts, codes, SHAPE, layout=layout), mels)
    for text, code in (theirs, losses):
        (TEXT_WEIGHT * text + CODE_WEIGHT * code).backward()
    return stock, ours, *([loss.item() for loss in both] for both in (theirs, losses))


@pytest.mark.parametrize("sdpa", [False, True])
@pytest.mark.parametrize(
    ("batch", "checkpointing", "layout"),
    [(1, "none", "packed"), *itertools.product([4], ["none", "selective", "full"], ["rows", "packed"])],
)
def test_losses_and_gradients_equal_stock(batch, sdpa, checkpointing, layout):
    stock, ours, theirs, losses = trained(batch, layout, sdpa=sdpa, checkpointing=checkpointing)
    assert losses == pytest.approx(theirs, abs=1e-4)
    assert_same_gradients(ours, stock)


@pytest.mark.parametrize(
    ("sdpa", "checkpointing", "layout"),
    [(False, "none", "rows"), (True, "selective", "rows"), (True, "none", "packed"), (True, "full", "packed")],
)
def test_bf16_is_off_by_its_rounding_only(sdpa, checkpointing, layout):
    """bf16 has 8 bits: each product is off by up to 2^-8, and sums of them by about as much of their size.

    Losses are sums over many products whose errors cancel, hence 1 %. All gradients together are held to 6 %, some
    fifteen roundings in a row through three blocks and the conditioning encoder; a wrong mask is off by far more.
    """
    stock, ours, wanted, losses = trained(4, layout, torch.bfloat16, sdpa=sdpa, checkpointing=checkpointing)
    assert losses == pytest.approx(wanted, rel=1e-2)
    theirs = dict(stock.named_parameters())
    pairs = [(p.grad.flatten(), theirs[name].grad.flatten()) for name, p in ours.named_parameters()]
    mine, expected = (torch.cat(side) for side in zip(*pairs, strict=True))
    assert (mine - expected).norm() <= 6e-2 * expected.norm()


@pytest.mark.parametrize("batch", [1, 4])
def test_conditioning_segments_are_masked_in_every_row(batch):
    """The comparison is with stock's own logits and the mask applied to each row, in codes (see the next test)."""
    stock = stock_gpt(SHAPE).train()
    without_dropout(stock)
    ours = our_copy(stock, ForwardOptions(dropout=0.0))
    texts, codes, mels = clips(batch)
    conditioned = [(3, 20), (0, 50), (7, 23), (60, 64)][:batch]

    _, _, logits = stock(**stock_inputs(texts, codes), cond_mels=mels.unsqueeze(1))
    targets = torch.full((batch, logits.shape[-1]), IGNORED)
    for row, (clip, (start, end)) in enumerate(zip(codes, conditioned, strict=True)):
        targets[row, : len(clip) + 4] = F.pad(clip, (0, 4), value=SHAPE.stop_audio)
        targets[row, start:end] = IGNORED
    expected = F.cross_entropy(logits, targets, ignore_index=IGNORED)
    expected.backward()
    _, our_codes = mean_losses(ours, pack(texts, codes, SHAPE, conditioned_codes=conditioned), mels)
    our_codes.backward()

    assert our_codes.item() == pytest.approx(expected.item(), abs=1e-4)
    assert_same_gradients(ours, stock, only_codes=True)


def test_one_packed_row_holds_the_same_clips_as_rows():
    """Whatever reads a packed row finds each clip whole between its two bounds."""
    texts, codes, _ = clips(4)
    conditioned = [(3, 20), (0, 50), (7, 23), (60, 64)]
    rows, packed = (
        pack(texts, codes, SHAPE, conditioned_codes=conditioned, layout=layout) for layout in ("rows", "packed")
    )
    assert packed.gather_indices.shape == (1, 512) and rows.gather_indices.shape == (4, 160)
    lengths = packed.cu_seqlens.diff()
    wanted = [row_length(len(t), len(c), SHAPE) for t, c in zip(texts, codes, strict=True)]
    assert lengths.tolist() == [*wanted, 512 - 488]
    for clip, (start, length) in enumerate(zip(packed.cu_seqlens, lengths[:4], strict=False)):
        assert torch.equal(packed.gather_indices[0, start : start + length], rows.gather_indices[clip, :length])
    for name in ("text", "code"):
        flat = [batch.gather_indices.flatten()[getattr(batch, f"{name}_indices")] for batch in (rows, packed)]
        count = getattr(packed, f"num_{name}_targets")
        assert torch.equal(flat[0][:count], flat[1][:count])
        assert torch.equal(getattr(rows, f"{name}_targets"), getattr(packed, f"{name}_targets"))
    assert (packed.num_positions, packed.gather_indices.numel()) == (488, 512)
    assert (rows.num_positions, rows.gather_indices.numel()) == (488, 640)


def test_a_clip_heard_from_end_to_end_keeps_its_stop_targets():
    texts, codes, mels = clips(1)
    batch = pack(texts, codes, SHAPE, conditioned_codes=[(0, len(codes[0]))])
    assert batch.num_code_targets == 4
    ours = our_copy(stock_gpt(SHAPE), ForwardOptions(dropout=0.0))
    _, loss = mean_losses(ours, batch, mels)
    assert torch.isfinite(loss)


def test_padding_changes_nothing():
    """A clip's loss is the same alone, beside a longer clip, and with lengths rounded up or not."""
    ours = our_copy(stock_gpt(SHAPE), ForwardOptions(dropout=0.0)).eval()
    texts, codes, mels = clips(4)
    with torch.no_grad():
        alone = [ours(pack([t], [c], SHAPE, multiple=1), m[None]) for t, c, m in zip(texts, codes, mels, strict=True)]
        together = ours(pack(texts, codes, SHAPE), mels)
    assert together.text.item() == pytest.approx(sum(one.text.item() for one in alone), rel=1e-5)
    assert together.codes.item() == pytest.approx(sum(one.codes.item() for one in alone), rel=1e-5)


def test_longest_clip_fits_the_position_tables():
    texts = [torch.randint(2, 47, (SHAPE.max_text_tokens,))]
    codes = [torch.randint(0, 127, (SHAPE.max_audio_tokens - 1,))]
    ours = our_copy(stock_gpt(SHAPE), ForwardOptions(dropout=0.0))
    loss = ours(pack(texts, codes, SHAPE), torch.randn(1, 80, 9))
    assert torch.isfinite(loss.codes) and torch.isfinite(loss.text)


def test_dropout_acts_in_training_only():
    ours = our_copy(stock_gpt(SHAPE), ForwardOptions(dropout=0.5))
    texts, codes, mels = clips(2)
    batch = pack(texts, codes, SHAPE)
    assert ours(batch, mels).codes.item() != ours(batch, mels).codes.item()
    ours.eval()
    assert ours(batch, mels).codes.item() == ours(batch, mels).codes.item()


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_share_is_dropped_and_the_rest_makes_up_for_it(share, dtype):
    torch.manual_seed(0)
    x = torch.ones(3, 333, 1_001, dtype=dtype, requires_grad=True)
    out = _dropped(x, share)
    out.sum().backward()
    assert set(out.unique().tolist()) == {0.0, torch.tensor(1 / (1 - share), dtype=dtype).item()}
    # A million draws: one standard deviation is 0.0003 to 0.0005.
    assert (out == 0).float().mean().item() == pytest.approx(share, abs=0.002)
    # Neighbors share a random number; what one of them is must not tell what the others are.
    dropped = (out == 0).float().flatten()[: 4 * 200_000].view(-1, 4)
    correlations = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlations.abs().max() < 0.01
    assert x.grad is not None and torch.equal(x.grad, out.detach())


def test_the_same_seed_drops_the_same():
    x = torch.ones(50, 7)
    torch.manual_seed(3)
    first = _dropped(x, 0.3)
    torch.manual_seed(3)
    assert torch.equal(first, _dropped(x, 0.3))
    assert _dropped(x, 0.0) is x
