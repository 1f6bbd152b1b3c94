"""The batch size that is found really trains, throughput is counted as stated, and settings change what they say."""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import ForkServerContext
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from utils.errors import UserError
from utils.hardware.processor import usable_cpus
from utils.performance_utils import (
    BatchSizeOptimizer,
    PerformanceTracker,
    is_out_of_memory,
    log_performance_info,
    log_system_info,
    optimize_torch_settings,
    peak_flops,
    timed,
    timing,
    useful_flops,
)
from utils.performance_utils import settings as settings_module
from utils.performance_utils import tracker as phases_module
from utils.performance_utils.settings import kept_torch_settings
from utils.performance_utils.tracker import PhaseClock

MB = 1_000_000


class Model(nn.Module):
    """A small model with every kind of state that a trial could disturb."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.register_buffer("steps", torch.zeros(()))

    steps: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        return self.inner(self.frozen(x))


def rows(batch_size: int) -> Tensor:
    return torch.ones(batch_size, 8)


def refuses_above(largest: int, error: BaseException) -> Any:
    """A source of batches that runs out of memory above a size."""

    def sample(batch_size: int) -> Tensor:
        if batch_size > largest:
            raise error
        return rows(batch_size)

    return sample


@pytest.mark.parametrize(("largest", "expected"), [(1, 1), (2, 2), (3, 3), (5, 5), (8, 8), (13, 13), (64, 32)])
def test_the_largest_size_that_does_not_run_out_of_memory_is_found(largest, expected):
    sample = refuses_above(largest, torch.OutOfMemoryError("CUDA out of memory"))
    search = BatchSizeOptimizer(Model(), sample, 1, 32)
    assert search.find_optimal_batch_size() == expected
    assert expected in search.peaks and all(size <= 2 * largest for size in search.peaks)


def test_a_large_search_stops_within_an_eighth():
    found = BatchSizeOptimizer(Model(), refuses_above(100, MemoryError()), 1, 256).find_optimal_batch_size()
    assert 88 <= found <= 100


def test_the_model_is_left_as_it_was():
    model = Model().eval()
    model(rows(4)).sum().backward()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = [parameter.grad for parameter in model.parameters()]
    random_state = torch.get_rng_state()
    BatchSizeOptimizer(model, refuses_above(6, MemoryError()), 2, 16).find_optimal_batch_size()
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is before for parameter, before in zip(model.parameters(), gradients, strict=True))
    assert torch.equal(torch.get_rng_state(), random_state)
    assert not any(module.training for module in model.modules())


def test_nothing_fits_is_told_with_what_helps():
    with pytest.raises(UserError) as caught:
        BatchSizeOptimizer(Model(), refuses_above(3, MemoryError()), 4, 8).find_optimal_batch_size()
    assert "a batch of 4 does not fit" in caught.value.what and "checkpointing" in caught.value.fix


@pytest.mark.parametrize(("smallest", "largest"), [(0, 4), (5, 4)])
def test_sizes_that_cannot_be_searched_are_refused(smallest, largest):
    with pytest.raises(UserError):
        BatchSizeOptimizer(Model(), rows, smallest, largest)


def test_other_faults_are_not_taken_for_a_lack_of_memory():
    model = Model()
    gradient = torch.ones_like(model.inner[0].weight)
    model.inner[0].weight.grad = gradient
    with pytest.raises(ValueError, match="a fault"):
        BatchSizeOptimizer(model, refuses_above(2, ValueError("a fault")), 1, 8).find_optimal_batch_size()
    assert model.inner[0].weight.grad is gradient


def test_what_torch_raises_when_the_cpu_has_no_memory_left_is_recognised():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


class Wide(nn.Module):
    """Keeps 16 MB of activations a clip for the backward pass, and counts its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1_000_000))
        self.largest = 0

    def forward(self, x: Tensor) -> Tensor:
        self.largest = max(self.largest, len(x))
        kept = x
        for _ in range(4):
            kept = (kept * self.scale).exp()
        return kept.sum()


@pytest.fixture
def fresh_process(processes: ForkServerContext) -> Iterator[ProcessPoolExecutor]:
    """Where no other test has left memory that the process holds but does not use."""
    with ProcessPoolExecutor(max_workers=1, mp_context=processes) as pool:
        yield pool


def search_within_500_mb() -> tuple[int, list[tuple[int, int]], int]:
    model = Wide()
    search = BatchSizeOptimizer(model, lambda size: torch.zeros(size, 1_000_000), 1, 64, memory_limit=500 * MB)
    found = search.find_optimal_batch_size()
    return found, [(size, peak) for size, peak in search.peaks.items() if size <= found], model.largest


@pytest.mark.slow
def test_on_the_cpu_growth_of_memory_is_held_against_the_limit(fresh_process):
    found, fitting, largest = fresh_process.submit(search_within_500_mb).result(timeout=240)
    # 4 exponentials and 4 products of 4 MB a clip, up to twice that while they are made, 16 MB of gradients and
    # moments, and some 100 MB that libraries take for themselves at the first step.
    assert 4 <= found <= 16
    # Half of it: the system may take back pages of a process while it runs.
    assert all(peak_bytes > 16 * MB * batch_size for batch_size, peak_bytes in fitting)
    assert largest < 64


def peak_of_one_clip() -> int:
    # 64 MB, so 64 of gradients and 128 of moments
    search = BatchSizeOptimizer(nn.Linear(4_000, 4_000), lambda size: torch.ones(size, 4_000), 1, 1)
    found = search.find_optimal_batch_size()
    return search.peaks[found]


@pytest.mark.slow
def test_the_moments_of_the_optimizer_count(fresh_process):
    assert fresh_process.submit(peak_of_one_clip).result(timeout=240) > 170 * MB


class Losses(NamedTuple):
    text: Tensor
    codes: Tensor


class Packed(nn.Module):
    """Takes several inputs and returns several losses, as the GPT does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, batch: Tensor, mels: Tensor) -> Losses:
        return Losses(text=self.weight * batch.sum(), codes=self.weight * mels.sum())


def test_models_of_several_inputs_and_losses():
    tuples = BatchSizeOptimizer(Packed(), lambda size: (torch.ones(size), torch.ones(size)), 1, 2)
    names = BatchSizeOptimizer(Packed(), lambda size: {"batch": torch.ones(size), "mels": torch.ones(size)}, 1, 2)
    own = BatchSizeOptimizer(Packed(), torch.ones, 1, 2, loss_fn=lambda model, batch: model(batch, batch).codes)
    assert [search.find_optimal_batch_size() for search in (tuples, names, own)] == [2, 2, 2]


@pytest.mark.gpu
def test_on_a_gpu_the_search_recovers_from_a_real_lack_of_memory():
    device = torch.device("cuda")
    free, _ = torch.cuda.mem_get_info(device)
    row = free // 40 // 4  # a 40th of the GPU for each tensor of a clip, of which a step holds about five
    model = nn.Linear(1, 1).to(device)
    search = BatchSizeOptimizer(
        model,
        lambda size: torch.ones(size, row, device=device),
        1,
        64,
        loss_fn=lambda model, batch: (model.weight * batch).square().mean(),
    )
    assert 2 <= search.find_optimal_batch_size() <= 20
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated(device) < 100 * MB


def test_throughput_is_counted_over_steps_and_waiting():
    tracker = PerformanceTracker(0, peak_flops=1e12)
    for loss in (3.0, 1.0):
        tracker.update(0.9, 4, loss, audio_seconds=20.0, tokens=1_000, data_seconds=0.1, flops=4e11)
    summary = tracker.log_summary()
    rates = {"clips_per_second": 4, "audio_per_second": 20, "tokens_per_second": 1_000, "data_share": 0.1, "mfu": 0.4}
    assert summary == pytest.approx({"steps": 2, "step_s": 0.9, "loss": 2.0, **rates})


def test_the_useful_arithmetic_is_that_of_the_stated_formula():
    text, codes = 60, 110
    positions = 32 + text + 1 + codes + 4
    expected = 6 * 377.49e6 * positions + 6 * 30 * 1024 * positions**2
    expected += 6 * 1024 * (6681 * (text + 1) + 1026 * (codes + 4)) + 108.7e9
    assert useful_flops([text], [codes], layers=30, width=1024) == pytest.approx(expected, rel=1e-3)
    assert useful_flops([text] * 2, [codes] * 2, layers=30, width=1024) == pytest.approx(2 * expected, rel=1e-3)
    fewer_rows = useful_flops([text], [codes], layers=30, width=1024, text_rows=681, audio_rows=26)
    all_rows = useful_flops([text], [codes], layers=30, width=1024)
    assert all_rows - fewer_rows == pytest.approx(6 * 1024 * (6000 * (text + 1) + 1000 * (codes + 4)))


def test_the_peak_of_the_processor_is_measured_and_nothing_else_disturbed():
    random_state = torch.get_rng_state()
    peak = peak_flops("cpu", torch.float32)
    assert peak is not None and 1e8 < peak < 1e15
    assert torch.equal(torch.get_rng_state(), random_state)


def test_a_device_without_room_for_the_matrices_has_no_peak(monkeypatch):
    def fails_above(side: int) -> Callable[..., float]:
        def product(*_: object, side: int, largest: int = side, **__: object) -> float:
            if side > largest:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return 0.001

        return product

    monkeypatch.setattr("utils.performance_utils.arithmetic.product_s", fails_above(1024))
    assert peak_flops("cpu") == pytest.approx(2 * 1024**3 / 0.001)
    monkeypatch.setattr("utils.performance_utils.arithmetic.product_s", fails_above(0))
    assert peak_flops("cpu") is None


def test_what_was_not_reported_at_every_step_is_not_claimed():
    tracker = PerformanceTracker(0)
    tracker.update(1.0, 2, 1.0, audio_seconds=10.0, flops=1e9)
    tracker.update(1.0, 2, 1.0, flops=1e9)
    # Neither is there MFU: no peak is known.
    assert tracker.summary() == {"steps": 2, "step_s": 1.0, "loss": 1.0, "clips_per_second": 2.0}
    assert PerformanceTracker().summary() == {}


def test_every_interval_is_logged_by_itself(caplog):
    tracker = PerformanceTracker(2)
    with caplog.at_level(logging.INFO):
        for seconds in (1.0, 1.0, 3.0, 3.0):
            tracker.update(seconds, 1, 1.0, audio_seconds=6.0)
    assert [record.message.split(",")[1] for record in caplog.records] == [" 1.000 s a step", " 3.000 s a step"]
    assert "6.0 s of audio a second" in caplog.messages[0]
    assert tracker.summary()["steps"] == 4


def test_threads_are_held_to_what_the_process_may_use():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(usable_cpus() + 3)
        assert optimize_torch_settings("cpu") == {"torch.num_threads": usable_cpus()}
        assert torch.get_num_threads() == usable_cpus()
        torch.set_num_threads(1)
        assert optimize_torch_settings("cpu") == {}  # fewer are the user's choice
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_machine_and_settings_are_logged(caplog):
    with caplog.at_level(logging.INFO):
        system, performance = log_system_info(), log_performance_info()
    assert system["torch"].startswith(torch.__version__)
    assert {"system", "python", "cpu", "memory"} <= set(system)
    assert performance["threads"].startswith(f"{torch.get_num_threads()} of")
    assert len(caplog.messages) == len(system) + len(performance)
    assert any(name.startswith("gpu") for name in system)  # a GPU, or why there is none


def test_a_gpu_that_nothing_uses_is_not_woken_up_by_the_log(monkeypatch):
    def woken(*_) -> int:
        raise RuntimeError("CUDA-capable device(s) is/are busy or unavailable")

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: False)
    monkeypatch.setattr("torch.cuda.current_device", woken)
    assert log_performance_info("cpu")["memory"].startswith("memory on cpu")


def test_a_block_and_a_function_are_timed(caplog):
    @timed("resting")
    def rest(seconds: float) -> str:
        time.sleep(seconds)
        return "rested"

    @timed
    def count() -> int:
        return 3

    with caplog.at_level(logging.INFO):
        with timing("work"):
            assert rest(0.05) == "rested" and count() == 3
        with pytest.raises(KeyError), timing("failing"):
            raise KeyError
    assert rest.__name__ == "rest"
    seconds = {name: float(took.removesuffix(" s")) for name, took in (line.split(": ") for line in caplog.messages)}
    assert list(seconds) == ["resting", count.__qualname__, "work", "failing"]
    assert 0.05 <= seconds["resting"] <= seconds["work"] < 5


def test_a_batch_of_names_that_the_model_does_not_know_is_explained():
    search = BatchSizeOptimizer(
        model=nn.Linear(4, 1),
        sample_batch_fn=lambda size: {"input_ids": torch.ones(size, 4), "labels": torch.ones(size)},
        min_batch_size=1,
        max_batch_size=2,
    )
    with pytest.raises(UserError, match="does not take this batch"):
        search.find_optimal_batch_size()


def test_phases_follow_one_another_and_what_is_not_counted_lies_between(monkeypatch):
    now = iter((0.0, 1.0, 1.5, 4.5, 5.0, 9.0))
    monkeypatch.setattr(phases_module.time, "perf_counter", lambda: next(now))
    clock = PhaseClock(torch.device("cpu"))
    for phase in ("transfer", "forward", "", "forward", "optimizer"):
        clock.begin(phase)
    assert clock.take() == {"transfer": 1.0, "forward": 0.5 + 0.5}
    assert clock.take() == {}
    clock.begin("")
    assert clock.take() == {"optimizer": 4.0}


@pytest.mark.gpu
def test_phases_of_a_gpu_are_as_long_as_it_computes():
    clock, a = PhaseClock(torch.device("cuda")), torch.randn(4096, 4096, device="cuda")
    clock.begin("forward")
    for _ in range(50):
        a = (a @ a).clamp(-1, 1)
    clock.begin("")
    launched = clock.take()
    torch.cuda.synchronize()
    assert launched == {} and clock.take()["forward"] > 0.001


def test_as_many_threads_as_asked_for_and_never_more_than_may_be_used(caplog):
    with kept_torch_settings():
        optimize_torch_settings("cpu", threads=1)
        assert torch.get_num_threads() == 1
        optimize_torch_settings("cpu", threads=usable_cpus() + 7)
        assert torch.get_num_threads() == usable_cpus() and "asked for" in caplog.text


def test_training_on_a_gpu_takes_no_attention_of_cudnn_and_gives_it_back(monkeypatch):
    """It is the first choice on Hopper, and builds a plan for each new shape."""
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(settings_module, "check_allocator", lambda device: "")
    assert torch.backends.cuda.cudnn_sdp_enabled()
    with kept_torch_settings():
        assert optimize_torch_settings("cuda")["torch.backends.cuda.cudnn_sdp"] is False
        assert not torch.backends.cuda.cudnn_sdp_enabled() and torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.cudnn_sdp_enabled()
