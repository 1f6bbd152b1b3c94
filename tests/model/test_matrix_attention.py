"""Attention as matrix products against explicit softmax attention: results, gradients, and which case takes it."""

import pytest
import torch
from torch import Tensor

from utils.model.attention import clip_by_clip, explicit_attention, is_matrix_case, packed_attention
from utils.model.matrix_attention import MatrixAttention, PackedMatrixAttention, plan_groups

HEADS, CHANNELS = 4, 16


def heads_of(rows: int, length: int, dtype: torch.dtype, seed: int) -> Tensor:
    """Random [B, H, T, C], laid out as the model's projections lay it out."""
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn(rows, length, HEADS, CHANNELS, generator=generator).to(dtype)
    return made.transpose(1, 2).requires_grad_()


def with_gradients(attended: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    weights = torch.randn(attended.shape, generator=torch.Generator().manual_seed(9)).to(attended.dtype)
    return [attended.detach(), *torch.autograd.grad(attended, inputs, weights)]


@pytest.mark.parametrize("causal", [False, True])
def test_rows_equal_explicit_attention(causal):
    inputs = [heads_of(2, 37 if causal or number == 0 else 53, torch.float64, number) for number in range(3)]
    ours = with_gradients(MatrixAttention.apply(*inputs, causal), inputs)
    # Explicit attention adds its softmax up in float32, so seven digits are all there is to compare.
    theirs = with_gradients(explicit_attention(*inputs, causal=causal), inputs)
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lengths", [(40,), (40, 13, 0), (7, 40, 39, 1, 25), (700, 30, 690, 5)])
def test_a_packed_row_equals_its_clips_one_by_one(lengths):
    inputs = [heads_of(1, sum(lengths), torch.float32, number) for number in range(3)]
    ours = with_gradients(PackedMatrixAttention.apply(*inputs, plan_groups(lengths, HEADS)), inputs)
    kernel = lambda q, k, v: explicit_attention(q, k, v, causal=True)  # noqa: E731
    theirs = with_gradients(clip_by_clip(*inputs, kernel=kernel, lengths=lengths), inputs)
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, rtol=1e-4, atol=1e-5)


def test_clips_of_like_length_are_computed_together_and_others_apart():
    assert [group.num_clips for group in plan_groups((100, 98, 101, 99), 4).groups] == [4]
    assert [group.num_clips for group in plan_groups((600, 30, 590, 31), 16).groups] == [2, 2]


def test_what_padding_holds_reaches_no_clip():
    """A clip with values that are not finite spoils itself only, also when it is padded beside another."""
    lengths = (20, 30)
    q, k, v = (heads_of(1, 50, torch.float32, number) for number in range(3))
    with torch.no_grad():
        v[:, :, :20] = float("nan")
    attended = PackedMatrixAttention.apply(q, k, v, plan_groups(lengths, HEADS))
    assert torch.isnan(attended[:, :, :20]).all() and torch.isfinite(attended[:, :, 20:]).all()


def test_bf16_gradients_are_as_near_to_float64_as_the_flash_kernels():
    """The yardstick is what the kernel it stands in for does with the same numbers."""
    exact = [heads_of(1, 150, torch.float64, number) for number in range(3)]
    truth = with_gradients(explicit_attention(*exact, causal=True), exact)
    halves = [x.detach().to(torch.bfloat16).requires_grad_() for x in exact]
    ours = with_gradients(MatrixAttention.apply(*halves, True), halves)
    flash = with_gradients(torch.nn.functional.scaled_dot_product_attention(*halves, is_causal=True), halves)
    for our, its, true in zip(ours, flash, truth, strict=True):
        assert (our - true).norm() <= 1.5 * (its - true).norm()


def test_only_bf16_on_a_cpu_that_wants_gradients_takes_it():
    half, full = (heads_of(1, 8, dtype, 0) for dtype in (torch.bfloat16, torch.float32))
    assert is_matrix_case(half) and not is_matrix_case(full) and not is_matrix_case(half.detach())
    plan = plan_groups((8,), HEADS)
    assert packed_attention(full, full, full, lengths=(8,), plan=plan).shape == full.shape


def test_clips_are_padded_to_few_lengths():
    """Each shape costs a kernel that stays in memory; ragged ones took gigabytes in a training of some hours."""
    seen = {
        len(group.indices) // group.num_clips
        for length in range(40, 200)
        for group in plan_groups((length,), HEADS).groups
    }
    assert seen == {64, 96, 128, 160, 192, 224}
