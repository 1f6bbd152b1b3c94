"""LoRA: the model starts unchanged, only the additions learn, and merged weights speak like the adapted model."""

import pytest
import torch

from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.lora import adapter_state, add_lora, load_adapter, low_rank_pairs, merged_state
from utils.model.mel import conditioning_mel
from utils.model.packing import pack


def make_gpt() -> XttsGpt:
    return load_gpt(find_base("tiny"), ForwardOptions(sdpa=True, dropout=0.0)).train()


def losses(gpt: XttsGpt) -> torch.Tensor:
    texts, codes = [torch.arange(21, 40)], [torch.arange(40)]
    out = gpt(pack(texts, codes, gpt.shape), torch.ones(1, 80, 20))
    return torch.stack([out.text, out.codes])


def adapted(steps: int = 3) -> XttsGpt:
    """A model whose additions have learned something."""
    torch.manual_seed(0)
    gpt = add_lora(make_gpt(), rank=4)
    optimizer = torch.optim.AdamW([p for p in gpt.parameters() if p.requires_grad], lr=0.05)
    for _ in range(steps):
        losses(gpt).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return gpt


def test_a_model_with_fresh_additions_computes_what_it_did():
    torch.testing.assert_close(losses(add_lora(make_gpt(), rank=4)), losses(make_gpt()))


def test_only_additions_learn_in_all_four_projections():
    gpt = add_lora(make_gpt(), rank=4)
    learning = [name for name, parameter in gpt.named_parameters() if parameter.requires_grad]
    assert all(".lora_" in name for name in learning)
    assert len(learning) == gpt.shape.layers * 4 * 2


def test_merged_weights_have_the_usual_names_and_compute_the_same():
    gpt, plain = adapted(), make_gpt()
    before, after = losses(plain), losses(gpt)
    merged = merged_state(gpt)
    assert set(merged) == set(plain.state_dict())
    plain.load_state_dict(merged)
    torch.testing.assert_close(losses(plain), after, rtol=1e-4, atol=1e-4)
    assert (after - before).abs().max() > 0.1


def test_merging_and_hearing_have_no_tf32(monkeypatch):
    """On Ampere and newer, training's products of float32 numbers are rounded to 10 bits."""
    from peft.tuners.lora import Linear as LoraLinear  # takes seconds to load

    seen, delta, mel = [], LoraLinear.get_delta_weight, conditioning_mel(torch.ones(80))

    def note(*_: object) -> None:
        seen.append(torch.backends.cuda.matmul.fp32_precision)

    monkeypatch.setattr(LoraLinear, "get_delta_weight", lambda *args: (note(), delta(*args))[1])
    mel.spectrogram.register_forward_hook(note)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        gpt = adapted(steps=1)
        merged_state(gpt)
        mel(torch.zeros(1, 22_050))
        note()
    finally:
        torch.set_float32_matmul_precision(before)
    assert seen == [*["ieee"] * (gpt.shape.layers * 4 + 1), "tf32"]


def test_merging_leaves_the_training_model_as_it_is():
    gpt = adapted()
    before = {name: tensor.clone() for name, tensor in gpt.state_dict().items()}
    merged_state(gpt)
    assert all(torch.equal(tensor, before[name]) for name, tensor in gpt.state_dict().items())


def test_additions_come_back_from_their_own_file():
    gpt, fresh = adapted(), add_lora(make_gpt(), rank=4)
    load_adapter(fresh, adapter_state(gpt))
    torch.testing.assert_close(losses(fresh), losses(gpt))
    with pytest.raises(AssertionError, match="another model"):
        load_adapter(add_lora(make_gpt(), rank=4), {})


def test_rounding_moves_no_sum_by_more_than_float16_does():
    down, up = torch.randn(8, 64), 1e-6 * torch.randn(96, 8)
    names = ("gpt.h.0.attn.c_attn.lora_A.default.weight", "gpt.h.0.attn.c_attn.lora_B.default.weight")
    ((first, second),) = low_rank_pairs(dict(zip(names, (down, up), strict=True)), torch.float16).values()
    exact, found = 2 * down.double().T @ up.double().T, first.double().T @ second.double()
    # 1e-6 itself has four bits in float16.
    assert (found - exact).norm() / exact.norm() < 5e-4
