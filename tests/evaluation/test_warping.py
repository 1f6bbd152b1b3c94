"""Dynamic time warping against the textbook's double loop."""

import numpy as np
import pytest

from utils.evaluation.warping import best_ends, distances, frame_distances


def textbook(a: np.ndarray, b: np.ndarray) -> float:
    costs = frame_distances(a, b).astype(np.float64)
    n, m = costs.shape
    sums = np.full((n + 1, m + 1), np.inf)
    sums[0, 0] = 0
    for i in range(n):
        for j in range(m):
            cost = costs[i, j]
            sums[i + 1, j + 1] = min(sums[i, j] + 2 * cost, sums[i, j + 1] + cost, sums[i + 1, j] + cost)
    return sums[n, m] / (n + m)


def series(length: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(length, 5)).astype(np.float32)


@pytest.mark.parametrize("length", [1, 2, 17])
def test_distances_are_the_textbooks_whatever_the_lengths(length):
    query = series(length, 0)
    candidates = [series(count, count) for count in (1, 2, 9, 17, 40)]
    assert distances(query, candidates) == pytest.approx([textbook(query, one) for one in candidates], rel=1e-4)


def test_the_same_series_at_another_pace_is_at_no_distance():
    query = series(20, 1)
    assert distances(query, [np.repeat(query, 2, axis=0)]) == pytest.approx([0], abs=2e-3)


def test_nothing_is_infinitely_far_from_everything():
    nothing = np.zeros((0, 5), np.float32)
    assert distances(series(4, 0), [nothing, series(4, 1)])[0] == np.inf
    assert distances(nothing, [series(4, 1)]) == [np.inf]


def test_what_was_said_too_much_or_too_little_begins_where_the_sentence_ends():
    whole, more = series(30, 2), series(12, 3)
    assert best_ends(np.concatenate([whole, more]), whole)[0] == 30
    assert best_ends(whole[:20], whole)[1] == 20
