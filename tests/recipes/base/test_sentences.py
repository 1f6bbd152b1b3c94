"""The grammar makes varied English, the same each time, and inflects it right."""

import re
from collections import Counter
from itertools import islice

import pytest

from recipes.base.inflect import plural, split_forms, with_articles
from recipes.base.sentences import MAX_CHARACTERS, MAX_WORDS, MIN_WORDS, SentenceMaker
from utils.project.paths import assets_folder


def test_the_same_seed_gives_the_same_sentences_and_another_does_not():
    first, again, other = (list(islice(SentenceMaker(seed=seed), 50)) for seed in (1, 1, 2))
    assert first == again
    assert len(set(first) & set(other)) < 5


def test_sentences_are_distinct_complete_and_within_bounds():
    sentences = list(islice(SentenceMaker(seed=3), 2000))
    assert len({sentence.lower() for sentence in sentences}) == 2000
    for sentence in sentences:
        assert MIN_WORDS <= len(sentence.split()) <= MAX_WORDS
        assert len(sentence) <= MAX_CHARACTERS
        assert re.fullmatch(r"[A-Z][A-Za-z',.:;?! -]*[.?!]", sentence), sentence
        assert "<" not in sentence and "  " not in sentence


def test_no_word_of_the_lexicon_is_rare():
    """Words are dealt like cards: of the frequent ones, none crowds out the rest."""
    words = Counter(
        word for text in islice(SentenceMaker(seed=4), 3000) for word in re.findall(r"[a-z']+", text.lower())
    )
    assert len(words) > 1500
    assert sum(count == 1 for count in words.values()) < 0.35 * len(words)


def test_the_demo_voices_own_held_out_sentences_are_not_held_against_it():
    metadata = (assets_folder() / "demo_voice" / "metadata.csv").read_text(encoding="utf-8").lower()
    lines = (assets_folder() / "demo_heldout.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.lower() in metadata] == []


@pytest.mark.parametrize(
    ("noun", "expected"),
    [("cat", "cats"), ("box", "boxes"), ("church", "churches"), ("city", "cities"), ("boy", "boys")],
)
def test_plurals(noun, expected):
    assert plural(noun) == expected
    assert plural("mouse", "mice") == "mice"


@pytest.mark.parametrize(
    ("entry", "third", "past", "participle", "progressive"),
    [
        ("walk", "walks", "walked", "walked", "walking"),
        ("stop+", "stops", "stopped", "stopped", "stopping"),
        ("carry", "carries", "carried", "carried", "carrying"),
        ("make:made:made", "makes", "made", "made", "making"),
        ("go:went:gone", "goes", "went", "gone", "going"),
        ("lie:lay:lain", "lies", "lay", "lain", "lying"),
        ("see:saw:seen", "sees", "saw", "seen", "seeing"),
        ("watch over", "watches over", "watched over", "watched over", "watching over"),
    ],
)
def test_verbs(entry, third, past, participle, progressive):
    forms = split_forms(entry)
    assert (forms["3"], forms["past"], forms["pp"], forms["ing"]) == (third, past, participle, progressive)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a(n) apple", "an apple"),
        ("A(n) hour", "An hour"),
        ("a(n) university", "a university"),
        ("a(n) one-eyed cat", "a one-eyed cat"),
        ("a(n) umbrella", "an umbrella"),
        ("a(n) house", "a house"),
    ],
)
def test_articles_go_by_sound(text, expected):
    assert with_articles(text) == expected
