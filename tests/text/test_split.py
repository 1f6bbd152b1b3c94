"""Splitting keeps every letter, respects the limit, and cuts where a speaker would breathe."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from utils.text.split import split_quick, split_sentences, split_text

WORDS = st.text(alphabet="abcdefgh.,!?;። 。", max_size=300)


@given(WORDS, st.integers(20, 60))
def test_no_letter_is_lost_and_no_word_cut(text, limit):
    pieces = split_text(text, limit)
    squeezed = "".join(text.split())
    assert "".join("".join(pieces).split()) == squeezed
    words = set(text.replace("።", "። ").replace("。", "。 ").replace(",", ", ").replace(";", "; ").split())
    for piece in pieces:
        assert len(piece) <= limit or max(map(len, words)) > limit


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("One. Two! Three?", 6, ["One.", "Two!", "Three?"]),
        ("One. Two! Three?", 100, ["One. Two! Three?"]),
        ("Pi is 3.14159 about.", 14, ["Pi is 3.14159", "about."]),
        ('He said "Stop." Then he left.', 16, ['He said "Stop."', "Then he left."]),
        ("今天天气很好。我们去公园。", 7, ["今天天气很好。", "我们去公园。"]),
        ("ሰላም ነው። እንዴት ነህ፧ ደህና።", 10, ["ሰላም ነው።", "እንዴት ነህ፧", "ደህና።"]),
        ("كيف حالك؟ أنا بخير۔", 10, ["كيف حالك؟", "أنا بخير۔"]),
        ("Բարև։ Ո՞վ ես։", 8, ["Բարև։", "Ո՞վ ես։"]),
        ("ខ្ញុំ។ អ្នក។", 8, ["ខ្ញុំ។", "អ្នក។"]),
        ("မြန်မာ။ စာ။", 8, ["မြန်မာ။", "စာ။"]),
        ("long clause, then more", 12, ["long clause,", "then more"]),
        ("   ", 10, []),
        ("", 10, []),
    ],
)
def test_pieces(text, limit, pieces):
    assert split_text(text, limit) == pieces


def test_a_word_longer_than_the_limit_stays_whole():
    assert split_text("a " + "x" * 30 + " b", 10) == ["a", "x" * 30, "b"]


@given(WORDS, st.integers(20, 60))
def test_no_letter_is_lost_when_sentences_stand_alone(text, limit):
    squeezed = "".join(text.split())
    for split in (split_sentences, split_quick):
        assert "".join("".join(split(text, limit)).split()) == squeezed


def test_sentences_alone_and_the_first_alone():
    text = "One. Two! Three is longer, and continues."
    assert split_sentences(text, 100) == ["One.", "Two!", "Three is longer, and continues."]
    assert split_quick(text, 100) == ["One.", "Two! Three is longer, and continues."]
    assert split_sentences(text, 20)[2:] == ["Three is longer,", "and continues."]
    assert split_quick("", 20) == split_sentences(" ", 20) == []
