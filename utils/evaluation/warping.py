"""Dynamic time warping: the distance of two recordings, independent of their timing.

It checks the words without a recognizer: retrieval among recordings of known sentences.

Shapes: n frames of the query, m frames of a candidate, F features.

Source: Sakoe and Chiba 1978, symmetric form: a diagonal step counts twice, so that every path weighs n + m.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from utils.evaluation.features import Features

Distances = NDArray[np.float64]


def distances(query: Features, candidates: Sequence[Features]) -> list[float]:
    """Mean distance along the best path from the query to each candidate; infinite where either has no frames."""
    return [
        float(_sums(query, one)[-1, -1]) / (len(query) + len(one)) if len(query) and len(one) else float("inf")
        for one in candidates
    ]


def rank(said: Features, wanted: Features, others: Sequence[Features]) -> int:
    """Place of the wanted sentence among all by nearness to what was said; 1 is right, and a tie is lost."""
    right, *wrong = distances(said, [wanted, *others])
    return 1 + sum(one <= right for one in wrong)


def best_ends(said: Features, wanted: Features) -> tuple[int, int]:
    """Where each recording says what the other says from its beginning to its end.

    Args:
        said: [n, F], at least one frame.
        wanted: [m, F], at least one frame.

    Returns:
        The frame count of `said` that fits all of `wanted` best, and the frame count of `wanted` that fits all of
        `said` best. What lies beyond the first was said too much; beyond the second, too little.
    """
    sums = _sums(said, wanted)
    n, m = sums.shape
    whole_wanted = sums[:, -1] / (np.arange(1, n + 1) + m)
    whole_said = sums[-1] / (np.arange(1, m + 1) + n)
    return int(whole_wanted.argmin()) + 1, int(whole_said.argmin()) + 1


def frame_distances(query: Features, candidate: Features) -> Distances:
    """Euclidean distance of each pair of frames, [n, m]."""
    squares = (query**2).sum(1)[:, None] + (candidate**2).sum(1)[None] - 2 * query @ candidate.T
    return np.sqrt(np.maximum(squares, 0)).astype(np.float64)


def _sums(query: Features, candidate: Features) -> Distances:
    """Least summed cost of a path from the first pair of frames to each pair, [n, m]."""
    costs = np.pad(frame_distances(query, candidate), ((1, 0), (1, 0)))
    n, m = len(query), len(candidate)
    sums = np.full_like(costs, np.inf)
    sums[0, 0] = 0
    # Pairs of one diagonal depend only on the two diagonals before. In the flat matrix they lie m places apart.
    cost, least = costs.ravel(), sums.ravel()
    for diagonal in range(2, n + m + 1):
        first, end = max(1, diagonal - m) * m + diagonal, min(n, diagonal - 1) * m + diagonal + 1
        both, one, other = (least[first - back : end - back : m] for back in (m + 2, m + 1, 1))
        here = cost[first:end:m]
        least[first:end:m] = np.minimum(both + 2 * here, np.minimum(one, other) + here)
    return sums[1:, 1:]
