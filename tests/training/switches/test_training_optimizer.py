"""Switches of real runs on the tiny base: what they say is what happened, and what they make is the same model."""

import shutil
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

import pytest
import torch

from tests.configs import tiny_run
from tests.run_logs import events_of
from tests.sounds import make_project
from utils.bases.base import Base
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.config import TrainConfig
from utils.errors import UserError
from utils.model.gpt import ForwardOptions
from utils.model.packing import pack
from utils.model.weights import read_weights
from utils.performance_utils import is_out_of_memory
from utils.project.paths import Project
from utils.training.plan import settle, sources_of
from utils.training.switches.compile import compile_blocks
from utils.training.switches.record import StepRecord, record_step
from utils.training.train import TrainResult, fine_tune
from utils.training_optimizations import TrainingOptimizer

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")


def run(project: Project, **settings) -> TrainResult:
    values = {"num_epochs": 1, "batch_size": 2, "device": "cpu", "sdpa": True, "dropout": 0.0, **settings}
    return fine_tune(tiny_run(project, **values))


@pytest.fixture(scope="module")
def trained(file_project: Project) -> Callable[..., TrainResult]:
    """A run with these settings, made once for all tests."""
    return cache(partial(run, file_project))


def reported(result: TrainResult) -> dict[str, dict]:
    events = events_of(result.folder)
    return next(event["switches"] for event in events if event["kind"] == "optimizations")


def test_what_is_off_and_was_not_asked_for_reads_off_without_a_reason(trained):
    seen = reported(trained(sdpa=False))
    for name in ("sdpa", "gradient_checkpointing", "mixed_precision", "compile", "lora", "freeze_conditioning"):
        assert (seen[name]["state"], seen[name]["reason"]) == ("off", None), name
    assert "explicit softmax" in seen["sdpa"]["observed"]
    assert "products float32" in seen["mixed_precision"]["observed"]


def test_the_three_switches_read_on_with_what_was_observed(tmp_path):
    # One batch and no more: a CPU without units for bf16 takes seconds for each.
    project = make_project(tmp_path, num_train=2, num_eval=1)
    seen = reported(run(project, gradient_checkpointing="full", mixed_precision="bf16", sample_text=""))
    assert {seen[name]["state"] for name in ("gradient_checkpointing", "sdpa", "mixed_precision")} == {"on"}
    assert "matrix products (CPU)" in seen["sdpa"]["observed"], "what bf16 takes on a CPU"
    assert (
        "4 of 4 block passes recomputed and 6 of the conditioning encoder" in seen["gradient_checkpointing"]["observed"]
    )
    assert "products bfloat16" in seen["mixed_precision"]["observed"]
    assert "num_workers 0" in seen["loader"]["observed"]


def test_the_proof_is_of_one_micro_batch_however_many_make_a_step(trained):
    one = reported(trained(gradient_checkpointing="full"))
    three = reported(trained(grad_accumulation=3, gradient_checkpointing="full"))
    for name in ("sdpa", "mixed_precision", "compile"):
        assert three[name] == one[name]
    share = one["gradient_checkpointing"]["observed"].split(";")[0]
    assert three["gradient_checkpointing"]["observed"].split(";")[0] == share
    assert "8 of 8 block passes" in one["sdpa"]["observed"], "four blocks, each run and recomputed"


def test_checkpointing_keeps_less_the_more_it_recomputes(trained):
    def kept(mode: str) -> float:
        seen = reported(trained(gradient_checkpointing=mode))["gradient_checkpointing"]["observed"]
        return float(seen.split("; ")[1].split(" ")[0])

    assert kept("full") < kept("selective")


def test_what_cannot_be_had_says_why_and_the_run_goes_on(trained):
    assert reported(trained())["loader"]["asked"] == "auto"
    result = trained(eight_bit_optimizer=True, pin_memory=True, prefetch_factor=4, num_workers=0)
    seen = reported(result)
    state = seen["eight_bit_optimizer"]
    assert state["state"] == "off" and "needs a CUDA GPU" in state["reason"]
    state = seen["loader"]
    assert (state["state"], state["asked"]) == ("off", "num_workers 0, prefetch_factor 4, pin_memory True")
    assert "pin_memory: training runs on the CPU" in state["reason"] and "prefetch_factor: no" in state["reason"]
    assert result.num_steps > 0


@pytest.mark.parametrize(
    "settings",
    [
        {"gradient_checkpointing": "full"},
        {"gradient_checkpointing": "selective"},
        {"gradient_checkpointing": "full", "max_mel_length": 260},
        # Rows and packed rows come in other batches: here all clips are in one.
        {"sdpa": False, "batch_size": 6, "num_epochs": 3},
    ],
    ids=str,
)
def test_switches_that_change_no_numbers_give_the_same_model(trained, settings):
    """Float32 and no dropout: only the order of sums may differ."""
    same = {name: settings[name] for name in ("batch_size", "num_epochs") if name in settings}
    plain, other = trained(**same), trained(**settings)
    assert other.epoch_losses == pytest.approx(plain.epoch_losses, rel=1e-4)
    assert other.best_loss == pytest.approx(plain.best_loss, rel=1e-4)


def test_a_frozen_conditioning_encoder_does_not_move(trained):
    result = trained(freeze_conditioning=True)
    assert reported(result)["freeze_conditioning"]["state"] == "on"
    before, after = load_gpt(find_base("tiny")).state_dict(), read_weights(result.checkpoint)
    moved = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert not moved & {"conditioning_encoder", "conditioning_perceiver"} and "gpt" in moved


@pytest.mark.parametrize(
    ("given", "own", "rate", "source"),
    [
        ({}, 5e-6, 5e-6, "base v2"),
        ({"lora_rank": 8}, 5e-6, 5e-5, "LoRA: 10 times that of base v2"),
        ({"lora_rank": 8}, 3e-4, 1e-3, "LoRA: 3.3 times that of base v2"),
        ({"lora_rank": 8}, 3e-3, 3e-3, "base v2"),
        ({"lora_rank": 8, "learning_rate": 1e-6}, 5e-6, 1e-6, "you"),
    ],
    ids=str,
)
def test_lora_has_a_learning_rate_of_its_own(project, monkeypatch, given, own, rate, source):
    """At the rate of all weights it learns far slower than they do."""
    monkeypatch.setattr(Base, "about", {"name": "v2", "training": {"learning_rate": own}})
    base = find_base("tiny")
    config = TrainConfig(project=project.name, output=project.output, **given)
    assert settle(config, project, base).learning_rate == rate
    assert sources_of(config, base)["learning_rate"] == source


@needs_compiler
@pytest.mark.slow
def test_compiled_blocks_keep_their_names_and_compute_the_same(project):
    plain, compiled = run(project, sdpa=True), run(project, compile="default")
    state = reported(compiled)["compile"]
    assert state["state"] == "on" and not state["observed"].startswith("0 ")
    assert compiled.best_loss == pytest.approx(plain.best_loss, rel=0.05)
    assert set(read_weights(compiled.checkpoint)) == set(read_weights(plain.checkpoint))


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "kernel", "tolerance"),
    # The same sums in another order; in bf16, of 8 bits, roundings that compiled code omits.
    [(torch.float32, "flash (CPU)", 1e-5), (torch.bfloat16, "matrix products (CPU)", 2e-2)],
    ids=str,
)
def test_compiled_blocks_have_the_same_gradients_and_show_their_kernels(dtype, kernel, tolerance):
    def trained(*, is_compiled: bool) -> tuple[torch.Tensor, StepRecord]:
        gpt = load_gpt(find_base("tiny"), ForwardOptions(sdpa=True, dropout=0.0)).train()
        if is_compiled:
            compile_blocks(gpt, "default")
        batch = pack([torch.arange(21, 40), torch.arange(21, 30)], [torch.arange(40), torch.arange(25)], gpt.shape)
        mels = torch.randn(2, 80, 20, generator=torch.Generator().manual_seed(1))
        with record_step(gpt) as record:
            with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
                losses = gpt(batch, mels)
            (losses.text + losses.codes).backward()
        return torch.cat([p.grad.flatten() for p in gpt.parameters() if p.grad is not None]), record

    (plain, _), (compiled, record) = trained(is_compiled=False), trained(is_compiled=True)
    assert (compiled - plain).norm() <= tolerance * plain.norm()
    assert record.kernels == {kernel: 4} and (record.passes, record.compiled, record.hidden) == (4, 4, 0)


def test_compiling_that_fails_at_the_first_step_is_off_and_the_run_goes_on(project, monkeypatch):
    from torch._inductor.exc import InvalidCxxCompiler

    # The compiler is there when it is asked for and gone when it is needed.
    monkeypatch.setattr("utils.training.switches.compile.compiler_problem", lambda device: None)

    def fail(*args, **options):
        raise InvalidCxxCompiler

    monkeypatch.setattr("torch._inductor.cpp_builder.get_cpp_compiler", fail)
    monkeypatch.setattr("utils.training.switches.compile.compile_blocks", _break_blocks)
    result = run(project, compile="default")
    state = reported(result)["compile"]
    assert state["state"] == "off" and "compiling failed: InvalidCxxCompiler" in state["reason"]
    assert result.num_steps > 0


def _break_blocks(gpt, mode) -> None:
    for block in gpt.gpt.h:
        block._compiled_call_impl = partial(_fail_after, block, iter(()))


def _fail_after(block, calls: Iterator, *inputs, **options):
    """What a block does whose compiled code is good for this many calls."""
    from torch._inductor.exc import InvalidCxxCompiler

    if next(calls, None) is None:
        raise InvalidCxxCompiler
    return block._call_impl(*inputs, **options)


# Three steps, then an evaluation with as many batches.
@pytest.mark.parametrize(("calls", "step"), [(1, 2), (3, 3)], ids=["second step", "evaluation"])
def test_compiling_that_fails_later_is_off_from_there_and_the_run_goes_on(trained, project, monkeypatch, calls, step):
    def break_later(gpt, mode) -> None:
        for block in [] if mode == "off" else gpt.gpt.h:
            block._compiled_call_impl = partial(_fail_after, block, iter(range(calls)))

    monkeypatch.setattr("utils.training.switches.compile.compiler_problem", lambda device: None)
    monkeypatch.setattr("utils.training.switches.compile.compile_blocks", break_later)
    # What was not compiled at all must not read on for having been asked for.
    plain, result = trained(sdpa=False), run(project, sdpa=False, compile="default")
    events = events_of(result.folder)
    reported = [event for event in events if event["kind"] == "optimizations"]
    assert [event["step"] for event in reported] == [1, step]
    state = reported[-1]["switches"]["compile"]
    assert state["state"] == "off" and "compiling failed: InvalidCxxCompiler" in state["reason"]
    assert events[-1]["kind"] == "finished" and result.num_steps == plain.num_steps
    assert result.epoch_losses == pytest.approx(plain.epoch_losses, rel=1e-5)


def test_a_step_that_is_done_again_holds_nothing_of_the_failed_one():
    """Its activations, which the traceback of the failure refers to, may be most of the memory."""
    from torch._inductor.exc import InvalidCxxCompiler

    optimizations = TrainingOptimizer(device="cpu")
    optimizations.switches.effective = replace(optimizations.switches.effective, compile="default")
    held = []

    def work() -> bool:
        activations = torch.zeros(10)
        held.append(weakref.ref(activations))
        if len(held) == 1:
            raise InvalidCxxCompiler
        return held[0]() is None

    assert optimizations.attempt(load_gpt(find_base("tiny")), work, lambda: None)
    with pytest.raises(InvalidCxxCompiler):  # Not compiled any more: what fails now is no failure of compiling.
        held.clear()
        optimizations.attempt(load_gpt(find_base("tiny")), work, lambda: None)


def test_compiling_that_runs_out_of_gpu_memory_is_a_matter_of_memory():
    """Smaller micro-batches fix it; a compiler that lacks the machine's own memory is a failure of compiling."""
    from torch._inductor.exc import InductorError

    optimizations = TrainingOptimizer(device="cpu")
    optimizations.switches.effective = replace(optimizations.switches.effective, compile="default")
    errors = [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("cc1plus: out of memory allocating")]

    def work() -> bool:
        if errors:
            raise InductorError(errors.pop(0), None)
        return True

    gpt = load_gpt(find_base("tiny"))
    with pytest.raises(InductorError) as caught:
        optimizations.attempt(gpt, work, lambda: None)
    assert is_out_of_memory(caught.value) and "compile" not in optimizations.switches.off
    assert optimizations.attempt(gpt, work, lambda: None)
    assert "cc1plus" in optimizations.switches.off["compile"]


def test_a_thread_tells_of_the_gpu_that_trains_and_leaves_the_first_one_asleep(monkeypatch):
    """In a new thread the current GPU is the first one, whichever the process computes on."""
    reserved = {0: 0, 1: 8_000_000_000}
    for name, answer in {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 2,
        "current_device": lambda: 0,
        "memory_reserved": lambda device: reserved[device],
        "memory_allocated": lambda device: device,
        "max_memory_allocated": lambda device: device,
        "mem_get_info": lambda device: {1: (16, 24)}[device],
    }.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    found = TrainingOptimizer.get_memory_stats()
    assert (found["device"], found["free_bytes"], found["allocated_bytes"]) == ("cuda:1", 16, 1)


def test_memory_events_are_written_while_training(trained):
    memory = events_of(trained().folder, "memory")
    assert memory and memory[0]["rss_bytes"] > 50e6 and memory[0]["step"] == 1


def test_the_names_people_know_make_the_switches():
    optimizer = TrainingOptimizer(True, True, True, device="cpu")
    effective = optimizer.switches.effective
    assert effective.gradient_checkpointing == "full" and effective.sdpa
    assert optimizer.switches.asked.mixed_precision == "auto"
    assert TrainingOptimizer.recommend("debugging").mixed_precision == "fp32"


def test_a_budget_smaller_than_the_longest_clip_is_refused(project):
    before = set(project.runs.glob("*")) if project.runs.exists() else set()
    with pytest.raises(UserError, match="max_mel_length is 10 codes, but the longest clip may have"):
        run(project, max_mel_length=10)
    assert before == (set(project.runs.glob("*")) if project.runs.exists() else set())


def test_a_fixed_length_that_no_clip_reaches_is_reduced(project, caplog):
    config = tiny_run(project, max_audio_length=44_100, max_mel_length=6_000)
    assert settle(config, project, find_base("tiny")).max_mel_length == 44
    assert "max_mel_length 6000 is reduced to 44 codes" in caplog.text and "4 mel frames" in caplog.text
