"""What is recommended fits the machine and the purpose, says why, and names what would make it better."""

import json
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch

from tests.hardware.machines import GIB, make_gpu, make_machine
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.config import TrainConfig
from utils.hardware.estimates import FULL_BLOCK, HALF_BLOCK, XTTS_V2, estimate, size_in
from utils.hardware.processor import Cpu
from utils.hardware.recommendations import USE_CASES, Recommendation, memory_tier, recommend
from utils.hardware.resources import Memory
from utils.model.attention import sdpa_attention
from utils.model.gpt import Block


def chosen(result: Recommendation) -> str:
    """The settings in short, for tables."""
    flags = ["eight_bit_optimizer"] * result.eight_bit_optimizer + ["lora"] * (result.lora_rank > 0)
    size = f"{result.batch_size}x{result.grad_accumulation}"
    return " ".join([size, result.gradient_checkpointing, result.mixed_precision, *flags])


PASCAL, VOLTA, TURING, AMPERE, HOPPER = (6, 1), (7, 0), (7, 5), (8, 6), (9, 0)
BY_MEMORY = {
    4: "16x1 full bf16 lora",
    6: "4x2 none bf16 lora",
    8: "16x1 full bf16 eight_bit_optimizer",
    11: "4x2 selective bf16",
    12: "4x2 none bf16",
    16: "8x1 none bf16",
    24: "16x1 none bf16",
    80: "16x1 none bf16",
}


@pytest.mark.parametrize(("gib", "expected"), BY_MEMORY.items(), ids=lambda value: str(value).split()[0])
def test_the_matrix_by_gpu_memory(gib, expected):
    assert chosen(recommend("production", make_machine(make_gpu(gib, AMPERE)))) == expected


@pytest.mark.parametrize(
    ("gib", "tier"),
    [
        (4, "< 8 GB"),
        (7.99, "8-12 GB"),
        (11, "8-12 GB"),
        (11.99, "12-16 GB"),
        (15, "12-16 GB"),
        (16, "16-24 GB"),
        (23.99, "16-24 GB"),
        (32, "> 24 GB"),
    ],
)
def test_rows_are_named_as_cards_are_sold(gib, tier):
    assert memory_tier(round(gib * GIB)) == tier


BY_ARCHITECTURE = [
    (PASCAL, 8, "fp32", "eight_bit_optimizer", "no matrix units for half precision"),
    (PASCAL, 6, "fp16", "lora_rank", "is not faster for it"),
    (VOLTA, 8, "fp16", "eight_bit_optimizer", "fp16 with gradient scaling"),
    (TURING, 8, "fp16", "eight_bit_optimizer", "no bf16 units"),
    (AMPERE, 8, "bf16", "eight_bit_optimizer", "needs no gradient scaling"),
    (HOPPER, 8, "bf16", "eight_bit_optimizer", "Hopper has matrix units for it"),
]


@pytest.mark.parametrize(("capability", "gib", "precision", "optimizer", "why"), BY_ARCHITECTURE)
def test_the_matrix_by_architecture(capability, gib, precision, optimizer, why):
    result = recommend("production", make_machine(make_gpu(gib, capability)))
    assert result.mixed_precision == precision and getattr(result, optimizer)
    assert any(why in reason for reason in result.reasons)


BY_USE_CASE = {
    "production": ("8x1 none bf16", True, "off", False),
    "experiments": ("8x1 none bf16", True, "off", False),
    "limited memory": ("2x4 full bf16 eight_bit_optimizer", True, "off", True),
    "maximum quality": ("8x2 none fp32", True, "off", False),
    "debugging": ("2x4 none fp32", False, "off", False),
}


@pytest.mark.parametrize("use_case", USE_CASES)
def test_the_matrix_by_use_case(use_case):
    result = recommend(use_case, make_machine(make_gpu(16, AMPERE)))
    assert (chosen(result), result.sdpa, result.compile, result.freeze_conditioning) == BY_USE_CASE[use_case]


BF16, PLAIN = frozenset({"avx512f", "amx_bf16"}), frozenset({"avx2"})
BY_CPU = [
    (BF16, 48, "production", "4x2 none bf16"),
    (PLAIN, 48, "production", "4x2 none fp32"),
    (BF16, 12, "production", "4x2 selective bf16"),
    (BF16, 7, "production", "4x2 full bf16 lora"),
    (BF16, 48, "debugging", "2x4 none fp32"),
    (BF16, 48, "limited memory", "2x4 full bf16"),
]


@pytest.mark.parametrize(("flags", "gib", "use_case", "expected"), BY_CPU)
def test_the_matrix_by_processor(flags, gib, use_case, expected):
    processor = Cpu(model="Test CPU", physical_cores=2, usable_cpus=2, flags=flags)
    free = Memory(total_bytes=64 * GIB, available_bytes=gib * GIB)
    result = recommend(use_case, make_machine(cpu=processor, memory=free))
    assert (result.device, chosen(result)) == ("cpu", expected)
    assert not result.eight_bit_optimizer and result.compile == "off"


@pytest.mark.parametrize("use_case", USE_CASES)
def test_every_row_fits_and_trains_on_8_to_16_clips(use_case):
    machines = [make_machine(make_gpu(gib, cap)) for gib, cap in product((4, 6, 8, 12, 16, 24, 80), (PASCAL, AMPERE))]
    for machine in [*machines, make_machine()]:
        result = recommend(use_case, machine)
        assert 8 <= result.batch_size * result.grad_accumulation <= 16
        capacity = machine.gpu.total_bytes if machine.gpu else machine.memory.available_bytes
        assert result.fit.needed.total <= 0.9 * capacity
        assert result.fit.fits and not [problem for problem in result.problems if "bitsandbytes" not in problem]
        assert len(result.reasons) >= 5 and all(result.reasons)


def test_settings_have_the_names_of_the_training_settings():
    settings = recommend("production", make_machine()).settings
    ours = {"batch_size", "grad_accumulation", "gradient_checkpointing", "sdpa", "mixed_precision", "device"}
    assert ours <= set(settings) <= set(TrainConfig.__dataclass_fields__)
    assert not {"reasons", "problems", "estimate"} & set(settings)


def test_a_gpu_that_pytorch_cannot_use_trains_on_the_cpu_and_says_what_to_install():
    machine = make_machine(make_gpu(8, PASCAL), gpu_problems=["no kernels: run: pip install ..."])
    result = recommend("production", machine)
    assert result.device == "cpu"
    assert result.problems == ("no kernels: run: pip install ...",)
    assert "PyTorch cannot use the GPU yet" in result.reasons[0]
    assert "no driver" in recommend("production", make_machine(gpu_reason="no driver")).reasons[0]


def test_a_crowded_gpu_is_planned_by_what_is_free():
    result = recommend("production", make_machine(make_gpu(24, AMPERE, used_bytes=16 * GIB)))
    assert chosen(result) == BY_MEMORY[8]
    assert "8.0 GB that other programs leave free" in result.reasons[0]


def test_bitsandbytes_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setattr("utils.hardware.recommendations.find_spec", lambda name: None)
    result = recommend("production", make_machine(make_gpu(8, AMPERE)))
    assert result.eight_bit_optimizer and result.fit.fits
    assert result.problems == (
        "8-bit AdamW needs bitsandbytes, which is not installed: run pip install -r requirements-8bit.txt",
    )
    assert not recommend("production", make_machine(make_gpu(24, AMPERE))).problems


def test_a_machine_too_small_for_any_plan_is_told_so():
    result = recommend("production", make_machine(make_gpu(2, AMPERE)))
    assert "even the smallest plan needs" in result.problems[-1] and not result.fit.fits


def test_the_estimate_is_the_stated_bytes_a_parameter():
    def state(**more: Any) -> float:
        needed = estimate(TrainConfig(project="a", batch_size=1, **more), device="cuda")
        return (needed.weights + needed.gradients + needed.optimizer) / 1e9

    assert state() == pytest.approx(7.06, abs=0.005)  # 16 bytes
    assert state(eight_bit_optimizer=True) == pytest.approx(4.41, abs=0.005)  # 10 bytes
    assert state(lora_rank=32) < 2.2
    assert state(lora_rank=32, mixed_precision="bf16") == pytest.approx(state(lora_rank=32) - 0.87, abs=0.01)
    assert "by calculation (weights 1.6, gradients 1.6" in str(estimate(TrainConfig(project="a"), device="cuda"))


def test_activations_shrink_in_the_order_of_the_checkpointing_modes():
    def activations(mode: str, precision: str = "bf16") -> int:
        config = TrainConfig(project="a", batch_size=4, gradient_checkpointing=mode, mixed_precision=precision)
        return estimate(config, device="cuda").activations

    assert activations("full") < activations("selective") < activations("none") < activations("none", "fp32")


def fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """What a GPU runs."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


# On a CPU in half precision the weights are kept: 2 bytes for each of 4 heads' 128 positions, in units of 256.
@pytest.mark.parametrize(
    ("half", "attend", "expected"),
    [
        (False, fused, FULL_BLOCK),
        (True, fused, HALF_BLOCK),
        (True, partial(sdpa_attention, causal=True), HALF_BLOCK + 2 * 4 * 128 / 256),
    ],
)
def test_calculated_activations_are_what_autograd_keeps_of_a_block(half, attend, expected):
    width, length = 256, 128
    block = Block(width, 4)
    weights = {tuple(weight.shape) for weight in block.parameters()}
    kept: dict[int, int] = {}

    def count(tensor: torch.Tensor) -> torch.Tensor:
        # The weights and their half-precision copies are counted elsewhere.
        if not {tuple(tensor.shape), tuple(reversed(tensor.shape))} & weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    x = torch.randn(1, length, width, requires_grad=True)
    hooks = torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", torch.bfloat16, enabled=half):
        out = block(x, attend)
    assert out.requires_grad
    assert sum(kept.values()) / (length * width) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("name", ["starter", "tiny"])
def test_the_sizes_of_a_base_are_counted_without_loading_it(name):
    base = find_base(name)
    gpt, size = load_gpt(base), size_in(base.folder)
    assert size is not None
    assert size.num_parameters == sum(parameter.numel() for parameter in gpt.parameters())
    parts = (gpt.conditioning_encoder, gpt.conditioning_perceiver)
    assert size.num_conditioning == sum(parameter.numel() for part in parts for parameter in part.parameters())


def test_the_sizes_of_xtts_v2_are_the_known_ones(tmp_path):
    sizes = {"gpt_n_model_channels": 1024, "gpt_layers": 30, "gpt_n_heads": 16, "gpt_num_audio_tokens": 1_026}
    (tmp_path / "config.json").write_text(json.dumps({"model_args": sizes}))
    assert size_in(tmp_path) is None
    vocabulary = {"model": {"vocab": dict.fromkeys(map(str, range(6_681)))}, "added_tokens": []}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    assert size_in(tmp_path) == XTTS_V2
    for spoiled in ("", "[]", '{"model_args": {"gpt_layers": 3}}'):
        (tmp_path / "config.json").write_text(spoiled)
        (tmp_path / "vocab.json").write_text("{}")
        assert size_in(tmp_path) is None
