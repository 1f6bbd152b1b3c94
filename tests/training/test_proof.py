"""Proofs say what ran: they change when the operation does, whatever the settings claim."""

import pytest
import torch

from utils.model.base import find_base
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.packing import pack
from utils.model.xtts import load_gpt
from utils.training.proof import record_step, saved_bytes


def step(gpt: XttsGpt, *, layout: str = "rows", dtype: torch.dtype | None = None) -> None:
    """Forward and backward of two clips."""
    texts, codes = [torch.arange(21, 40), torch.arange(21, 30)], [torch.arange(40), torch.arange(25)]
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        losses = gpt(pack(texts, codes, gpt.shape, layout=layout), torch.zeros(2, 80, 20))
    (losses.text + losses.codes).backward()


def make_gpt(**options) -> XttsGpt:
    return load_gpt(find_base("tiny"), ForwardOptions(dropout=0.0, **options)).train()


@pytest.mark.parametrize(
    ("attention", "layout", "kernel", "blocks_calls"),
    [
        ("sdpa", "rows", "flash (CPU)", 4),
        ("sdpa", "packed", "flash (CPU)", 12),
        ("explicit", "rows", "explicit softmax", 4),
    ],
)
def test_the_kernel_is_read_from_the_operation(attention: str, layout: str, kernel: str, blocks_calls: int) -> None:
    gpt = make_gpt(attention=attention)
    with record_step(gpt) as record:
        step(gpt, layout=layout)
    # Four blocks, a call each or three (two clips and the padding); six blocks of the encoder, two of the perceiver.
    assert record.kernels == {kernel: blocks_calls + 8}
    assert record.product_dtype == record.stream_dtype == torch.float32


def test_a_kernel_that_is_switched_off_is_not_claimed() -> None:
    gpt = make_gpt(attention="sdpa")
    math_only = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with math_only, record_step(gpt) as record:
        step(gpt)
    assert "flash (CPU)" not in record.kernels and record.kernels["math"] > 0


@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
def test_recomputed_blocks_are_counted_by_their_second_run(checkpointing: str) -> None:
    gpt = make_gpt(attention="sdpa", checkpointing=checkpointing)
    with record_step(gpt) as record:
        step(gpt)
        step(gpt)
    assert record.forward_runs == 8
    assert record.recomputed == (0 if checkpointing == "none" else 8)


def test_precision_is_read_from_the_products() -> None:
    gpt = make_gpt(attention="sdpa")
    with record_step(gpt) as record:
        step(gpt, dtype=torch.bfloat16)
    assert record.product_dtype == torch.bfloat16


def test_saved_bytes_are_those_of_the_graph() -> None:
    layer = torch.nn.Linear(100, 200, bias=False)
    x = torch.zeros(50, 100)
    assert saved_bytes(lambda: layer(x)) == x.numel() * 4
    assert saved_bytes(lambda: layer(x).relu()) == (x.numel() + 50 * 200) * 4
