"""Amharic sentences with what they must become, numbers beside each other, and sounds that can be turned back."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from utils.bases.find import find_base
from utils.text.amharic.normalize import normalize_amharic
from utils.text.amharic.numbers import cardinal, geez_value
from utils.text.amharic.sounds import _LATIN, _VOWELS, to_ipa, to_latin, to_latin_text

ROWS = Path(__file__).with_name("sentences.tsv").read_text(encoding="utf-8").splitlines()
SENTENCES = [tuple(row.split("\t")) for row in ROWS]
FIDEL = [chr(code) for code in range(0x1200, 0x135B) if chr(code).isalpha()]


def test_there_are_sixty_sentences():
    assert len(SENTENCES) >= 60 and all(len(pair) == 2 for pair in SENTENCES)


@pytest.mark.parametrize(("written", "expected"), SENTENCES)
def test_sentences(written, expected):
    assert normalize_amharic(written) == expected
    assert normalize_amharic(expected) == expected, "twice is once"


@pytest.mark.slow
def test_every_sentence_is_readable_in_its_latin_form():
    tokenizer = find_base("tiny").tokenizer()
    for written, _ in SENTENCES:
        latin = to_latin_text(normalize_amharic(written))
        assert "[UNK]" not in tokenizer.segments(latin), latin


def to_sounds(latin: str) -> str:
    """IPA of one word in its Latin form."""
    sounds = {letter: sound for sound, letter in _LATIN.items() if sound != "t͡sʼ"}
    return "".join(sounds[letter] for letter in ("'" + latin if latin[:1] in _VOWELS else latin))


def test_each_word_of_the_sentences_turns_back():
    for _, expected in SENTENCES:
        # A comma may stand between two words without a space: "9,1000" is two numbers.
        for word in expected.replace(",", " ").split():
            core = word.strip(".,;:?")
            if core and not core.isascii():
                ipa = to_ipa(core)
                assert to_sounds(to_latin(ipa)) == ipa


@pytest.mark.parametrize(
    ("word", "ipa", "latin"),
    [
        ("ሰላም", "səlam", "sälam"),
        ("አበባ", "ʔabəba", "abäba"),
        ("ሀገር", "haɡər", "hagär"),
        ("ጤና", "tʼena", "ťena"),
        ("ቋንቋ", "kʼʷankʼʷa", "qůanqůa"),
        ("ሰአት", "səʔat", "sä'at"),
        ("ኲናት", "kʷinat", "kůinat"),
    ],
)
def test_sounds_of_known_words(word, ipa, latin):
    assert to_ipa(word) == ipa
    assert to_latin(ipa) == latin


def test_any_ethiopic_letter_has_a_latin_form_or_is_left_for_the_check_to_name():
    """One clip with a letter of Bilen must not end the work on a thousand others."""
    tokenizer, left = find_base("tiny").tokenizer(), set()
    for letter in FIDEL:
        latin = to_latin_text(f"ሰ{letter}ም")
        left |= {letter} & set(latin)
        assert "[UNK]" not in tokenizer.segments(latin.replace(letter, "")), latin
    assert left == set("ሇቇኇኯዏዯዸዹዺዻዼዽዾዿጏፇ"), "no letters of Amharic"


def test_numbers_differ_and_hold_no_latin_letter():
    words = [cardinal(value) for value in [*range(2_000), 10**6, 2 * 10**6, 10**9, 10**12, 10**15 - 1]]
    assert len(set(words)) == len(words)
    assert not any(char.isascii() and char.isalpha() for word in words for char in word)


@pytest.mark.parametrize(
    ("numeral", "value"), [("፩", 1), ("፲", 10), ("፻", 100), ("፪፻", 200), ("፼", 10_000), ("፲፪፼፴፬", 120_034)]
)
def test_geez_numerals(numeral, value):
    assert geez_value(numeral) == value


@given(st.text(alphabet=[*FIDEL, " ", "።", "፣", "/", ".", "1", "፻", "ኛ"], max_size=30))
def test_normalising_twice_is_once_whatever_is_written(text):
    once = normalize_amharic(text)
    assert normalize_amharic(once) == once


@given(st.text(alphabet=FIDEL, min_size=1, max_size=12))
def test_no_letter_is_lost(text):
    """Only a labialised letter that was spelled out gets shorter, and by the one letter that it takes in."""
    assert len(normalize_amharic(text)) == len(text) - sum(
        text[at : at + 2] in SPELLED_OUT for at in range(len(text) - 1)
    )


SPELLED_OUT = {first + "ዋ" for first in "ሉሙሩሱሹቁቡቱቹኑኙኩዙዡዱጁጉጡጩፉሁሑኁሡቍኵጕኍ"}
