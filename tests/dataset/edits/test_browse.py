"""Clips are found by kind and words, in an order."""

import pytest

from utils.dataset.edits.browse import find_clips, is_of, kinds
from utils.dataset.storage.report import ClipReport, Flag

NOISY = Flag("noise", "12 dB over silence")


def clip(name: str, seconds: float = 1.0, **values) -> ClipReport:
    values = {"status": "used", "text": name} | values
    return ClipReport(source=f"/in/{name}.wav", clip=f"wavs/{name}.wav", num_samples=int(seconds * 22_050), **values)


CLIPS = [
    clip("b", 2.0, text="The ẞtreet of Istanbul"),
    clip("a", 3.0, flags=(NOISY,), text="the sea"),
    clip("c", 1.0, flags=(NOISY,), accepted=True),
    clip("d", 0.2, status="dropped", reason="too short", detail="0.2 s, at least 0.5 s", flags=(NOISY,)),
    clip("e", 4.0, status="dropped", reason="excluded"),
]


def names(**query) -> str:
    return "".join(found.clip[5] for found in find_clips(CLIPS, **query))


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, "bacde"),
        ({"kind": "used"}, "bac"),
        ({"kind": "dropped"}, "de"),
        ({"kind": "review"}, "a"),
        ({"kind": "flag:noise"}, "a"),
        ({"kind": "reason:too short"}, "d"),
        ({"kind": "reason:"}, ""),
        ({"kind": "no such kind"}, ""),
        ({"words": "THE sea"}, "a"),
        ({"words": "sstreet"}, "b"),
        ({"words": "at least"}, "d"),
        ({"words": "the nothing"}, ""),
        ({"order": "longest"}, "eabcd"),
        ({"order": "shortest"}, "dcbae"),
        ({"order": "name"}, "abcde"),
        ({"order": "text", "kind": "used"}, "cab"),
    ],
)
def test_clips_are_found(query, wanted):
    assert names(**query) == wanted


def test_every_kind_that_is_counted_finds_as_many():
    counts = kinds(CLIPS)
    assert counts == {
        "": 5,
        "used": 3,
        "dropped": 2,
        "review": 1,
        "reason:too short": 1,
        "reason:excluded": 1,
        "flag:noise": 1,
    }
    assert counts == {kind: sum(is_of(clip, kind) for clip in CLIPS) for kind in counts}
    assert kinds([]) == {"": 0}
