"""The order of clips is what it always was: runs of earlier versions resume in the middle of their epochs."""

import hashlib
import json
from itertools import chain

import numpy as np
import pytest

from utils.training.data.epoch_batches import EpochBatches


def test_a_plan_is_kept_by_checkpoints_in_a_way_that_never_changes():
    assert EpochBatches([40, 50, 60, 45, 55], 2, seed=1).plan_of(0) == "b9f682ec4215841f"
    long = EpochBatches(np.arange(40, 90).repeat(500), 2, seed=1)
    assert long.plan_of(0) == hashlib.sha256(json.dumps(list(long.everywhere(0))).encode()).hexdigest()[:16]


LENGTHS = np.random.default_rng(5).integers(60, 700, 1_234)


@pytest.mark.parametrize("balanced", [False, True])
def test_batches_by_positions_hold_as_many_clips_as_fit(balanced):
    batches, plans = EpochBatches(LENGTHS, 1, seed=3, max_tokens=4_000, balanced=balanced), []
    for epoch in range(2):
        plan = list(batches.everywhere(epoch))
        assert sorted(chain.from_iterable(plan)) == list(range(len(LENGTHS)))
        longest = [-(-LENGTHS[batch].max() // 32) * 32 for batch in plan]
        sizes = [
            LENGTHS[batch].sum() if balanced else most * len(batch) for batch, most in zip(plan, longest, strict=True)
        ]
        assert 0.85 * 4_000 < np.mean(sizes) <= max(sizes) <= 4_000
        assert batches.count(epoch) == len(plan)
        assert batches.most_clips(epoch + 1) >= max(map(len, plan))
        plans.append(plan)
    assert plans[0] != plans[1]
    assert plans == [
        list(EpochBatches(LENGTHS, 9, seed=3, max_tokens=4_000, balanced=balanced)._plan(e)) for e in (0, 1)
    ]
    useful = LENGTHS.sum() / sum(LENGTHS[batch].max() * len(batch) for batch in plans[0])
    assert balanced or useful > 0.85, "clips of like length share a batch"


def test_batches_by_positions_are_the_same_for_any_number_of_processes_and_from_any_place():
    def batches(world: int, rank: int = 0) -> EpochBatches:
        return EpochBatches(LENGTHS, 4, seed=3, max_tokens=3_000, rank=rank, world=world)

    whole = list(batches(1).epoch(1))
    rounds = zip(*(batches(3, rank).epoch(1, start=6) for rank in range(3)), strict=True)
    assert list(chain.from_iterable(rounds))[: len(whole) - 6] == whole[6:]


@pytest.mark.parametrize(
    ("settings", "plan", "own"),
    [
        ({}, "3cb6bd10d7486a6e", "ccbe9d4b6b594aa7"),
        ({"seed": 2}, "3ab420f11ae840a6", "bc46e3aafefbea14"),
        ({"seed": None}, "901f13479a930ff2", "0c0728c4972d0c05"),
        ({"batch_size": 7}, "6b20a95d22448613", "ed6bcd48807346a2"),
        ({"balanced": True}, "f379568031ad3883", "42c07ff009bdf9bf"),
        ({"balanced": True, "batch_size": 3}, "14dae6c167e452f9", "0d7962c8ab2c6474"),
        ({"max_tokens": 4_000}, "72974bf4cf15b457", "bc35d411ac2454d8"),
        ({"max_tokens": 4_000, "balanced": True}, "a784890121781af7", "91af24b1cb21143f"),
        ({"world": 2}, "3cb6bd10d7486a6e", "18a22f10dbefabc6"),
        ({"world": 2, "rank": 1}, "3cb6bd10d7486a6e", "2aa3a8ba6805b77d"),
        ({"world": 2, "rank": 1, "balanced": True}, "f379568031ad3883", "b772b5453a2de43a"),
        ({"world": 2, "rank": 1, "batch_size": 2}, "ae68a7832a06f740", "75855ddd2c00525a"),
    ],
)
def test_plans_never_change(settings, plan, own):
    """An epoch's fingerprint, and the batches of one process; of two processes, after two accumulated steps."""
    lengths = np.random.default_rng(7).integers(60, 700, 1_003)
    batches = EpochBatches(lengths, **{"batch_size": 4, "seed": 1} | settings)
    start = 4 if "world" in settings else 0
    clips = [[clip for _, clip in batch] for epoch in (0, 3) for batch in batches.epoch(epoch, start=start)]
    assert batches.plan_of(3) == plan
    assert hashlib.sha256(json.dumps(clips).encode()).hexdigest()[:16] == own


@pytest.mark.parametrize("settings", [{}, {"balanced": True}, {"max_tokens": 4_000}])
def test_groups_are_drawn_from_anew_in_each_epoch_and_all_else_comes_once(settings):
    lengths = np.random.default_rng(7).integers(60, 700, 160)
    drawn = ((100, 140, 10), (140, 160, 20))
    batches = EpochBatches(lengths, 4, seed=1, drawn=drawn, **settings)
    epochs = [sorted(chain.from_iterable(batches.everywhere(epoch))) for epoch in range(12)]
    for clips in epochs:
        assert len(set(clips)) == len(clips) == batches.num_clips == 130
        assert [clip for clip in clips if clip not in range(100, 140)] == [*range(100), *range(140, 160)]
    assert epochs[0] != epochs[1] and len(set(chain.from_iterable(epochs))) > 155
    again = EpochBatches(lengths, 4, seed=1, drawn=drawn, **settings)
    assert again.everywhere(3) == batches.everywhere(3) and len(again.everywhere(3)) == batches.count(3)
    assert EpochBatches(lengths, 4, seed=1, drawn=[(120, 160, 40)], **settings).plan_of(3) == (
        EpochBatches(lengths, 4, seed=1, **settings).plan_of(3)
    )
