"""A path that only a GPU has is tried once; what fails is off with the reason."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from utils.config import TrainConfig
from utils.inference.products import resolve_precision
from utils.performance_utils import device
from utils.performance_utils.device import half_precision, pinning_fault, trial
from utils.training.data.loaders import Loaders
from utils.training.switches import optimizer
from utils.training.switches.attention import choose_kernel
from utils.training.switches.base import GRAPHS, Switches
from utils.training.switches.compile import COMPILE
from utils.training.switches.optimizer import try_gpu_paths

CUDA = torch.device("cuda")
SETTINGS = {"mixed_precision": "bf16", "compile": "reduce-overhead"}
PATHS = {"half_precision": device, "_packed_attention": optimizer, "_captured_graph": optimizer}


def switches() -> Switches:
    config = TrainConfig(project="a", **SETTINGS)
    return Switches(asked=config, effective=config, layout="packed")


@pytest.fixture(autouse=True)
def emulated_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every path works, until a test makes one fail."""
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    for name, module in PATHS.items():
        monkeypatch.setattr(module, name, lambda *_: None)


def failing(*_: object) -> None:
    raise RuntimeError("no kernel image is available\nCompile with TORCH_USE_CUDA_DSA")


@pytest.mark.parametrize(
    ("path", "switch", "changes", "layout"),
    [
        ("", "", {}, "packed"),
        ("half_precision", "mixed_precision", {"mixed_precision": "fp32"}, "rows"),
        ("_packed_attention", "", {}, "rows"),
        ("_captured_graph", GRAPHS, {"compile": "default"}, "packed"),
    ],
)
def test_what_fails_its_trial_is_off_with_the_reason(monkeypatch, path, switch, changes, layout):
    if path:
        monkeypatch.setattr(PATHS[path], path, failing)
    found = switches()
    try_gpu_paths(found, CUDA)
    assert found.effective == replace(found.asked, **changes) and found.layout == layout
    assert list(found.off) == ([switch] if switch else [])
    assert all("no kernel image is available" in why for why in found.off.values())


def test_the_report_of_a_run_names_what_failed_its_trial(monkeypatch):
    for name in ("_packed_attention", "_captured_graph"):
        monkeypatch.setattr(optimizer, name, failing)
    found = switches()
    try_gpu_paths(found, CUDA)
    choose_kernel(found, SimpleNamespace(options=SimpleNamespace()), CUDA)
    assert "variable-length attention failed its trial: no kernel image" in found.off["attention"]
    record = SimpleNamespace(compiled=4, passes=4, num_graphs=4, num_skips=0)
    seen = COMPILE.observe(SimpleNamespace(record=record, switches=found))
    assert not seen.is_on and "without CUDA graphs, which failed their trial: no kernel image" in seen.observed


def test_speech_is_in_float32_where_half_precision_fails(monkeypatch, caplog):
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: (8, 6))
    assert resolve_precision("auto", CUDA) == "bf16"
    monkeypatch.setattr(device, "half_precision", failing)
    assert resolve_precision("auto", CUDA) == "fp32" and "bf16 failed its trial: no kernel image" in caplog.text


def test_a_fault_that_a_kernel_reports_late_counts(monkeypatch):
    monkeypatch.setattr("torch.cuda.synchronize", failing)
    assert trial(lambda: None) == "no kernel image is available"


def test_a_trial_draws_nothing_from_the_generators_of_the_run():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    assert trial(lambda: torch.rand(5)) == "" and torch.equal(torch.rand(3), expected)


def test_a_machine_without_pinned_memory_loads_without_it(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "pin_memory", failing)
    assert pinning_fault() == "no kernel image is available"
    found, loaders = switches(), object.__new__(Loaders)
    loaders._config, loaders._device, loaders._switches = replace(found.asked, pin_memory=True), CUDA, found
    loaders._data = SimpleNamespace(train=[1], audio_bytes=1)
    assert not loaders._settings()[0]["pin_memory"] and "no kernel image" in found.off["loader"]


def test_the_trial_of_half_precision_computes():
    """On a CPU, where the same calls run."""
    half_precision(torch.device("cpu"), torch.bfloat16)
