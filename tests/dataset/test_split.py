"""The split is decided by content, keeps its promise over the life of a dataset, and never leaves a set empty."""

import random

import pytest

from utils.dataset.split import assign_splits
from utils.errors import UserError


def _hashes(count: int, first: int = 0) -> list[str]:
    return [f"{n:032x}" for n in range(first, first + count)]


@pytest.mark.parametrize(
    ("count", "fraction", "held_out"),
    [(2, 0.1, 1), (3, 0.9, 2), (5, 0.1, 1), (40, 0.1, 4), (40, 0.25, 10), (2, 0.99, 1)],
)
def test_the_share_is_held_out_and_neither_set_is_empty(count: int, fraction: float, held_out: int) -> None:
    splits = assign_splits(_hashes(count), fraction=fraction, assigned={})
    assert len(splits) == count
    assert list(splits.values()).count("eval") == held_out


def test_the_order_of_the_input_has_no_influence() -> None:
    shuffled = _hashes(50)
    random.Random(1).shuffle(shuffled)
    assert assign_splits(shuffled, fraction=0.2, assigned={}) == assign_splits(_hashes(50), fraction=0.2, assigned={})


def test_no_clip_moves_while_a_dataset_grows() -> None:
    splits = assign_splits(_hashes(10), fraction=0.1, assigned={})
    for count in range(11, 200, 7):
        grown = assign_splits(_hashes(count), fraction=0.1, assigned=splits)
        assert {clip: grown[clip] for clip in splits} == splits
        assert list(grown.values()).count("eval") == round(0.1 * count)
        splits = grown


def test_a_smaller_share_moves_nothing_back() -> None:
    splits = assign_splits(_hashes(10), fraction=0.5, assigned={})
    grown = assign_splits(_hashes(12), fraction=0.1, assigned=splits)
    assert list(grown.values()).count("eval") == 5


def test_an_emptied_set_is_filled_from_new_clips() -> None:
    old = _hashes(3)
    only_train = assign_splits([*old, *_hashes(2, 10)], fraction=0.1, assigned=dict.fromkeys(old, "train"))
    only_eval = assign_splits([*old, *_hashes(2, 10)], fraction=0.9, assigned=dict.fromkeys(old, "eval"))
    assert set(only_train.values()) == set(only_eval.values()) == {"train", "eval"}


@pytest.mark.parametrize(
    ("clips", "assigned", "message"),
    [
        (_hashes(1), {}, "evaluation set would be empty: there is only 1 usable clip"),
        (_hashes(3), dict.fromkeys(_hashes(3), "train"), "evaluation set would be empty: none of the 3"),
        (_hashes(3), dict.fromkeys(_hashes(3), "eval"), "training set would be empty: none of the 3"),
    ],
)
def test_an_empty_set_is_refused(clips: list[str], assigned: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        assign_splits(clips, fraction=0.1, assigned=assigned)
