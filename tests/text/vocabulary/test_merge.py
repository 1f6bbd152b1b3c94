"""Merges chosen so that each is seen, and no candidate is lost."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as BpeTokenizer

from utils.bases.find import find_base
from utils.text.vocabulary.extend import KNOWN, SHARED, extend_vocabulary
from utils.text.vocabulary.merge import BEYOND, STEP, Merges, choose_merges

LETTERS = "აბგდე"


def letters_of(texts: list[str]) -> list[list[str]]:
    return [list(text) for text in texts]


def choose(candidates: list[str], words: dict[str, int], most: int = 100) -> Merges:
    return choose_merges(candidates, words, letters_of, most=most, usable=lambda piece: True)


def test_a_step_that_always_goes_on_is_not_made():
    """Where ab is only ever part of abc, one of the two has a use; other words may keep both."""
    merges = choose(["ab", "abc"], {"abc": 5})
    assert [*merges.made] == ["ab"] and merges.left_out == {"abc": STEP}
    merges = choose(["ab", "abc"], {"abc": 5, "abd": 1})
    assert [*merges.made] == ["ab", "abc"] and merges.left_out == {}


def test_of_two_longer_ones_only_one_gives_way_to_their_step():
    merges = choose(["ab", "abc", "abd"], {"abc": 5, "abd": 2}, most=3)
    assert [*merges.made][:2] == ["ab", "abc"] and merges.left_out == {"abd": STEP}


def test_what_words_repeat_beside_the_candidates_takes_the_places_that_are_left():
    merges = choose(["ab", "abc", "abcd"], {"abcd": 4}, most=5)
    assert [*merges.made] == ["ab", "cd"] and merges.num_found == 1
    assert set(merges.left_out) == {"abc", "abcd"}
    assert not choose([], {"abcd": 1}).made, "what stands once is no rule"


def test_no_more_than_was_asked_for():
    merges = choose(["ab", "cd", "ef"], {"ab": 1, "cd": 1, "ef": 1}, most=2)
    assert [*merges.made] == ["ab", "cd"] and merges.left_out == {"ef": BEYOND}


WORD = st.text(alphabet=LETTERS + "th", min_size=1, max_size=8)


# Each makes a tokenizer, which takes a tenth of a second.
@settings(max_examples=settings().max_examples // 3)
@given(words=st.dictionaries(WORD, st.integers(1, 9), min_size=1, max_size=20), data=st.data())
def test_the_tokenizer_gives_each_new_token_and_every_candidate_is_accounted_for(words, data):
    parts = sorted({word[at : at + size] for word in words for at in range(len(word)) for size in (2, 3, 4)})
    candidates = [*LETTERS, *data.draw(st.permutations(parts)), "the", "ჰჰ"]
    target = data.draw(st.integers(len(LETTERS), 40))
    found = extend_vocabulary(find_base("tiny").vocab, "ka", candidates, target=target, words=words)
    tokenizer = BpeTokenizer.from_str(found.content)
    seen = Counter(token for word in words for token in tokenizer.encode(word).tokens)
    assert all(seen[token] for token in found.added if len(token) > 1)
    assert len(found.added) <= target
    assert set(found.left_out) == set(candidates) - set(found.added)
    assert len(set(candidates)) == len(found.left_out) + len(found.added) - found.num_found
    assert found.left_out["the"] in (KNOWN, SHARED) and found.left_out["ჰჰ"] == SHARED


def test_the_order_of_the_words_changes_nothing():
    words = {"hhე": 2, "htაh": 2, "hhაhე": 3}
    candidates = ["hhა", "hhე", "htა"]
    assert choose(candidates, words).pairs == choose(candidates, dict(reversed(words.items()))).pairs
