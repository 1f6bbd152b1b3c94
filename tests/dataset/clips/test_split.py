"""The split is decided by content, keeps its promise over the life of a dataset, and never leaves a set empty."""

import random
from dataclasses import replace

import pytest

from utils.dataset.clips.existing import assign_splits
from utils.dataset.storage.report import ClipReport
from utils.errors import UserError


def _clip(name: str, speaker: str = "one", recording: str = "", start_s: float = 0.0) -> ClipReport:
    """A clip of a recording, or one that is a recording of its own."""
    clip = ClipReport(source="", status="used", audio_hash=name, speaker=speaker, start_s=start_s)
    return replace(clip, source_hash=recording, end_s=start_s + 5.0) if recording else clip


def _hashes(count: int, first: int = 0) -> list[str]:
    return [f"{n:032x}" for n in range(first, first + count)]


def _sounds(names: list[str]) -> list[ClipReport]:
    """Recordings of their own, of one speaker."""
    return [_clip(name) for name in names]


def _cuts(recording: str, count: int, *, first: int = 0, speaker: str = "one") -> list[ClipReport]:
    """Cuts of one recording, 5 s apart."""
    return [_clip(f"{recording}{n:04}", speaker, recording, 5.0 * n) for n in range(first, first + count)]


@pytest.mark.parametrize(
    ("count", "fraction", "held_out"),
    [(2, 0.1, 1), (3, 0.9, 2), (5, 0.1, 1), (40, 0.1, 4), (40, 0.25, 10), (2, 0.99, 1)],
)
def test_the_share_is_held_out_and_neither_set_is_empty(count, fraction, held_out):
    splits = assign_splits(_sounds(_hashes(count)), fraction=fraction, assigned={})
    assert len(splits) == count
    assert list(splits.values()).count("eval") == held_out


def test_the_order_of_the_input_has_no_influence():
    shuffled = _hashes(50)
    random.Random(1).shuffle(shuffled)
    assert assign_splits(_sounds(shuffled), fraction=0.2, assigned={}) == assign_splits(
        _sounds(_hashes(50)), fraction=0.2, assigned={}
    )


def test_no_clip_moves_while_a_dataset_grows():
    splits = assign_splits(_sounds(_hashes(10)), fraction=0.1, assigned={})
    for count in range(11, 200, 7):
        grown = assign_splits(_sounds(_hashes(count)), fraction=0.1, assigned=splits)
        assert {clip: grown[clip] for clip in splits} == splits
        assert list(grown.values()).count("eval") == round(0.1 * count)
        splits = grown


def test_a_smaller_share_moves_nothing_back():
    splits = assign_splits(_sounds(_hashes(10)), fraction=0.5, assigned={})
    grown = assign_splits(_sounds(_hashes(12)), fraction=0.1, assigned=splits)
    assert list(grown.values()).count("eval") == 5


def test_an_emptied_set_is_filled_from_new_clips():
    old = _hashes(3)
    only_train = assign_splits(_sounds([*old, *_hashes(2, 10)]), fraction=0.1, assigned=dict.fromkeys(old, "train"))
    only_eval = assign_splits(_sounds([*old, *_hashes(2, 10)]), fraction=0.9, assigned=dict.fromkeys(old, "eval"))
    assert set(only_train.values()) == set(only_eval.values()) == {"train", "eval"}


@pytest.mark.parametrize(
    ("clips", "assigned", "message"),
    [
        (_hashes(1), {}, "evaluation set would be empty: there is only 1 usable clip"),
        (_hashes(3), dict.fromkeys(_hashes(3), "train"), "evaluation set would be empty: none of the 3"),
        (_hashes(3), dict.fromkeys(_hashes(3), "eval"), "training set would be empty: none of the 3"),
    ],
)
def test_an_empty_set_is_refused(clips, assigned, message):
    with pytest.raises(UserError, match=message):
        assign_splits(_sounds(clips), fraction=0.1, assigned=assigned)


def test_cuts_of_one_recording_stay_together_when_there_are_others():
    recordings = {name: _cuts(name, count) for name, count in (("a", 6), ("b", 4), ("c", 30), ("d", 3), ("e", 40))}
    clips = [clip for found in recordings.values() for clip in found]
    splits = assign_splits(clips, fraction=0.1, assigned={})
    mixed = [name for name, found in recordings.items() if len({splits[clip.audio_hash] for clip in found}) > 1]
    assert list(splits.values()).count("eval") == 8
    assert len(mixed) <= 1, "at most one recording is parted"


def test_of_a_single_recording_a_stretch_is_held_out():
    clips = _cuts("a", 50)
    splits = assign_splits(clips, fraction=0.1, assigned={})
    held_out = [n for n, clip in enumerate(clips) if splits[clip.audio_hash] == "eval"]
    assert len(held_out) == 5
    assert held_out == list(range(held_out[0], held_out[0] + 5)), "one stretch"
    assert held_out[0] > 0 and held_out[-1] < 49


def test_new_cuts_go_where_their_neighbours_are():
    splits = assign_splits(_cuts("a", 20), fraction=0.2, assigned={})
    between = [_clip(f"new{n}", "one", "a", 5.0 * n + 1) for n in range(20)]
    grown = assign_splits([*_cuts("a", 20), *between], fraction=0.2, assigned=splits)
    assert [grown[clip.audio_hash] for clip in between] == [splits[clip.audio_hash] for clip in _cuts("a", 20)]
    later = assign_splits(_cuts("a", 200), fraction=0.2, assigned=splits)
    assert list(later.values()).count("eval") == 4, "what follows the recording does not all follow the held-out part"


def test_each_speaker_gives_its_share():
    clips = [clip for name in "abc" for clip in _sounds_of(name, 20)] + _sounds_of("d", 3)
    splits = assign_splits(clips, fraction=0.1, assigned={})
    counts = {name: sum(splits[c.audio_hash] == "eval" for c in clips if c.speaker == name) for name in "abcd"}
    assert counts == {"a": 2, "b": 2, "c": 2, "d": 0}


def _sounds_of(speaker: str, count: int) -> list[ClipReport]:
    return [_clip(f"{speaker}{n:04}", speaker) for n in range(count)]
