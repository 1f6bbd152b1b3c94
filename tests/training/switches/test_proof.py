"""Proofs say what ran: they change when the operation does, whatever the settings claim."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.autograd.profiler_util import FunctionEvent

from tests.training.test_run import config_of
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.config import TrainConfig
from utils.model.attention import explicit_attention
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.lora import add_lora
from utils.model.packing import pack
from utils.switches import SWITCHES
from utils.training import train
from utils.training.profiling import TRACE_FILE, profiled_steps
from utils.training.switches.base import Seen, Trace
from utils.training.switches.optimizer import BEHAVIORS, Optimizations, resolve
from utils.training.switches.record import StepRecord, count_kernels, record_step, saved_bytes
from utils.training.train import evaluate


def step(gpt: XttsGpt, *, layout: str = "rows", dtype: torch.dtype | None = None) -> None:
    """Forward and backward of two clips."""
    texts, codes = [torch.arange(21, 40), torch.arange(21, 30)], [torch.arange(40), torch.arange(25)]
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        losses = gpt(pack(texts, codes, gpt.shape, layout=layout), torch.zeros(2, 80, 20))
    (losses.text + losses.codes).backward()


def make_gpt(**options) -> XttsGpt:
    return load_gpt(find_base("tiny"), ForwardOptions(dropout=0.0, **options)).train()


def seen_of(name: str, gpt: XttsGpt, record: StepRecord, **effective) -> Seen:
    """What the record shows of a switch."""
    switches = resolve(TrainConfig(project="a", device="cpu"), torch.device("cpu"))
    switches.effective = replace(switches.effective, **effective)
    optimizer = torch.optim.SGD(gpt.parameters())
    trace = Trace(switches=switches, record=record, model=gpt, optimizer=optimizer, scaler=False, loader=None)
    switch = next(switch for switch in SWITCHES if switch.name == name)
    return BEHAVIORS[switch.name].observe(trace)


@pytest.mark.parametrize(
    ("sdpa", "layout", "kernel", "blocks_calls"),
    [
        (True, "rows", "flash (CPU)", 4),
        (True, "packed", "flash (CPU)", 12),
        (False, "rows", "explicit softmax", 4),
    ],
)
def test_the_kernel_is_read_from_the_operation(sdpa, layout, kernel, blocks_calls):
    gpt = make_gpt(sdpa=sdpa)
    with record_step(gpt) as record:
        step(gpt, layout=layout)
    # Four blocks, a call each or three (two clips and the padding); six blocks of the encoder, two of the perceiver.
    assert record.kernels == {kernel: blocks_calls} and record.other_kernels == {kernel: 8}
    assert (record.passes, record.hidden) == (4, 0)
    assert record.product_dtype == record.stream_dtype == torch.float32


def test_a_kernel_that_is_switched_off_is_not_claimed():
    gpt = make_gpt(sdpa=True)
    math_only = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with math_only, record_step(gpt) as record:
        step(gpt)
    assert "flash (CPU)" not in record.kernels and record.kernels["math"] > 0


@pytest.mark.parametrize(("layout", "calls"), [("rows", 4), ("packed", 4)])
def test_kernels_of_one_name_are_added_up(layout, calls):
    """In bf16 a CPU takes two operations that people call the same."""
    gpt = make_gpt(sdpa=True)
    with record_step(gpt) as record:
        step(gpt, layout=layout, dtype=torch.bfloat16)
    assert record.kernels == {"matrix products (CPU)": calls} and record.other_kernels["matrix products (CPU)"] == 8
    found = StepRecord()
    events = [event("MatrixAttention"), event("PackedMatrixAttention"), event("MatrixAttention")]
    count_kernels(events, found)
    assert found.other_kernels == {"matrix products (CPU)": 3}


def event(name: str) -> FunctionEvent:
    """An operation that is a part of no other."""
    return FunctionEvent(id=0, name=name, thread=0, start_us=0, end_us=1)


def test_operations_that_are_tried_before_compiled_code_runs_do_not_count():
    block, region, conditioning = (
        event(n) for n in ("transformer block", "Torch-Compiled Region: 1/0", "Torch-Compiled Region: 0/0")
    )
    eager, template, traced = event("transformer block"), event("ApplyTemplate"), event("PythonDispatchMode")
    tried, ran, applied, of_eager = (
        event(n) for n in ("aten::_softmax", "aten::baddbmm", "aten::_softmax", "aten::_softmax")
    )
    tried_elsewhere, ran_elsewhere, perceiver = (
        event(n) for n in ("aten::_softmax", "aten::baddbmm", "MatrixAttention")
    )
    parents = [(tried, block), (region, block), (ran, region), (applied, template), (of_eager, eager)]
    for inner, outer in [*parents, (traced, tried_elsewhere), (ran_elsewhere, conditioning)]:
        inner.cpu_parent = outer
    found = StepRecord()
    blocks = [block, tried, region, ran, template, applied, eager, of_eager]
    count_kernels([tried_elsewhere, traced, conditioning, ran_elsewhere, perceiver, *blocks], found)
    assert found.kernels == {"matrix products (CPU)": 1, "explicit softmax": 1}
    assert found.other_kernels == {"matrix products (CPU)": 2}
    assert (found.passes, found.compiled, found.hidden) == (2, 1, 0)


def test_fused_attention_elsewhere_proves_nothing_of_the_blocks():
    """The perceiver's one fused call used to be enough for "on"."""
    gpt = make_gpt(sdpa=True)
    gpt._attend = lambda batch, dropout: partial(explicit_attention, causal=True)
    with record_step(gpt) as record:
        step(gpt)
    assert record.kernels == {"explicit softmax": 4} and record.other_kernels == {"flash (CPU)": 8}
    is_on, observed, _ = seen_of("sdpa", gpt, record)
    assert not is_on and "explicit softmax x4 in 4 of 4 block passes" in observed


@pytest.mark.parametrize("number", [0, 3])
def test_each_block_must_be_seen(number):
    """One block that computes otherwise, or unseen, is reported."""
    gpt = make_gpt(sdpa=True)
    gpt.gpt.h[number].forward = lambda x, attend, dropout: x
    with record_step(gpt) as record:
        step(gpt)
    assert (record.passes, record.hidden) == (4, 1)
    is_on, observed, _ = seen_of("sdpa", gpt, record)
    assert not is_on and "in 3 of 4 block passes" in observed


def test_the_loss_of_reading_along_is_no_explicit_attention():
    gpt = make_gpt(sdpa=True, reading_weight=0.1)
    texts, codes = [torch.arange(21, 40)], [torch.arange(40)]
    batch = pack(texts, codes, gpt.shape, reading=[torch.linspace(0, 18, 40)])
    with record_step(gpt) as record:
        losses = gpt(batch, torch.zeros(1, 80, 20))
        (losses.codes + losses.reading).backward()
    assert losses.reading > 0 and record.kernels == {"flash (CPU)": 4} and not record.hidden


@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
def test_recomputed_blocks_are_counted_by_their_second_run(checkpointing):
    gpt = make_gpt(sdpa=True, checkpointing=checkpointing)
    with record_step(gpt) as record:
        step(gpt)
        step(gpt)
    assert record.forward_runs == 8
    assert record.recomputed == (0 if checkpointing == "none" else 8)


@pytest.mark.parametrize(("mode", "is_on"), [("reduce-overhead", False), ("max-autotune", True)])
def test_cuda_graphs_that_inductor_went_without_are_told(mode, is_on):
    """It only logs that it does, and compiles all the same."""
    from torch._dynamo.utils import counters  # takes seconds to load

    counters["inductor"]["cudagraph_skips"] += 5
    with record_step(gpt := make_gpt(sdpa=True)) as record:
        step(gpt)
        counters["inductor"]["cudagraph_skips"] += 2
    record.compiled = record.passes
    state, observed, _ = seen_of("compile", gpt, record, compile=mode)
    assert state is is_on and observed.endswith("; CUDA graphs skipped 2 times")


def test_precision_is_read_from_the_products():
    gpt = make_gpt(sdpa=True)
    with record_step(gpt) as record:
        step(gpt, dtype=torch.bfloat16)
    assert record.product_dtype == torch.bfloat16


def test_saved_bytes_are_those_of_the_graph():
    layer = torch.nn.Linear(100, 200, bias=False)
    x = torch.zeros(50, 100)
    weights = list(layer.parameters())
    assert saved_bytes(lambda: layer(x), but=weights) == x.numel() * 4
    assert saved_bytes(lambda: layer(x).relu(), but=weights) == (x.numel() + 50 * 200) * 4


def test_weights_that_do_not_learn_are_no_activations():
    """LoRA's frozen weights are needed in the backward pass, but no checkpointing saves them."""

    def block_bytes(gpt: XttsGpt) -> int:
        with record_step(gpt) as record:
            step(gpt)
        return record.block_bytes

    plain = block_bytes(make_gpt(sdpa=True, checkpointing="full"))
    lora = block_bytes(add_lora(make_gpt(sdpa=True, checkpointing="full"), 4))
    # Its own activations: for each of 4 projections what lies between its two matrices, and copies of its inputs.
    assert plain <= lora <= 1.3 * plain


def test_two_profilers_do_not_meet():
    """A step that `--profile` traces proves nothing; the next one does."""
    gpt, optimizations = make_gpt(sdpa=True), Optimizations(TrainConfig(project="a"), torch.device("cpu"))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]), optimizations.micro_batch(gpt):
        step(gpt)
    assert not optimizations.has_news
    with optimizations.micro_batch(gpt):
        step(gpt)
    assert optimizations.has_news and optimizations.record is not None and optimizations.record.passes == 4


def test_a_profile_is_of_steps_only(project, monkeypatch, caplog):
    def not_profiled(*args):
        assert not torch.autograd._profiler_enabled()
        return evaluate(*args)

    monkeypatch.setattr(train, "evaluate", not_profiled)
    caplog.set_level("INFO", logger="utils")
    for batch_size, asked, done in ((2, 3, 2), (2, 1, 1), (6, 3, 0)):
        caplog.clear()
        result = train.fine_tune(config_of(project, batch_size=batch_size, num_epochs=2, profile=asked))
        assert result.num_steps == 2 * 6 / batch_size
        assert (f"{done} of {asked} steps were profiled" in caplog.text) == (done < asked)
        assert ("costliest operations" in caplog.text) == (result.folder / TRACE_FILE).is_file() == (done > 0)


def test_an_error_ends_the_profile_too(tmp_path):
    with pytest.raises(ValueError), profiled_steps(tmp_path, 2) as step_done:
        step_done()
        raise ValueError
    assert not torch.autograd._profiler_enabled()
