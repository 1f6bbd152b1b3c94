"""A training step on a GPU, counted with fake tensors at full size: how many kernels, and nothing that waits.

Fake tensors of a GPU have no backward pass where there is none: these lie on the CPU, and the model computes with them
as it does on a GPU.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.launches import FULL, Launches
from utils.model import attention, gpt
from utils.model.attention import Attend, varlen_attention
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.mel import LogMel
from utils.model.packing import PackedBatch, pack
from utils.training.data.batches import Batch
from utils.training.switches import optim as optimizer_of
from utils.training.switches.compile import compiler_problem
from utils.training.trainer import Trainer

CLIPS = [(60, 90), (100, 180), (30, 40), (80, 120)] * 2
"""Text tokens and codes of each clip of a batch."""
MOST_KERNELS = 1_500
"""Of a compiled step."""


@contextmanager
def as_on_a_gpu() -> Iterator[FakeTensorMode]:
    """Fake tensors, and a model that takes the GPU's way of computing with them."""

    def attend(model: XttsGpt, batch: PackedBatch, dropout: float) -> Attend:
        bounds: dict[str, Any] = {"cu_seqlens": batch.cu_seqlens, "max_seqlen": batch.max_seqlen}
        return partial(varlen_attention, **bounds, kernel="torch")

    with pytest.MonkeyPatch.context() as patch, FakeTensorMode() as mode:
        patch.setattr(attention, "is_matrix_case", lambda q: False)
        patch.setattr(gpt, "_dropped", on_a_gpu_dropped)
        patch.setattr(XttsGpt, "_attend", attend)
        yield mode


def on_a_gpu_dropped(x: Tensor, share: float) -> Tensor:
    """One kernel there, three on a CPU."""
    return torch.native_dropout(x, share, True)[0] if share else x


def make_trainer() -> Trainer:
    model = XttsGpt(FULL, ForwardOptions(sdpa=True))
    optimizer = optimizer_of.make_optimizer(model, learning_rate=1e-5, weight_decay=0.01)
    alone = {"num_processes": 1, "process_index": 0, "device": torch.device("cpu")}
    calls = {"prepare_model": lambda model: model, "no_sync": lambda model: nullcontext()}
    return Trainer(
        gpt=model,
        optimizer=optimizer,
        schedule=optimizer_of.make_schedule(optimizer, "constant", warmup_steps=0, total_steps=9),
        mel=cast(LogMel, lambda audio: torch.zeros(len(audio), 80, 517)),
        accelerator=cast(Any, SimpleNamespace(**alone, **calls, reduce=lambda sums, reduction: sums)),
        precision="bf16",
        grad_clip_norm=1.0,
        seed=1,
    )


def make_batch(mode: FakeTensorMode) -> Batch:
    with torch.utils._python_dispatch._disable_current_modes():
        texts = [torch.ones(text, dtype=torch.long) for text, _ in CLIPS]
        codes = [torch.ones(code, dtype=torch.long) for _, code in CLIPS]
        packed = pack(texts, codes, FULL, layout="packed")
    return Batch(
        packed=packed._with(mode.from_tensor),
        conditioning_audio=torch.zeros(len(CLIPS), 1),
        audio_seconds=30.0,
        names=[],
        positions=[],
        text_lengths=[text for text, _ in CLIPS],
        code_lengths=[code for _, code in CLIPS],
        lost=[],
    )


def test_gradients_of_a_step_take_so_many_kernels_and_wait_for_nothing() -> None:
    """Not compiled."""
    with as_on_a_gpu() as mode:
        trainer, batch = make_trainer(), make_batch(mode)
        with Launches() as launches:
            trainer.gather([batch])
    assert launches.waits == []
    assert launches.kernels["_flash_attention_forward"] == launches.kernels["_flash_attention_backward"] == FULL.layers
    assert launches.kernels.total() <= 2_400, launches.kernels


def test_an_update_starts_few_kernels_for_all_parameters_together() -> None:
    """Each is started again for every hundred tensors or so: some thirty times in all."""
    with as_on_a_gpu() as mode:
        trainer, batch = make_trainer(), make_batch(mode)
        trainer.gather([batch])
        trainer.optimizer.step()
        with Launches() as launches:
            trainer.optimizer.step()
    assert launches.waits == []
    assert launches.kernels.total() <= 6, launches.kernels


@pytest.mark.slow
@pytest.mark.skipif(compiler_problem(torch.device("cpu")) is not None, reason="this machine has no compiler")
def test_a_compiled_step_takes_fewer_kernels_than_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor fuses for a CPU what it fuses for a GPU: the kernels of a block, times the blocks, beside the rest."""
    from torch._inductor.utils import run_fw_bw_and_get_code

    monkeypatch.setattr(gpt, "_dropped", on_a_gpu_dropped)
    model = XttsGpt(replace(FULL, layers=1), ForwardOptions(sdpa=True)).train()
    compiled = torch.compile(model.gpt.h[0], fullgraph=True)
    attend = partial(F.scaled_dot_product_attention, is_causal=True)

    def block() -> Tensor:
        x = torch.randn(2, 64, FULL.width, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            out: Tensor = compiled(x, attend, 0.1)
            return out

    _, codes = run_fw_bw_and_get_code(block)
    calls = re.compile(r"(?:fused_\w+|extern_kernels\.\w+|torch\.ops\.\S+?)\(")
    of_blocks = FULL.layers * sum(len(calls.findall(code[code.index("def call") :])) for code in codes)
    monkeypatch.undo()

    with as_on_a_gpu() as mode:
        trainer, batch = make_trainer(), make_batch(mode)
        monkeypatch.setattr(trainer.gpt.gpt, "h", torch.nn.ModuleList())
        with Launches() as others:
            trainer.gather([batch])
    assert of_blocks > 15 * FULL.layers, "the blocks were compiled"
    assert of_blocks + others.kernels.total() <= MOST_KERNELS, (of_blocks, others.kernels)
