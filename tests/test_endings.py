"""The benchmark of endings judges a code as speaking would draw it."""

import torch

from benchmarks.endings import drawn
from utils.options import SpeechSettings


def test_a_code_that_was_spoken_is_penalized_from_then_on() -> None:
    logits = torch.tensor([[0.0, -9.0, 4.0, 3.0, -9.0]] * 3)
    plain = SpeechSettings(temperature=1.0, top_p=1.0, repetition_penalty=2.0)
    chances = drawn(logits, torch.tensor([2, 3]), start=4, sampling=plain)
    assert torch.allclose(chances.sum(-1), torch.ones(3))
    best = chances.argmax(-1).tolist()
    assert best == [2, 3, 2], "first the likeliest, then the one that was not spoken, then both are penalized alike"
    cut = drawn(logits, torch.tensor([2, 3]), start=4, sampling=SpeechSettings(top_p=0.5))
    assert (cut[0] > 0).sum() == 1
