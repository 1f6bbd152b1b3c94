"""Which weights decay, and the learning rate's course."""

import pytest

from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.options import LrSchedule, Schedule
from utils.training.switches.optim import make_optimizer


def test_only_matrices_decay() -> None:
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


def test_schedules_by_optimizer_step() -> None:
    assert rates("constant", warmup=0, total=4, steps=4) == [1, 1, 1, 1]
    assert rates("linear", warmup=0, total=4, steps=5) == [1, 0.75, 0.5, 0.25, 0]
    assert rates("cosine", warmup=0, total=4, steps=5) == pytest.approx([1, 0.853553, 0.5, 0.146447, 0], abs=1e-6)
    assert rates("polynomial", warmup=0, total=4, steps=5) == [1, 0.5625, 0.25, 0.0625, 0]


def test_warmup_rises_then_falls_and_never_below_zero() -> None:
    assert rates("linear", warmup=3, total=5, steps=7) == [0.25, 0.5, 0.75, 1, 0.5, 0, 0]
    assert rates("cosine", warmup=9, total=3, steps=4) == [0.1, 0.2, 0.3, 0.4]
