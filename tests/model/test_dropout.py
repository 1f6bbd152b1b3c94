"""Dropout on a CPU: the share that is dropped, what is kept, and the same again for the same seed."""

import pytest
import torch

from utils.model.gpt import _dropped


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_share_is_dropped_and_the_rest_makes_up_for_it(share: float, dtype: torch.dtype) -> None:
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


def test_the_same_seed_drops_the_same() -> None:
    x = torch.ones(50, 7)
    torch.manual_seed(3)
    first = _dropped(x, 0.3)
    torch.manual_seed(3)
    assert torch.equal(first, _dropped(x, 0.3))
    assert _dropped(x, 0.0) is x
