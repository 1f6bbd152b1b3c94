"""Switches on models that are not ours: numbers and names stay, and only what was seen reads on."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.model.stock import stock_gpt, without_dropout
from utils.bases.find import find_base
from utils.errors import UserError
from utils.training.switches.record import saved_bytes
from utils.training_optimizations import TrainingOptimizer

Loss = Callable[[nn.Module], Tensor]


def hugging_face() -> tuple[nn.Module, Loss]:
    from transformers import GPT2Config, GPT2LMHeadModel  # takes a second to load

    config = GPT2Config(n_layer=3, n_embd=32, n_head=2, vocab_size=50, attn_implementation="eager")
    tokens = torch.arange(40).view(2, 20)
    return GPT2LMHeadModel(config), lambda model: model(input_ids=tokens, labels=tokens).loss


def plain() -> tuple[nn.Module, Loss]:
    layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
    x = torch.randn(2, 20, 32)
    return nn.TransformerEncoder(layer, 3), lambda model: model(x).square().mean()


def stock() -> tuple[nn.Module, Loss]:
    gpt = stock_gpt(find_base("tiny").gpt_shape())
    x = torch.randn(2, 20, gpt.model_dim)
    return gpt, lambda model: model.gpt(inputs_embeds=x).last_hidden_state.square().mean()


MODELS = {"hugging face": hugging_face, "plain": plain, "stock GPT": stock}


def gradients(model: nn.Module, loss: Loss) -> tuple[Tensor, list[Tensor]]:
    torch.manual_seed(0)
    value = loss(model.train())
    value.backward()
    found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return value.detach(), found


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_foreign_model_computes_the_same_with_less_memory_and_reads_on_when_seen(make, capsys):
    torch.manual_seed(1)
    model, loss = make()
    without_dropout(model)  # On a CPU it takes fused attention off its fast path.
    original = copy.deepcopy(model)
    names = list(model.state_dict())
    optimizer = TrainingOptimizer(enable_grad_checkpoint=True, enable_sdpa=True, device="cpu")

    assert optimizer.optimize_model(model) is model
    assert list(model.state_dict()) == names
    assert not [name for name, state in optimizer.states.items() if state["state"] == "on"], "nothing was seen yet"
    assert "enabled" not in capsys.readouterr().out

    kept, before = (saved_bytes(lambda m=m: loss(m.train()), but=m.parameters()) for m in (model, original))
    assert kept < 0.7 * before
    (value, mine), (reference, theirs) = gradients(model, loss), gradients(original, loss)
    torch.testing.assert_close(value, reference, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)

    states = optimizer.states
    assert states["gradient_checkpointing"]["state"] == "on" and states["sdpa"]["state"] == "on"
    printed = capsys.readouterr().out
    ran = states["gradient_checkpointing"]["observed"]
    assert f"gradient checkpointing enabled: {ran}" in printed and ran.split()[0] == ran.split()[2]
    assert "SDPA enabled: flash (CPU) in " in printed


def test_mixed_precision_is_seen_in_the_products_and_ends_with_training(capsys):
    model, loss = plain()
    optimizer = TrainingOptimizer(enable_mixed_precision="bf16", device="cpu")
    optimizer.optimize_model(model)
    gradients(model, loss)
    assert optimizer.states["mixed_precision"]["state"] == "on"
    assert "mixed precision enabled: bfloat16 matrix products" in capsys.readouterr().out
    with torch.no_grad():
        assert model.eval()(torch.randn(1, 5, 32)).dtype == torch.float32


def test_what_cannot_be_done_is_off_with_its_reason(capsys):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = TrainingOptimizer(True, True, device="cpu", lora_rank=4, compile_mode="default")
    optimizer.optimize_model(model)
    model(torch.ones(2, 4)).sum().backward()
    states = optimizer.states
    assert not [name for name, state in states.items() if state["state"] == "on"]
    assert "no list of like blocks" in states["gradient_checkpointing"]["reason"]
    assert "no attention kernel was seen" in states["sdpa"]["reason"]
    printed = capsys.readouterr().out
    for line in ("gradient checkpointing off: ", "SDPA off: ", "LoRA off: ", "torch.compile off: "):
        assert printed.count(line) == 1, line


def test_softmax_attention_never_reads_on(capsys):
    model, loss = plain()
    optimizer = TrainingOptimizer(device="cpu")
    optimizer.optimize_model(model)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        gradients(model, loss)
    assert optimizer.states["sdpa"]["state"] == "off"
    assert "explicit softmax" in optimizer.states["sdpa"]["reason"]


def test_blocks_with_running_statistics_are_not_recomputed():
    block = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    model = nn.Sequential(block, copy.deepcopy(block))
    optimizer = TrainingOptimizer(True, device="cpu")
    optimizer.optimize_model(model)
    model(torch.randn(8, 4)).sum().backward()
    assert model[0][1].num_batches_tracked == 1
    assert "running statistics" in optimizer.states["gradient_checkpointing"]["reason"]


def test_a_second_call_replaces_the_first():
    model, loss = plain()
    for asked in (True, False):
        optimizer = TrainingOptimizer(asked, device="cpu")
        optimizer.optimize_model(model)
    gradients(model, loss)
    assert optimizer.states["gradient_checkpointing"]["observed"] == "0 of 3 blocks recomputed"


def test_what_is_no_model_is_a_user_error():
    with pytest.raises(UserError, match=r"takes a torch\.nn\.Module"):
        TrainingOptimizer(device="cpu").optimize_model("v2.0.2")
