"""The flash-attn packages: what they are called with, which is chosen for a GPU, and why none is. No GPU runs here."""

import importlib
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.library import Library
from torch.nn.attention import _registry, current_flash_attention_impl

from utils.config import TrainConfig
from utils.errors import UserError
from utils.model import flash_attn, matrix_attention
from utils.model.attention import explicit_attention, varlen_attention
from utils.model.flash_attn import NOT_INSTALLED, activate, flash_attention, use_flash_attn
from utils.switches import SWITCHES
from utils.training.switches.attention import choose_kernel
from utils.training.switches.optimizer import report, resolve
from utils.training.switches.record import StepRecord, kernel_of

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
LENGTHS = (5, 1, 9)
CU_SEQLENS = torch.tensor([0, 5, 6, 15], dtype=torch.int32)


def rows(requires_grad: bool = True) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(15, 2, 8, requires_grad=requires_grad) for _ in range(3)]


def reference(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention within each clip, [T, H, C]."""
    clips = zip(*(x.transpose(0, 1).unsqueeze(0).split(LENGTHS, dim=2) for x in (q, k, v)), strict=True)
    return torch.cat([explicit_attention(*clip, causal=True) for clip in clips], dim=2).squeeze(0).transpose(0, 1)


PACKAGE = """
calls = []
def flash_attn_varlen_func(q, k, v, **settings):
    calls.append(settings)
    import tests.model.test_flash_attn as test
    return test.reference(q, k, v) if len(q) == 15 else q + k + v
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a module as if the package were installed."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(source: str) -> None:
        (tmp_path / "flash_attn.py").write_text(source, encoding="utf-8")
        importlib.invalidate_caches()

    yield make
    sys.modules.pop("flash_attn", None)


@pytest.fixture(autouse=True)
def capability(monkeypatch: pytest.MonkeyPatch) -> Any:
    def be(major: int, minor: int = 0) -> None:
        monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (major, minor))

    be(8, 6)
    yield be
    activate("torch")


def test_the_package_is_called_with_bounds_causally_and_without_dropout(install):
    install(PACKAGE)
    q, k, v = rows()
    packed = [x.transpose(0, 1).unsqueeze(0) for x in (q, k, v)]
    seen = varlen_attention(*packed, cu_seqlens=CU_SEQLENS, max_seqlen=128, kernel="flash-attn 2")
    torch.testing.assert_close(seen.squeeze(0).transpose(0, 1), reference(q, k, v))
    (settings,) = importlib.import_module("flash_attn").calls
    assert settings.pop("cu_seqlens_q") is CU_SEQLENS and settings.pop("cu_seqlens_k") is CU_SEQLENS
    assert settings == {"max_seqlen_q": 128, "max_seqlen_k": 128, "dropout_p": 0.0, "causal": True}


def test_a_package_that_passes_its_trial_is_used(install):
    install(PACKAGE)
    assert use_flash_attn(CPU, torch.bfloat16, 64) == ("flash-attn 2", "")


UNUSABLE = [
    ("raise ImportError('flash_attn_2_cuda.so: undefined symbol: _ZN3c104')", (8, 6), "undefined symbol"),
    (PACKAGE, (7, 5), "no kernels for compute capability 7.5"),
    (
        "def flash_attn_varlen_func(*a, **k): raise RuntimeError('no kernel image is available')",
        (12, 0),
        "kernel image",
    ),
    ("def flash_attn_varlen_func(*a, **k): raise RuntimeError('head dimension 512')", (8, 0), "head dimension 512"),
    ("", (8, 0), "no attribute"),
]


@pytest.mark.parametrize(("source", "gpu", "why"), UNUSABLE, ids=[case[2] for case in UNUSABLE])
def test_one_that_cannot_be_used_leaves_pytorchs_with_the_reason(install, capability, source, gpu, why):
    install(source)
    capability(*gpu)
    kernel, reason = use_flash_attn(CPU, torch.bfloat16, 64)
    assert kernel == "torch" and why in reason and current_flash_attention_impl() is None


def test_without_a_package_auto_goes_on_and_an_explicit_wish_is_refused_with_the_command():
    assert use_flash_attn(CPU, torch.bfloat16, 64) == ("torch", NOT_INSTALLED)
    with pytest.raises(UserError, match=r"pip install --no-build-isolation -r requirements-flash\.txt"):
        TrainConfig(project="a", attention="flash-attn").validate(where="test")
    assert TrainConfig(project="a").validate(where="test").attention == "auto"


class FakeKernels:
    """FlashAttention-3 or 4 in the place of PyTorch's operations, as its registry puts it there, for a CPU."""

    def __init__(self, calls: list[tuple[Any, ...]]) -> None:
        self._library = Library("aten", "IMPL")
        self._calls = calls
        self._library.impl("_flash_attention_forward", self._forward, "CPU")
        self._library.impl("_flash_attention_backward", self._backward, "CPU")

    def remove(self) -> None:
        self._library._destroy()

    def _forward(self, q, k, v, *settings: Any, **more: Any) -> tuple[Tensor, ...]:
        self._calls.append((*settings, more))
        none = torch.zeros(2, dtype=torch.uint64)
        seen = reference(q, k, v) if len(q) == 15 else q + k + v
        return seen, torch.zeros(q.size(1), len(q)), none, none[:1], torch.empty(0)

    def _backward(self, grad, q, k, v, *settings: Any, **more: Any) -> tuple[Tensor, ...]:
        # What FlashAttention-4's refuses (torch 2.11, torch.nn.attention._fa4).
        assert more.get("window_size_left") is None and more.get("window_size_right") is None
        if len(q) != 15:
            return grad, grad, grad
        # Below autograd nothing is recorded: the gradients are those of our own products, clip by clip.
        found = []
        for part in zip(*(x.transpose(0, 1).split(LENGTHS, dim=1) for x in (q, k, v, grad)), strict=True):
            scaled = part[0] * q.size(-1) ** -0.5
            _, weights = matrix_attention._forward(scaled, part[1], part[2], causal=True)
            found.append(matrix_attention._backward(part[3], scaled, part[1], part[2], weights))
        return tuple(torch.cat(parts, dim=1).transpose(0, 1) for parts in zip(*found, strict=True))


@pytest.mark.parametrize(("name", "major", "kernel"), [("FA3", 9, "flash-attn 3"), ("FA4", 10, "flash-attn 4")])
def test_newer_kernels_take_the_place_of_pytorchs_and_the_proof_names_them(
    monkeypatch, capability, name, major, kernel
):
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setitem(_registry._FLASH_ATTENTION_IMPLS, name, lambda: FakeKernels(calls))
    monkeypatch.setattr(flash_attn, "_is_installed", lambda module: True)
    capability(major)
    assert use_flash_attn(CPU, torch.float32, 64) == (kernel, "")
    assert current_flash_attention_impl() == name
    assert kernel_of("aten::_flash_attention_forward") == kernel
    q, k, v = rows()
    expected = torch.autograd.grad(reference(q, k, v).square().sum(), (q, k, v))
    calls.clear()
    seen = flash_attention(q, k, v, cu_seqlens=CU_SEQLENS, max_seqlen=16, kernel=kernel)
    torch.testing.assert_close(torch.autograd.grad(seen.square().sum(), (q, k, v)), expected)
    ((cu_q, cu_k, *settings),) = calls
    assert torch.equal(cu_q, CU_SEQLENS) and torch.equal(cu_k, CU_SEQLENS)
    assert settings[:5] == [16, 16, 0.0, True, False]
    activate("torch")
    assert kernel_of("aten::_flash_attention_forward") == "varlen flash"


def test_one_that_this_torch_does_not_know_is_no_fault(monkeypatch, capability):
    monkeypatch.setattr(_registry, "_FLASH_ATTENTION_IMPLS", {})
    monkeypatch.setattr(flash_attn, "_is_installed", lambda module: module == "flash_attn_interface")
    capability(9)
    kernel, why = use_flash_attn(CPU, torch.bfloat16, 64)
    assert kernel == "torch" and "knows no FA3" in why


def proof(attention: str, kernels: dict[str, int], *, device: torch.device = CPU, **settings: Any) -> dict[str, Any]:
    """The entry of the event, of blocks that ran these kernels."""
    switches = resolve(TrainConfig(project="a", device="cpu", attention=attention, **settings), device)
    switches.without_flash_attn = "flash-attn is not installed"
    record = StepRecord(kernels=Counter(kernels), passes=sum(kernels.values()))
    model = SimpleNamespace(shape=SimpleNamespace(layers=3))
    trace: Any = SimpleNamespace(switches=switches, record=record, model=model, device=device)
    only = [switch for switch in SWITCHES if switch.name in ("sdpa", "attention")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("utils.training.switches.optimizer.SWITCHES", only)
        return report(trace)


PROOFS = [
    ("auto", {"varlen flash": 3}, "off", "varlen flash"),
    ("auto", {"flash-attn 2": 3}, "on", None),
    ("torch", {"varlen flash": 3}, "on", None),
    ("torch", {"flash-attn 2": 3}, "off", "flash-attn 2"),
    ("explicit", {"explicit softmax": 3}, "on", None),
    ("explicit", {"math": 3}, "off", "math"),
]


@pytest.mark.parametrize(("attention", "kernels", "state", "why"), PROOFS, ids=str)
def test_the_proof_follows_what_ran(attention, kernels, state, why):
    seen = proof(attention, kernels)["attention"]
    assert (seen["asked"], seen["state"]) == (attention, state)
    assert (seen["reason"] is None) if why is None else why in seen["reason"]
    if attention == "auto" and state == "off":
        assert seen["observed"].endswith("in the blocks; flash-attn is not installed")


def test_explicit_attention_turns_sdpa_off_with_the_reason():
    seen = proof("explicit", {"explicit softmax": 3}, sdpa=True)["sdpa"]
    assert seen["state"] == "off" and "attention explicit was requested" in seen["reason"]


def test_flash_attn_on_a_cpu_or_without_sdpa_is_off_with_the_reason(install):
    install(PACKAGE)
    for settings, why in (({}, "CUDA GPUs only"), ({"sdpa": False}, "SDPA is off")):
        found = resolve(TrainConfig(project="a", attention="flash-attn", **settings), CPU)
        assert why in found.off["attention"] and found.effective.attention == "auto"


@pytest.mark.parametrize(("precision", "kernel"), [("bf16", "flash-attn 2"), ("fp32", "torch")])
def test_a_model_gets_the_kernel_that_fits_its_layout(install, monkeypatch, precision, kernel):
    install(PACKAGE)
    monkeypatch.setattr(flash_attn, "_try", lambda kernel, device, dtype, channels: tried.append((dtype, channels)))
    tried: list[tuple[torch.dtype, int]] = []
    found = resolve(TrainConfig(project="a", attention="flash-attn", mixed_precision=precision), CUDA)
    gpt: Any = SimpleNamespace(options=SimpleNamespace(kernel=""), shape=SimpleNamespace(width=1024, heads=16))
    choose_kernel(found, gpt, CUDA)
    assert gpt.options.kernel == kernel
    assert tried == ([(torch.bfloat16, 64)] if kernel != "torch" else [])
    assert ("attention" in found.off) == (kernel == "torch")
