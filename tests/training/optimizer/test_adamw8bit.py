"""8-bit moments: what they stand for, how far the update is from AdamW's in float64, and what they take."""

import pytest
import torch

from utils.training.optimizer.adamw8bit import SMALLEST, AdamW8bit
from utils.training.optimizer.levels import BLOCK, dequantize, quantize
from utils.training.optimizer.make import BETAS
from utils.training.optimizer.offload import OffloadedAdamW


def test_256_values_stand_for_everything_between_minus_one_and_one() -> None:
    for signed in (True, False):
        levels = dequantize(torch.arange(256, dtype=torch.uint8).view(1, 256), torch.ones(1, 1), signed=signed)
        assert len(levels.unique()) == 256 and bool((levels.diff() > 0).all())
        assert levels.max() == 1 and (levels == 0).any()
        assert (levels.min() < -0.99) == signed


@pytest.mark.parametrize("signed", [True, False])
def test_each_value_becomes_the_nearest_level_or_its_neighbor(signed: bool) -> None:
    values = torch.randn(3 * BLOCK + 7, generator=torch.Generator().manual_seed(0))
    values = values if signed else values**2
    # A block's largest is once below zero, where no level is as far out as 1, and once above.
    values[:2] = torch.tensor([-9.0 if signed else 9.0, 8.0])
    values[BLOCK] = 9.0
    codes, scales = quantize(values, signed=signed)
    assert codes.shape == (4, BLOCK) and scales.shape == (4, 1)
    back = dequantize(codes, scales, signed=signed)[: len(values)]
    levels = dequantize(torch.arange(256, dtype=torch.uint8).view(1, 256), torch.ones(1, 1), signed=signed)
    for block in range(4):
        part = slice(block * BLOCK, min((block + 1) * BLOCK, len(values)))
        shares = values[part] / scales[block]
        # No second moment becomes zero: it would vanish beside its block's largest.
        nearest = (shares[:, None] - levels[0 if signed else 1 :]).abs().argmin(dim=1) + (0 if signed else 1)
        away = (codes[block, : len(shares)].int() - nearest).abs()
        assert int(away.max()) <= 1
        # The other neighbor only where a decade begins.
        assert (away == 0).float().mean() > 0.95
        # A block's largest positive value is its scale, to the bit: scales would shrink from step to step otherwise.
        if values[part].max() == scales[block]:
            assert back[part].max() == scales[block]


def test_a_block_of_zeros_stays_zero() -> None:
    codes, scales = quantize(torch.zeros(BLOCK), signed=False)
    assert dequantize(codes, scales, signed=False).abs().max() == 0


@pytest.mark.parametrize(("kind", "tolerance"), [(AdamW8bit, 0.05), (OffloadedAdamW, 1e-5)])
def test_updates_follow_adamw_in_float64(kind: type, tolerance: float) -> None:
    """The distance that 30 steps move the weights, against AdamW's own in float64."""
    torch.manual_seed(1)
    start = torch.randn(64, SMALLEST // 32)
    exact, ours = start.double().requires_grad_(), start.clone().requires_grad_()
    optimizers = (
        torch.optim.AdamW([exact], lr=1e-2, betas=BETAS, weight_decay=0.01),
        kind([ours], lr=1e-2, betas=BETAS, weight_decay=0.01),
    )
    for step in range(30):
        gradient = torch.randn(start.shape, generator=torch.Generator().manual_seed(step)) + start.sign()
        exact.grad, ours.grad = gradient.double(), gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    moved = (exact - start).norm()
    assert (ours - exact).norm() < tolerance * moved
    assert moved > 1


def test_moments_take_two_bytes_a_parameter_and_a_scale_a_block() -> None:
    weights = torch.zeros(SMALLEST * 4, requires_grad=True)
    optimizer = AdamW8bit([weights], lr=1e-3, betas=BETAS)
    weights.grad = torch.ones_like(weights)
    optimizer.step()
    held = sum(value.nbytes for value in optimizer.state[weights].values())
    assert held == 2 * weights.numel() + 2 * 4 * weights.numel() // BLOCK + 4


def test_small_parameters_keep_exact_moments() -> None:
    bias = torch.zeros(SMALLEST - 1, requires_grad=True)
    optimizer = AdamW8bit([bias], lr=1e-3, betas=BETAS)
    bias.grad = torch.full_like(bias, 0.5)
    optimizer.step()
    torch.testing.assert_close(optimizer.state[bias]["exp_avg"], torch.full_like(bias, 0.5 * (1 - BETAS[0])))


@pytest.mark.parametrize("vanishing", [False, True])
def test_no_update_explodes_where_gradients_differ_by_many_decades(vanishing: bool) -> None:
    """A second moment that rounds to zero would leave the update divided by eps alone: thousands of learning rates."""
    generator = torch.Generator().manual_seed(2)
    weights = torch.zeros(SMALLEST * 2, requires_grad=True)
    optimizer = AdamW8bit([weights], lr=1e-3, betas=BETAS)
    largest = 0.0
    for step in range(40):
        decades = torch.randn(weights.shape, generator=generator) * 3
        gradient = torch.randn(weights.shape, generator=generator) * 10**decades
        weights.grad = gradient * 0 if vanishing and step > 10 else gradient
        before = weights.detach().clone()
        optimizer.step()
        largest = max(largest, float((weights - before).abs().max()))
    assert largest < 10 * 1e-3
