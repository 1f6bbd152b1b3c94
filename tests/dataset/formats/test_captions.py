"""Captions as the web writes them give each spoken word once, at its time, and nothing that is not spoken."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from utils.dataset.formats.cues import Cue, parse_cues, spoken_once, without_descriptions

LINES = ["good morning everyone", "the train leaves at seven", "and it is never late", "have you measured it"]


def _clock(seconds: float, mark: str) -> str:
    return f"00:{int(seconds) // 60:02}:{int(seconds) % 60:02}{mark}{round(seconds % 1 * 1_000):03}"


def rolling(lines: list[str], kind: str, *, tags: bool = False) -> str:
    """Captions of two lines as a video site writes them: each line stands in three cues, one of them 10 ms long."""
    mark = "." if kind == ".vtt" else ","
    content, shown = "WEBVTT\nKind: captions\nLanguage: en\n\n" if kind == ".vtt" else "", " "
    for number, line in enumerate(lines):
        first, *words = line.split()
        times = [_clock(2.5 * number + 0.1 * at, ".") for at in range(1, len(words) + 1)]
        timed = first + "".join(f"<{at}><c> {word}</c>" for at, word in zip(times, words, strict=True))
        start, end = 2.5 * number + 0.16, 2.5 * number + 2.65
        for a, b, text in ((start, end, f"{shown}\n{timed if tags else line}"), (end, end + 0.01, f"{line}\n ")):
            content += f"{_clock(a, mark)} --> {_clock(b, mark)} align:start position:0%\n{text}\n\n"
        shown = line
    return content


@pytest.mark.parametrize(("kind", "tags"), [(".vtt", True), (".vtt", False), (".srt", False)])
def test_each_line_of_rolling_captions_is_there_once_at_its_time(kind, tags):
    cues = spoken_once(parse_cues(rolling(LINES, kind, tags=tags), kind))
    assert [cue.text for cue in cues] == LINES
    assert [cue.start_s for cue in cues] == pytest.approx([0.16, 2.66, 5.16, 7.66])
    assert all(cue.end_s <= after.start_s for cue, after in pairwise(cues))


def _cues(texts: list[str], *, step_s: float = 1.0, length_s: float = 1.0) -> list[Cue]:
    return [
        Cue(place=f"cue {n}", start_s=n * step_s, end_s=n * step_s + length_s, text=text, lines=(text,))
        for n, text in enumerate(texts)
    ]


def test_captions_that_grow_word_by_word_add_only_what_is_new():
    texts = ["good morning dear", "good morning dear friends", "good morning dear friends of ours"]
    assert [cue.text for cue in spoken_once(_cues(texts))] == ["good morning dear", "friends", "of ours"]


def test_cues_that_last_into_the_next_end_where_it_begins_in_any_order():
    cues = _cues(LINES, step_s=2, length_s=4)
    assert [(cue.start_s, cue.end_s) for cue in spoken_once(cues[::-1])][::-1] == [(0, 2), (2, 4), (4, 6), (6, 10)]


@pytest.mark.parametrize("texts", [["Stop!", "Stop!"], ["No.", "No. I will not."], ["Yes.", "No.", "Yes."]])
def test_what_people_say_twice_stays(texts):
    assert [cue.text for cue in spoken_once(_cues(texts))] == texts


word = st.text(alphabet="abcdefgh", min_size=3, max_size=8)


@given(st.lists(word, min_size=4, max_size=40, unique=True), st.data(), st.sampled_from([".vtt", ".srt"]))
def test_no_word_of_rolling_captions_comes_twice_or_is_lost(words, data, kind):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(words) - 1), min_size=1)))
    lines = [" ".join(words[a:b]) for a, b in zip([0, *cuts], [*cuts, len(words)], strict=True)]
    found = spoken_once(parse_cues(rolling(lines, kind, tags=data.draw(st.booleans())), kind))
    assert " ".join(cue.text for cue in found).split() == words


SPOKEN = {
    "[Music]\nGood morning!": "Good morning!",
    "- Have you measured it?": "Have you measured it?",
    "JOY: Joy brought her violin.": "Joy brought her violin.",
    "♪ Nothing pleases Uncle George. ♪": "Nothing pleases Uncle George.",
    "(laughs) We walk.": "We walk.",
    "&gt;&gt; DR. LEE: Hello.": "Hello.",
    ">> Hello there.": "Hello there.",
    "<i>[door opens]</i>\n<b>- Come in.</b>": "Come in.",
    "{\\an8}*sighs* Well.": "Well.",
    "（拍手）你好。": "你好。",
    "At 10:30, remember: never go.": "At 10:30, remember: never go.",
    "Remember: never go.": "Remember: never go.",
}


@pytest.mark.parametrize("written", SPOKEN)
def test_what_is_not_spoken_is_removed_and_named(written):
    content = f"1\n00:00:00,000 --> 00:00:02,000\n{written}\n"
    cues, removed = without_descriptions(parse_cues(content, ".srt"))
    assert [cue.text for cue in cues] == [SPOKEN[written]]
    assert bool(removed) == any(mark in written for mark in ("[", "(", "（", "♪", "*", "JOY", "LEE"))


def test_a_name_that_begins_several_cues_is_a_label():
    cues, removed = without_descriptions(_cues(["Anna: word", "Anna: more"]))
    assert ([cue.text for cue in cues], removed) == (["word", "more"], ["Anna:"])


def test_a_cue_of_nothing_else_stays_to_keep_its_neighbors_apart():
    (cue,), removed = without_descriptions(_cues(["[Music]"]))
    assert (cue.text, removed) == ("", ["[Music]"]) and spoken_once([cue]) == [cue]
