"""Weights in 8 bits: what they lose, what is left alone, and that nothing notices but the file's size."""

import pytest
import torch
from safetensors.torch import load_file

from utils.bases.find import find_base
from utils.errors import UserError
from utils.model.eight_bit import GROUP, LEAST, from_eight_bit, to_eight_bit
from utils.model.weights import SPEAKER_PREFIX, read_weights, write_weights


def _state() -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    return {
        # Rows of very different sizes, and a length that is no multiple of a group.
        "table": torch.randn(131, 77, generator=random) * torch.logspace(-4, 1, 131)[:, None],
        "zeros": torch.zeros(LEAST),
        "norm": torch.randn(LEAST - 1, generator=random),
        "statistics": torch.randn(2 * LEAST, generator=random),
        "count": torch.arange(2 * LEAST),
    }


def test_no_value_is_off_by_more_than_half_a_step_of_its_group(tmp_path):
    state = _state()
    write_weights(tmp_path / "w.safetensors", to_eight_bit(state, exact=lambda name: name == "statistics"))
    read = read_weights(tmp_path / "w.safetensors")
    assert {name: (t.shape, t.dtype) for name, t in read.items()} == {
        name: (t.shape, torch.float16 if name in ("table", "zeros") else t.dtype) for name, t in state.items()
    }
    for name in ("zeros", "norm", "statistics", "count"):
        assert torch.equal(read[name].float(), state[name].float()), name
    for values, group in zip(read["table"].flatten().split(GROUP), state["table"].flatten().split(GROUP), strict=True):
        # Half a step, and float16's own rounding of the scale and of the value.
        assert (values.float() - group).abs().max() <= group.abs().max() * (0.5 / 127 + 2**-9) + 2**-17


def test_what_was_read_is_stored_alike_again():
    once = to_eight_bit(_state(), exact=lambda name: False)
    again = to_eight_bit(from_eight_bit(once), exact=lambda name: False)
    assert all(torch.equal(again[name], tensor) for name, tensor in once.items() if name.endswith(".int8"))


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_values_without_their_scales_are_refused(tmp_path, damage):
    stored = to_eight_bit(_state(), exact=lambda name: False)
    scales = stored.pop("table.scales")
    if damage == "short":
        stored["table.scales"] = scales[:-1].clone()
    write_weights(tmp_path / "w.safetensors", stored)
    with pytest.raises(UserError, match=r"table\.int8 has no scales that fit"):
        read_weights(tmp_path / "w.safetensors")


def test_the_starter_is_stored_in_8_bits_but_for_what_that_harms():
    base = find_base("starter")
    stored = load_file(base.weights)
    assert not any(t.numel() >= LEAST and t.is_floating_point() and not name.startswith(SPEAKER_PREFIX)
                   for name, t in stored.items() if not name.endswith(".scales"))  # fmt: skip
    assert all(t.dtype != torch.int8 for name, t in stored.items() if name.startswith(SPEAKER_PREFIX))
    assert stored["mel_stats"].dtype == torch.float32
    assert {t.dtype for name, t in base.state().items() if name.startswith("gpt.")} == {torch.float16}
