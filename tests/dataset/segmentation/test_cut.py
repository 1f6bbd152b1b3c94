"""No cut outside a pause, no unit lost, clips within the limits; what cannot be cut is said."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from utils.audio.voice_activity import Pause
from utils.dataset.formats.cues import Cue
from utils.dataset.segmentation.cut import Cut, CutLengths, cut_units, ends_sentence, joined_text

LIMITS = CutLengths()


def _unit(start: float, end: float, text: str = "Some words.", **more: str) -> Cue:
    return Cue(start_s=start, end_s=end, text=text, place=f"cue {start}", **more)


def _faults(cuts: list[Cut]) -> list[str]:
    return [cut.fault.reason if cut.fault else "" for cut in cuts]


def test_short_cues_are_merged_up_to_a_sentence_end():
    units = [_unit(0, 1.4, "First"), _unit(1.6, 3, "is done."), _unit(3.4, 5, "Second"), _unit(5.2, 7, "too.")]
    pauses = [Pause(1.4, 1.6), Pause(3.0, 3.4), Pause(5.0, 5.2)]
    cuts = cut_units(units, pauses, duration_s=7, limits=CutLengths(longest_s=5))
    assert [cut.text for cut in cuts] == ["First is done.", "Second too."]
    assert (cuts[0].end_s, cuts[1].start_s) == (3.2, 3.2), "each keeps its half of the pause"


def test_padding_ends_in_the_pause():
    cuts = cut_units([_unit(1, 4), _unit(6, 9)], [Pause(0, 1), Pause(4, 6)], duration_s=9, limits=LIMITS)
    assert [(cut.start_s, cut.end_s) for cut in cuts] == [(0.75, 4.25), (5.75, 9.0)]


def test_a_cue_that_ends_in_mid_word_is_cut_at_the_pause_near_it():
    cuts = cut_units([_unit(0, 3.1), _unit(3.1, 9)], [Pause(3.3, 3.7)], duration_s=9, limits=CutLengths(longest_s=7))
    assert [(cut.start_s, cut.end_s) for cut in cuts] == [(0.0, 3.5), (3.5, 9.0)]


def test_without_a_pause_cues_stay_together_or_are_reported():
    (cut,) = cut_units([_unit(0, 3), _unit(3, 6)], [], duration_s=6, limits=LIMITS)
    assert (cut.start_s, cut.end_s, cut.fault) == (0.0, 6.0, None)
    (cut,) = cut_units([_unit(0, 8), _unit(8, 16)], [], duration_s=16, limits=LIMITS)
    assert cut.fault and cut.fault.reason == "too long" and len(cut.units) == 2
    cuts = cut_units([_unit(2, 6)], [], duration_s=20, limits=LIMITS)
    assert _faults(cuts) == ["no pause"]


def test_impossible_cues_are_reported_and_the_others_used():
    units = [_unit(0, 4), _unit(8, 7), _unit(10, 14), _unit(12, 16), _unit(20, 24), _unit(40, 45), _unit(26, 29, "♪")]
    pauses = [Pause(4, 5), Pause(9, 10), Pause(16, 20), Pause(24, 26)]
    cuts = cut_units(units, pauses, duration_s=30, limits=LIMITS)
    assert _faults(cuts) == ["", "bad times", "bad times", "bad times", "", "empty text", "bad times"]
    assert "overlaps it by 2.00 s" in cuts[2].fault.detail  # type: ignore[union-attr]


def test_a_cue_at_a_negative_time_and_one_beyond_the_end():
    assert _faults(cut_units([_unit(-2, 3)], [], duration_s=9, limits=LIMITS)) == ["bad times"]
    (cut,) = cut_units([_unit(5, 9.4)], [Pause(4.5, 5)], duration_s=9, limits=LIMITS)
    assert not cut.fault and cut.end_s == 9.0, "a little too late is the end of the recording"


def test_speakers_do_not_share_a_clip():
    units = [_unit(0, 3, speaker="a"), _unit(3.4, 6, speaker="b")]
    cuts = cut_units(units, [Pause(3, 3.4)], duration_s=6, limits=LIMITS)
    assert [cut.speaker for cut in cuts] == ["a", "b"]


def test_a_lonely_short_cue_is_reported():
    cuts = cut_units([_unit(5, 6)], [Pause(4, 5), Pause(6, 7)], duration_s=20, limits=LIMITS)
    assert _faults(cuts) == ["too short"]


def test_a_long_cue_is_split_where_text_and_sound_pause():
    text = "አንድ ሁለት ሦስት አራት አምስት። ስድስት ሰባት ስምንት ዘጠኝ አሥር።"
    cuts = cut_units([_unit(0, 16, text)], [Pause(8.0, 8.4)], duration_s=16, limits=LIMITS)
    assert [cut.text for cut in cuts] == ["አንድ ሁለት ሦስት አራት አምስት።", "ስድስት ሰባት ስምንት ዘጠኝ አሥር።"]
    assert [cut.end_s for cut in cuts] == [8.2, 16.0]


def test_a_long_cue_is_not_split_where_it_is_not_clear_what_belongs_where():
    pauses = [Pause(7.6, 7.9), Pause(8.2, 8.5)]
    text = "One two three four five. Six seven eight nine ten."
    assert _faults(cut_units([_unit(0, 16, text)], pauses, duration_s=16, limits=LIMITS)) == ["too long"]


def test_sentence_ends_of_every_script():
    assert all(map(ends_sentence, ["a.", "a!”", "a?", "你好。", "你好。」", "هل؟", "वह है।", "ሰላም።", "well…"]))
    assert not any(map(ends_sentence, ["a,", "ሰላም", "你好，", "3.14 is"]))


def test_texts_join_as_their_script_does():
    assert joined_text(["Hello", "there."]) == "Hello there."
    assert joined_text(["你好，", "世界。"]) == "你好，世界。"
    assert joined_text(["", "only"]) == "only"


@st.composite
def _recordings(draw: st.DrawFn) -> tuple[list[Cue], list[Pause], float]:
    lengths = draw(st.lists(st.tuples(st.floats(0.3, 14), st.floats(0.0, 2.0)), min_size=1, max_size=25))
    units, pauses, at = [], [], 0.0
    for length, gap in lengths:
        wrong = draw(st.floats(-0.3, 0.3))
        units.append(_unit(max(0.0, at + wrong), at + length + wrong))
        at += length
        if gap > 0.16:
            pauses.append(Pause(at, at + gap))
        at += gap
    return draw(st.permutations(units)), pauses, at


@given(_recordings())
def test_every_unit_comes_out_once_and_every_cut_lies_in_a_pause(given):
    units, pauses, duration = given
    cuts = cut_units(units, pauses, duration_s=duration, limits=LIMITS)
    places = [unit.place for cut in cuts for unit in cut.units]
    assert sorted(places) == sorted(unit.place for unit in units)
    used = [cut for cut in cuts if not cut.fault]
    for cut in used:
        assert (
            LIMITS.shortest_s <= cut.end_s - cut.start_s + 0.002 and cut.end_s - cut.start_s <= LIMITS.longest_s + 0.002
        )
        for edge in (cut.start_s, cut.end_s):
            in_pause = any(pause.start_s - 0.002 <= edge <= pause.end_s + 0.002 for pause in pauses)
            assert in_pause or edge < 0.002 or edge > duration - 0.002
    assert all(a.end_s <= b.start_s + 0.002 for a, b in pairwise(used))
