"""Weights in two halves: the float32 weights to the bit, in the optimizer, on the disk and through a run."""

import pytest
import torch
from torch import nn

from tests.training.optimizations.test_proof import step
from tests.training.optimizer.test_release import layers, loss_of, make, run, told
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.config import TrainConfig
from utils.errors import UserError
from utils.model.gpt import XttsGpt
from utils.model.lora import add_lora, merged_state
from utils.model.split_weights import REST, join, rests_of, split_into, split_weights
from utils.model.weights import read_weights
from utils.project.paths import Project
from utils.training.optimizations.switches import resolve
from utils.training.optimizer.adamw8bit import AdamW8bit
from utils.training.optimizer.make import BETAS
from utils.training.optimizer.plain_adamw import FusedAdamW, PlainAdamW
from utils.training.optimizer.release import GradientRelease

CPU = torch.device("cpu")


def test_both_halves_are_the_float32_value_and_the_upper_one_is_the_nearest() -> None:
    random = torch.Generator().manual_seed(0)
    values = torch.randn(100_000, generator=random) * 10 ** (torch.rand(100_000, generator=random) * 60 - 30)
    values[:6] = torch.tensor([0.0, -0.0, 1.0, -1.0, 1e-40, torch.finfo(torch.float32).tiny])
    upper, rest = torch.empty(len(values), dtype=torch.bfloat16), torch.empty(len(values), dtype=torch.int16)
    split_into(values, upper, rest)
    assert torch.equal(join(upper, rest).view(torch.int32), values.view(torch.int32))
    is_tie = values.view(torch.int32) & 0xFFFF == 0x8000
    assert torch.equal(upper[~is_tie], values[~is_tie].bfloat16())


@pytest.mark.parametrize("kind", [FusedAdamW, AdamW8bit])
@pytest.mark.parametrize("clip", [1e9, 0.05])
def test_weights_are_those_of_float32_with_the_same_gradients_to_the_bit(kind: type[PlainAdamW], clip: float) -> None:
    ours, theirs = layers(), layers()
    split_weights(ours)
    mine = kind(ours.parameters(), lr=1e-2, betas=BETAS, weight_decay=0.1, rests=rests_of(ours))
    other = make(kind, theirs)
    assert [parameter.dtype for parameter in ours.parameters()] == [torch.bfloat16, torch.float32] * 3
    random = torch.Generator().manual_seed(1)
    for _ in range(20):
        for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
            one.grad = torch.randn(one.shape, generator=random).to(one.dtype)
            two.grad = one.grad.float().clone()
        mine.step(scale=clip)
        other.step(scale=clip)
    state = ours.state_dict()
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(state[name], tensor), name
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert all(torch.equal(value, other.state[two][key]) for key, value in mine.state[one].items())


def test_what_is_saved_does_not_show_that_weights_were_split() -> None:
    plain, split = load_gpt(find_base("tiny")), load_gpt(find_base("tiny"))
    split_weights(split)
    state = plain.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in split.state_dict().items())
    changed = {name: tensor * 1.0001 if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    split.load_state_dict(changed)
    assert all(torch.equal(tensor, changed[name]) for name, tensor in split.state_dict().items())
    assert split.state_dict().keys() == state.keys()


def test_all_products_of_the_model_are_split_and_nothing_else() -> None:
    gpt = load_gpt(find_base("tiny"))
    split_weights(gpt)
    kept = {name for name, parameter in gpt.named_parameters() if parameter.dtype == torch.float32}
    assert not [name for name in kept if name.endswith("weight") and "embedding" not in name and "norm" not in name
                and "ln_" not in name]  # fmt: skip
    assert "mel_embedding.weight" in kept and "gpt.h.0.attn.c_attn.weight" not in kept
    assert gpt.conditioning_perceiver.latents.dtype == torch.float32


def losses_of(gpt: XttsGpt) -> torch.Tensor:
    torch.manual_seed(0)  # of dropout
    step(gpt, dtype=torch.bfloat16)
    return torch.cat([parameter.grad.float().flatten() for parameter in gpt.parameters() if parameter.grad is not None])


def test_gradients_are_those_that_autocast_gives() -> None:
    plain, split = load_gpt(find_base("tiny")), load_gpt(find_base("tiny"))
    split_weights(split)
    theirs, mine = losses_of(plain), losses_of(split)
    # All but the few weights in the middle between two bfloat16 values are the same.
    assert float((mine - theirs).norm() / theirs.norm()) < 1e-2


def test_it_is_released_as_well() -> None:
    ours, theirs = layers(), layers()
    for model in (ours, theirs):
        split_weights(model)
    held = FusedAdamW(theirs.parameters(), lr=1e-2, betas=BETAS, rests=rests_of(theirs))
    release = GradientRelease(FusedAdamW(ours.parameters(), lr=1e-2, betas=BETAS, rests=rests_of(ours)), 1e9)
    release.note(1.0)
    for number in range(5):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mine, other = loss_of(ours, number), loss_of(theirs, number)
        with release.update():
            mine.backward()
        other.backward()
        held.step()
        held.zero_grad()
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], tensor), name


def test_a_run_learns_as_without_it_and_resumes_to_the_bit(project: Project) -> None:
    settings = {"mixed_precision": "bf16", "batch_size": 6, "learning_rate": 1e-4, "schedule": "constant"}
    plain = run(project, num_epochs=2, **settings)
    whole = run(project, num_epochs=2, split_weights=True, gradient_release=True, **settings)
    seen = told(whole)["split_weights"]
    assert seen["state"] == "on" and "million weights in two halves" in seen["observed"]
    assert whole.epoch_losses == pytest.approx(plain.epoch_losses, rel=1e-3)
    cut = run(project, num_epochs=1, split_weights=True, gradient_release=True, **settings)
    resumed = run(project, num_epochs=2, split_weights=True, gradient_release=True, resume=cut.folder, **settings)
    mine, theirs = read_weights(resumed.checkpoint), read_weights(whole.checkpoint)
    assert all(torch.equal(mine[name], theirs[name]) and mine[name].dtype == torch.float32 for name in theirs)


@pytest.mark.slow
def test_with_lora_frozen_weights_are_split_and_what_is_saved_is_what_it_was(project: Project) -> None:
    settings = {"mixed_precision": "bf16", "lora_rank": 2, "grad_accumulation": 2, "schedule": "constant"}
    whole = run(project, num_epochs=2, **settings)
    split = run(project, num_epochs=2, split_weights=True, **settings)
    assert split.epoch_losses == pytest.approx(whole.epoch_losses, rel=1e-3)
    seen = told(split)["split_weights"]
    assert seen["state"] == "on" and "million weights in two halves" in seen["observed"]
    saved, base = read_weights(split.checkpoint), load_gpt(find_base("tiny")).state_dict()
    added = {"c_attn.weight", "c_proj.weight", "c_fc.weight"}
    for name, tensor in base.items():
        assert saved[name].dtype == torch.float32
        assert torch.equal(saved[name], tensor) == (".".join(name.split(".")[-2:]) not in added), name
    cut = run(project, num_epochs=1, split_weights=True, **settings)
    resumed = read_weights(run(project, num_epochs=2, split_weights=True, resume=cut.folder, **settings).checkpoint)
    assert all(torch.equal(tensor, saved[name]) for name, tensor in resumed.items())


def test_the_lower_halves_of_weights_that_do_not_learn_stay_when_the_model_moves() -> None:
    gpt = load_gpt(find_base("tiny")).requires_grad_(False)
    add_lora(gpt, 2)
    before = merged_state(gpt)
    split_weights(gpt)
    assert not rests_of(gpt)
    halves = [parameter for parameter in gpt.parameters() if parameter.dtype == torch.bfloat16]
    assert halves and not any(parameter.requires_grad for parameter in halves)
    moved = gpt.to("meta")
    assert all(parameter.is_meta for parameter in moved.parameters())
    rests = [value for module in moved.modules() for name, value in vars(module).items() if name == REST]
    assert len(rests) == len(halves) and all(value.device == CPU for value in rests)
    assert before.keys() == merged_state(load_gpt(find_base("tiny"))).keys()


@pytest.mark.parametrize(
    "settings",
    [
        {"grad_accumulation": 2},
        {"mixed_precision": "fp16"},
        {"offload_optimizer": True},
        {"mixed_precision": "fp16", "lora_rank": 8},
    ],
    ids=str,
)
def test_what_it_rules_out_is_refused(settings: dict) -> None:
    config = TrainConfig(project="a", split_weights=True, **{"mixed_precision": "auto"} | settings)
    with pytest.raises(UserError, match="split_weights keeps weights in bf16"):
        config.validate(where="test")


def test_it_is_off_with_the_reason_where_products_are_not_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("utils.training.optimizer.precision.cpu_has_bf16", lambda: False)
    for precision in ("auto", "fp32"):
        found = resolve(TrainConfig(project="a", split_weights=True, mixed_precision=precision), CPU)
        assert not found.effective.split_weights and "not in bf16" in found.off["split_weights"]
    monkeypatch.setenv("WORLD_SIZE", "2")
    found = resolve(TrainConfig(project="a", split_weights=True, mixed_precision="bf16"), CPU)
    assert "several processes" in found.off["split_weights"]
    found = resolve(TrainConfig(project="a", split_weights=True, mixed_precision="bf16", lora_rank=8), CPU)
    assert found.effective.split_weights


def test_a_layer_without_a_weight_in_what_is_loaded_keeps_its_own() -> None:
    model = nn.Linear(4, 4)
    split_weights(model)
    before = model.state_dict()["weight"]
    model.load_state_dict({"bias": torch.ones(4)}, strict=False)
    assert torch.equal(model.state_dict()["weight"], before)
