"""Measures of words against sentences whose words are known."""

import numpy as np
import pytest

from tests.evaluation.sounds import NUM_WORDS, in_a_room, near_misses, recording, sentence, swapped
from utils.evaluation.features import mfccs, trimmed
from utils.evaluation.warping import rank

LENGTH = 10
SENTENCES = [[(7 * number + 3 * place) % NUM_WORDS for place in range(LENGTH)] for number in range(16)]


def near_miss_rank(said: list[int], wanted: list[int], *, seed: int) -> int:
    """Rank of the wanted sentence when `said` is said in a room, among variants with a fifth of the words swapped."""
    variants = [sentence(variant) for variant in near_misses(wanted, seed=seed)]
    recognized = mfccs(trimmed(in_a_room(sentence(said))))
    return rank(recognized, mfccs(sentence(wanted)), [mfccs(variant) for variant in variants])


def test_the_same_recording_is_found_and_another_sentence_is_not():
    all_features = [mfccs(recording(number)) for number in range(1, 9)]
    for number, own in enumerate(all_features):
        others = [one for place, one in enumerate(all_features) if place != number]
        shifted = mfccs(trimmed(in_a_room(recording(number + 1))))
        assert rank(own, own, others) == 1
        assert rank(shifted, own, others) == 1
        assert rank(all_features[(number + 1) % 8], own, others) > 1


def test_the_right_words_pass_the_near_miss_test():
    assert [near_miss_rank(one, one, seed=seed) for seed, one in enumerate(SENTENCES)] == [1] * len(SENTENCES)


@pytest.mark.slow
def test_half_of_the_words_wrong_fails_the_near_miss_test():
    spoken = [swapped(one, 0.5, seed=seed) for seed, one in enumerate(SENTENCES)]
    ranks = [
        near_miss_rank(said, one, seed=seed) for seed, (said, one) in enumerate(zip(spoken, SENTENCES, strict=True))
    ]
    assert np.mean(np.array(ranks) == 1) <= 0.35


def test_silence_is_no_sentence():
    nothing = np.zeros((0, 16), np.float32)
    assert rank(nothing, mfccs(recording(1)), [mfccs(recording(2))]) == 2
