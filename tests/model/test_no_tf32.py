"""Exact float32 products, and TF32 in training, beside whatever a caller has set by torch's older or newer names."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from utils.model.no_tf32 import exact_float32, kept_float32
from utils.performance_utils.settings import kept_torch_settings, optimize_torch_settings

BACKENDS: Any = torch.backends
SETTINGS = (
    "fp32_precision",
    "cudnn.fp32_precision",
    "cuda.matmul.fp32_precision",
    "cudnn.conv.fp32_precision",
    "cudnn.rnn.fp32_precision",
    "mkldnn.matmul.fp32_precision",
    "mkldnn.conv.fp32_precision",
    "cuda.matmul.allow_tf32",
    "cudnn.allow_tf32",
)
"""What a caller may have set, from `torch.backends`; `set_float32_matmul_precision` comes beside them."""
DEFAULTS = {
    **{"fp32_precision": "none", "cudnn.fp32_precision": "none", "cudnn.allow_tf32": True, "float32_matmul": "highest"},
    **{f"{name}.fp32_precision": "none" for name in ("cuda.matmul", "mkldnn.matmul", "mkldnn.conv")},
}
"""As torch comes, in an order that writes all of it."""
CALLERS: list[dict[str, Any]] = [
    {},
    {"fp32_precision": "tf32"},
    {"fp32_precision": "ieee"},
    {"fp32_precision": "bf16"},
    {"cuda.matmul.fp32_precision": "tf32"},
    {"cudnn.conv.fp32_precision": "ieee"},
    {"cudnn.rnn.fp32_precision": "ieee"},
    {"cudnn.fp32_precision": "tf32"},
    {"cudnn.fp32_precision": "tf32", "cudnn.conv.fp32_precision": "none", "fp32_precision": "ieee"},
    {"mkldnn.matmul.fp32_precision": "bf16"},
    {"cuda.matmul.allow_tf32": True},
    {"cudnn.allow_tf32": False},
    {"float32_matmul": "high"},
    {"float32_matmul": "medium"},
    {"float32_matmul": "high", "cuda.matmul.fp32_precision": "ieee"},
    {"float32_matmul": "highest", "cuda.matmul.fp32_precision": "tf32", "cudnn.conv.fp32_precision": "ieee"},
    {"cudnn.allow_tf32": False, "cudnn.conv.fp32_precision": "tf32", "fp32_precision": "tf32"},
]


def set_as(caller: dict[str, Any]) -> None:
    for name, value in caller.items():
        if name == "float32_matmul":
            torch.set_float32_matmul_precision(value)
            continue
        *modules, setting = name.split(".")
        place = BACKENDS
        for module in modules:
            place = getattr(place, module)
        setattr(place, setting, value)


def seen() -> dict[str, Any]:
    """All settings as a caller reads them; those that raise, because newer and older ones were mixed, as such."""
    found: dict[str, Any] = {}
    for name in SETTINGS:
        place = BACKENDS
        try:
            for module in name.split("."):
                place = getattr(place, module)
            found[name] = place
        except RuntimeError:
            found[name] = "raises"
    try:
        found["float32_matmul"] = torch.get_float32_matmul_precision()
    except RuntimeError:
        found["float32_matmul"] = "raises"
    return found


def followed() -> list[dict[str, Any]]:
    """The settings under each general one, which shows what has a value of its own."""
    kept, found = BACKENDS.fp32_precision, []
    for general in ("ieee", "tf32", "none"):
        BACKENDS.fp32_precision = general
        found.append(seen())
    BACKENDS.fp32_precision = kept
    return found


@pytest.fixture(autouse=True)
def as_torch_comes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("utils.performance_utils.settings.check_allocator", lambda device: "")  # allocates on the GPU
    yield
    set_as(DEFAULTS)


@pytest.mark.parametrize("caller", CALLERS, ids=str)
def test_exact_products_whatever_the_caller_has_set_who_gets_it_back(caller):
    set_as(caller)
    before, following = seen(), followed()
    with exact_float32():
        inside = seen()
    operations = [name for name in SETTINGS if name.count(".") == 2 and "allow" not in name]
    assert len(operations) == 5 and not {"tf32", "bf16"} & {inside[name] for name in operations}
    # Code that reads the older names meanwhile, as PyTorch's TunableOp does, must find them in agreement.
    assert (inside["float32_matmul"], inside["cuda.matmul.allow_tf32"]) == ("highest", False)
    assert seen() == before and followed() == following


@pytest.mark.parametrize("caller", CALLERS, ids=str)
def test_training_has_tf32_in_both_of_torchs_interfaces_and_gives_the_callers_back(caller, monkeypatch):
    """torch.compile's max-autotune reads the older one, which raises where a newer one was written alone."""
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (8, 0))
    set_as(caller)
    before, following = seen(), followed()
    with kept_torch_settings():
        assert optimize_torch_settings("cuda")
        assert optimize_torch_settings("cuda") == {}
        for _ in range(2):  # Each micro-batch's mel.
            with exact_float32():
                assert BACKENDS.cuda.matmul.fp32_precision == BACKENDS.cudnn.conv.fp32_precision == "ieee"
            inside = seen()
            assert inside["float32_matmul"] in ("high", "medium") and inside["cuda.matmul.allow_tf32"] is True
            assert {inside[f"{name}.fp32_precision"] for name in ("cuda.matmul", "cudnn.conv", "cudnn.rnn")} == {"tf32"}
    assert seen() == before and followed() == following


def test_gpus_without_tf32_are_left_as_they_are(monkeypatch):
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (7, 5))
    before = seen()
    with kept_torch_settings():
        optimize_torch_settings("cuda")
        assert seen() == before


def test_an_error_gives_the_settings_back_too():
    set_as({"cuda.matmul.fp32_precision": "tf32"})
    before = seen()
    with pytest.raises(ValueError), kept_float32(), exact_float32():
        raise ValueError
    assert seen() == before
