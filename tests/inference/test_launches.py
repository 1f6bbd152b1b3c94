"""A step of the decode engine on a GPU, counted with fake tensors: how many kernels, and nothing that waits."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.launches import FULL, Launches
from utils.inference import decode as module
from utils.inference.cached_attention import attend_at_once
from utils.inference.decode import Decoder
from utils.model.gpt import XttsGpt


@pytest.mark.parametrize("is_greedy", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("precision", "most"), [("fp32", 420), ("bf16", 480)])
def test_a_code_of_eight_sentences_takes_few_kernels_and_waits_for_nothing(monkeypatch, precision, most, is_greedy):
    monkeypatch.setattr(Decoder, "_capture_all", lambda self: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(module, "has_flash_attention", lambda *_: True)
    with FakeTensorMode(), torch.device("cuda"):
        decoder = Decoder(XttsGpt(FULL).eval().requires_grad_(False), slots=8, precision=precision)
        with torch.inference_mode(), Launches() as launches:
            attend = attend_at_once(decoder._cache, decoder._positions, length=256, is_ragged=decoder._is_ragged)
            decoder._advance(8, attend, is_greedy)
    assert launches.waits == []
    attention = "scaled_dot_product_attention" if precision == "fp32" else "_flash_attention_forward"
    assert launches.kernels[attention] == FULL.layers
    assert launches.kernels["addmm"] == 4 * FULL.layers
    assert launches.kernels.total() <= most, launches.kernels


def test_a_value_of_the_host_would_be_seen():
    with FakeTensorMode(), torch.device("cuda"), torch.inference_mode(), Launches() as launches:
        seen = torch.zeros(8, 4, dtype=torch.bool)
        seen[torch.arange(8), torch.zeros(8, dtype=torch.long)] = True
    assert launches.waits
