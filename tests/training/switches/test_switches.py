"""What a device has is tried; what it lacks is off with the reason, and the run continues; which weights decay."""

import dataclasses
import re
import shutil
import sysconfig
from pathlib import Path

import pytest
import torch

from tests.documents import ROOT
from tests.model.test_no_tf32 import DEFAULTS, seen, set_as
from tests.training.test_run import config_of
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.config import TrainConfig
from utils.errors import UserError
from utils.options import LrSchedule, Schedule
from utils.performance_utils.device import cpu_has_bf16
from utils.switches import SWITCHES, missed
from utils.training.switches.attention import choose_kernel
from utils.training.switches.base import Seen, choose_layout, state_of
from utils.training.switches.compile import compiler_problem
from utils.training.switches.device import _has_tf32
from utils.training.switches.optim import choose_precision, make_accelerator, make_optimizer
from utils.training.switches.optimizer import BEHAVIORS, resolve
from utils.training.train import fine_tune

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def switches(**settings):
    return resolve(TrainConfig(project="a", device="cpu", **settings), CPU)


def test_plain_settings_ask_for_nothing_that_is_off():
    found = switches()
    assert found.off == {} and found.effective == found.asked


def test_what_a_cpu_cannot_do_is_off_with_the_reason():
    settings = {"eight_bit_optimizer": True, "paged_optimizer": True, "cuda_memory_fraction": 0.5}
    found = switches(**settings, compile="reduce-overhead")
    assert set(found.off) == {*settings, "compile"}
    assert found.effective.cuda_memory_fraction is None and found.effective.compile == "off"
    assert not found.effective.paged_optimizer and not found.effective.eight_bit_optimizer
    assert found.off["eight_bit_optimizer"] == "8-bit AdamW needs a CUDA GPU; use LoRA"


def test_automatic_attention_is_off_with_a_reason_on_a_cpu():
    found, gpt = switches(), load_gpt(find_base("tiny"))
    choose_kernel(found, gpt, CPU)
    seen = Seen(False, "flash (CPU) x2 in the blocks")
    attention = next(switch for switch in SWITCHES if switch.name == "attention")
    state = state_of(attention, "auto", seen, found.off["attention"])
    assert state["reason"].startswith("flash-attn has kernels for CUDA GPUs only")
    assert missed({"attention": state}) == [], "it was not requested"
    assert missed({"attention": state | {"asked": "flash-attn"}}) == ["attention"]


def test_auto_precision_says_when_the_processor_has_no_units(monkeypatch):
    assert switches(mixed_precision="auto").effective.mixed_precision == ("bf16" if cpu_has_bf16() else "fp32")
    monkeypatch.setattr("utils.training.switches.optim.cpu_has_bf16", lambda: False)
    found = switches(mixed_precision="auto")
    assert found.effective.mixed_precision == "fp32" and "no fast bf16 units" in found.off["mixed_precision"]


def test_without_a_compiler_compile_is_off(monkeypatch):
    monkeypatch.setenv("CXX", "/nowhere/c++")
    found = switches(compile="default")
    assert found.effective.compile == "off"
    assert found.off["compile"].startswith("no compiler")


COMPILER_PROBLEMS = [
    ("torch._dynamo.eval_frame.is_dynamo_supported", lambda: False, CPU, "torch.compile does not support Python"),
    ("sysconfig.get_path", lambda name: "/nowhere", CPU, "no Python headers; install python3-dev"),
    ("torch.cuda.get_device_capability", lambda device: (6, 1), CUDA, "no kernels for compute capability 6.1"),
    ("find_spec", lambda name: None, CUDA, "Triton is not installed"),
    ("shutil.which", lambda name: None, CUDA, "no compiler; install gcc"),
]


@pytest.mark.parametrize(
    ("place", "answer", "device", "reported"), COMPILER_PROBLEMS, ids=range(len(COMPILER_PROBLEMS))
)
def test_what_a_machine_lacks_for_compiling_is_told(monkeypatch, place, answer, device, reported):
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(headers))
    headers = Path(sysconfig.get_paths()["include"])
    monkeypatch.setattr("torch._dynamo.eval_frame.is_dynamo_supported", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (8, 0))
    monkeypatch.setattr("utils.training.switches.compile.find_spec", lambda name: name)
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/gcc")
    assert device == CPU or compiler_problem(device) is None
    monkeypatch.setattr(place if "." in place else f"utils.training.switches.compile.{place}", answer)
    assert reported in (compiler_problem(device) or "")


@pytest.mark.parametrize(("capability", "asked"), [((7, 5), False), ((8, 0), True)])
def test_tf32_is_asked_for_where_there_are_units(monkeypatch, capability, asked):
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: capability)
    assert _has_tf32(CUDA) is asked and not _has_tf32(CPU)


def test_a_run_trains_under_mixed_settings_and_leaves_them(project):
    set_as({"cuda.matmul.fp32_precision": "tf32", "cudnn.conv.fp32_precision": "ieee"})
    try:
        before = seen()
        assert before["float32_matmul"] == before["cudnn.allow_tf32"] == "raises"
        assert fine_tune(config_of(project, num_epochs=1, device="cpu")).ended == "epochs"
        assert seen() == before
    finally:
        set_as(DEFAULTS)


def test_without_cuda_the_cpu_trains_whatever_else_there_is(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("accelerate.state.is_mps_available", lambda: True)
    assert make_accelerator("auto").device == CPU


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_with_a_compiler_compile_is_tried():
    assert compiler_problem(CPU) is None
    assert switches(compile="default").effective.compile == "default"


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_selective_checkpointing_of_compiled_blocks_is_off_with_the_reason():
    found = switches(compile="default", gradient_checkpointing="selective")
    assert found.effective.gradient_checkpointing == "none"
    assert "compiled blocks" in found.off["gradient_checkpointing"]


@pytest.mark.parametrize(
    ("sdpa", "is_compiled", "layout"),
    [(False, False, "rows"), (True, False, "packed"), (True, True, "rows")],
)
def test_the_layout_follows_the_kernel(sdpa, is_compiled, layout):
    assert choose_layout(sdpa, "fp32", CPU, is_compiled=is_compiled) == layout


IMPOSSIBLE = [
    ({"mixed_precision": "fp16", "device": "cpu"}, "fp16 needs a CUDA GPU"),
    ({"cuda_memory_fraction": 1.5}, "cuda_memory_fraction is 1.5"),
    ({"batch_size": 0}, "batch_size is 0"),
    ({"lora_rank": -1}, "lora_rank is -1"),
    ({"gradient_checkpointing": "some"}, "none or selective or full"),
    ({"compile": "fast"}, "off or default"),
]


@pytest.mark.parametrize(("settings", "reported"), IMPOSSIBLE, ids=lambda value: str(value)[:30])
def test_impossible_combinations_are_refused_with_the_fix(settings, reported):
    with pytest.raises(UserError) as caught:
        TrainConfig(project="a", **settings).validate(where="test")
    assert reported in str(caught.value)


@pytest.mark.parametrize(
    ("capability", "precision"),
    [((6, 1), "fp32"), ((7, 0), "fp16"), ((7, 5), "fp16"), ((8, 0), "bf16"), ((9, 0), "bf16")],
)
def test_auto_takes_what_a_gpu_has_matrix_units_for(monkeypatch, capability, precision):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert choose_precision("auto", torch.device("cuda")) == precision


def test_only_matrices_decay():
    gpt = load_gpt(find_base("tiny"))
    decay, keep = make_optimizer(gpt, learning_rate=1.0, weight_decay=0.1).param_groups
    names = {id(parameter): name for name, parameter in gpt.named_parameters()}
    decayed, kept = ({names[id(p)] for p in group["params"]} for group in (decay, keep))
    assert decay["weight_decay"] == 0.1 and keep["weight_decay"] == 0
    assert len(decayed) + len(kept) == len(names)
    assert "gpt.h.0.attn.c_attn.weight" in decayed and "mel_head.weight" in decayed
    assert not [name for name in decayed if "bias" in name or "ln_" in name or "norm" in name or "embedding" in name]


def rates(schedule: Schedule, *, warmup: int, total: int, steps: int) -> list[float]:
    return list(map(LrSchedule(schedule, warmup_steps=warmup, total_steps=total), range(steps)))


def test_schedules_by_optimizer_step():
    assert rates("constant", warmup=0, total=4, steps=4) == [1, 1, 1, 1]
    assert rates("linear", warmup=0, total=4, steps=5) == [1, 0.75, 0.5, 0.25, 0]
    assert rates("cosine", warmup=0, total=4, steps=5) == pytest.approx([1, 0.853553, 0.5, 0.146447, 0], abs=1e-6)
    assert rates("polynomial", warmup=0, total=4, steps=5) == [1, 0.5625, 0.25, 0.0625, 0]


def test_warmup_rises_then_falls_and_never_below_zero():
    assert rates("linear", warmup=3, total=5, steps=7) == [0.25, 0.5, 0.75, 1, 0.5, 0, 0]
    assert rates("cosine", warmup=9, total=3, steps=4) == [0.1, 0.2, 0.3, 0.4]


ASKED = [switch for switch in SWITCHES if switch.field]
ROW = re.compile(r"^\| ([^|`]+): `--([a-z-]+)", re.MULTILINE)


def test_every_switch_has_a_behavior():
    assert [switch.name for switch in SWITCHES] == list(BEHAVIORS)


@pytest.mark.parametrize("switch", ASKED, ids=lambda switch: switch.name)
def test_a_switch_knows_its_setting(switch):
    config = TrainConfig(project="a", device="cpu", **{switch.field: switch.off})
    assert not switch.is_on(config) and switch.problem(config) is None
    assert switch.field in {field.name for field in dataclasses.fields(TrainConfig)}
    if switch.off is not None:
        assert switch.is_on(dataclasses.replace(config, **{switch.field: switch.on}).validate(where="test"))


def test_the_table_of_the_documents_names_each_switch_as_the_page_does_in_the_same_order():
    rows = ROW.findall((ROOT / "docs/training-optimizations.md").read_text(encoding="utf-8"))
    fields = {switch.field.replace("_", "-") for switch in ASKED}
    named = dict.fromkeys((label, flag) for label, flag in rows if flag in fields)
    assert list(named) == [(switch.label, switch.field.replace("_", "-")) for switch in ASKED]
