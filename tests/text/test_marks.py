"""Pauses and languages in a text, and what is no mark."""

import pytest

from utils.errors import UserError
from utils.text.marks import Part, has_words, is_open, last_voice, read_marks, voices_in
from utils.text.split import PAUSE_S, SENTENCE_PAUSE_S, pause_after


def test_plain_text_stays_as_it_is():
    for text in ("Hello.", "", "a < b and [brackets]", "<b>bold</b>", "[pauses are good]"):
        assert read_marks(text) == [Part(text)]


def test_pauses_in_plain_text():
    assert read_marks("One [pause 0.5] two<break time='300ms'/> three[pause]") == [
        Part("One ", pause_s=0.5),
        Part(" two", pause_s=0.3),
        Part(" three", pause_s=0.4),
    ]
    assert read_marks('One<break strength="strong"/> two') == [Part("One", pause_s=0.7), Part(" two")]


def test_ssml():
    text = """<speak xml:lang="en"><p><s>One.</s> <s>Two.</s></p>
      Three <lang xml:lang="de">vier</lang> five<break time="2s"/></speak>"""
    parts = [(part.text.split(), part.language, part.pause_s) for part in read_marks(text)]
    assert parts == [
        (["One."], "en", 0.3),
        (["Two."], "en", 0.6),
        (["Three"], "en", None),
        (["vier"], "de", None),
        (["five"], "en", 2.0),
    ]


def test_voices():
    parts = [(part.text.strip(), part.voice, part.pause_s) for part in read_marks(
        "One. [voice: Maria Luz] Two. [pause 0.5][Voice:ben]Three.[ voice : Default ] Four."
    )]  # fmt: skip
    assert parts == [("One.", "", None), ("Two.", "Maria Luz", 0.5), ("Three.", "ben", None), ("Four.", "", None)]
    text = """<speak>One. <voice name="Maria Luz">Two. <s>Three.</s><voice name="default">Four.</voice> Five.</voice>
      Six.</speak>"""
    assert [(" ".join(part.text.split()), part.voice) for part in read_marks(text)] == [
        ("One.", ""),
        ("Two. Three.", "Maria Luz"),
        ("Four.", ""),
        ("Five.", "Maria Luz"),
        ("Six.", ""),
    ]
    assert voices_in(text) == {"Maria Luz"} and voices_in("<speak>[") == voices_in("No [voice] mark.") == set()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<speak>One", "not well-formed"),
        ("<speak>One <emphasis>two</emphasis></speak>", "<emphasis> is not supported"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><speak>&a;</speak>', None),
        ('<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "b">]><speak>&a;</speak>', "declarations"),
        ("One [pause soon] two", "a pause is 'soon'"),
        ("One [pause -1] two", "a pause is '-1'"),
        ("One [pause 11] two", "a pause is '11'"),
        ('One <break time="99999ms"/> two', "a pause is '99999'"),
        ('One <break strength="huge"/> two', "strength is 'huge'"),
        ("One [pause nan] two", "a pause is 'nan'"),
        ("One. [voice: ben It is me.", r"'\[voice: ben It is me\.' is no mark"),
        ("One. [voice: ben It. [voice: eve] Two.", r"'\[voice: ben It\. "),
        ("One. [Voice ben] Two.", r"'\[Voice ben\]' is no mark"),
        ("One. [ voice=ben] Two.", r"'\[ voice=ben\]' is no mark"),
        ("One. [voice: ] Two.", r"'\[voice: \]'.*\n.*write \[voice: NAME\]"),
        ("[voice: ben] One. [/voice] Two.", r"'\[/voice\]' is no mark"),
        ("<speak>[voice: ben] One.</speak>", r"'\[voice: ben\]'.*\n.*<voice name="),
        ("<speak><voice>One.</voice></speak>", "<voice> has no name"),
        ("<speak><voice Name='ben'>One.</voice></speak>", "<voice> has no name"),
        ("<speak><voice gender='female' name=' '>One.</voice></speak>", "<voice> has no name"),
    ],
)
def test_bad_marks_are_refused_by_name(text, words):
    if words is None:
        assert read_marks(text) == [Part(text)]  # it does not begin as SSML: the letters are spoken
        return
    with pytest.raises(UserError, match=words):
        read_marks(text)


def test_the_last_voice_of_a_part_is_known():
    assert last_voice("[voice: ben] One. [ Voice: Maria Luz ] Two. [pause]") == "[ Voice: Maria Luz ]"
    assert last_voice("One. [pause]") == ""
    assert not has_words("[voice: ben] [pause 1] \N{GRINNING FACE}") and has_words("[voice: ben] No.")


def test_what_cannot_be_read_before_its_end_is_known():
    assert all(map(is_open, ("<speak>One.", " <?xml version='1.0'?>", "One. [voice: Dr.", "One. [ VOICE")))
    assert not any(map(is_open, ("One. [voice: ben] Two.", "One. [", "One <speak>", "[voices")))


def test_pause_by_punctuation():
    assert [pause_after(text) for text in ("End.", 'She said: "No!"', "first,", "a word", "", "终。")] == [
        SENTENCE_PAUSE_S,
        SENTENCE_PAUSE_S,
        PAUSE_S,
        0.0,
        0.0,
        SENTENCE_PAUSE_S,
    ]
