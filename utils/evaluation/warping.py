"""Dynamic time warping: the distance of two recordings, independent of their timing.

Shapes: C candidates, n frames of the query, m frames of a candidate, F features.

Source: Sakoe and Chiba 1978, symmetric form: a diagonal step counts twice, so that every path weighs n + m.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from utils.evaluation.features import Features

Distances = NDArray[np.float32]


def distances(query: Features, candidates: Sequence[Features]) -> list[float]:
    """Mean distance along the best path from the query to each candidate; infinite where either has no frames."""
    found = [float("inf")] * len(candidates)
    numbers = [number for number, candidate in enumerate(candidates) if len(candidate) and len(query)]
    if not numbers:
        return found
    sums = _sums([frame_distances(query, candidates[number]) for number in numbers])
    for row, number in zip(sums, numbers, strict=True):
        length = len(candidates[number])
        found[number] = float(row[len(query) - 1 + length - 1, len(query) - 1]) / (len(query) + length)
    return found


def best_ends(said: Features, wanted: Features) -> tuple[int, int]:
    """Where each recording says what the other says from its beginning to its end.

    Args:
        said: [n, F], at least one frame.
        wanted: [m, F], at least one frame.

    Returns:
        The frame count of `said` that fits all of `wanted` best, and the frame count of `wanted` that fits all of
        `said` best. What lies beyond the first was said too much; beyond the second, too little.
    """
    sums = _sums([frame_distances(said, wanted)])[0]
    n, m = len(said), len(wanted)
    rows, columns = np.arange(n), np.arange(m)
    whole_wanted = sums[rows + m - 1, rows] / (rows + 1 + m)
    whole_said = sums[columns + n - 1, n - 1] / (columns + 1 + n)
    return int(whole_wanted.argmin()) + 1, int(whole_said.argmin()) + 1


def frame_distances(query: Features, candidate: Features) -> Distances:
    """Euclidean distance of each pair of frames, [n, m]."""
    squares = (query**2).sum(1)[:, None] + (candidate**2).sum(1)[None] - 2 * query @ candidate.T
    return np.sqrt(np.maximum(squares, 0)).astype(np.float32)


def _sums(costs: list[Distances]) -> Distances:
    """Least summed cost of a path from the first pair of frames to each pair, [C, n + m - 1, n].

    Element [c, i + j, i] belongs to frame i of the query and frame j of candidate c. All pairs of one diagonal depend
    only on the two diagonals before, so each diagonal of all candidates is one step of array arithmetic.
    """
    skewed = _skewed(costs)
    count, num_diagonals, n = skewed.shape
    # One column before the first frame, always infinite, so that shifting by a frame is slicing.
    sums = np.full((count, num_diagonals, n + 1), np.inf, dtype=np.float32)
    sums[:, 0, 1] = 2 * skewed[:, 0, 0]
    for diagonal in range(1, num_diagonals):
        cost, before = skewed[:, diagonal], sums[:, diagonal - 1]
        best = np.minimum(before[:, :-1], before[:, 1:]) + cost
        if diagonal > 1:
            np.minimum(best, sums[:, diagonal - 2, :-1] + 2 * cost, out=best)
        sums[:, diagonal, 1:] = best
    return sums[:, :, 1:]


def _skewed(costs: list[Distances]) -> Distances:
    """Costs with diagonals as rows, [C, n + m - 1, n]; infinite outside the matrices."""
    n, longest = costs[0].shape[0], max(cost.shape[1] for cost in costs)
    width = n + longest - 1
    # Rows that are one element too wide for the flat layout move each row one place further than the one before.
    flat = np.full((len(costs), n, width + 1), np.inf, dtype=np.float32)
    for place, cost in zip(flat, costs, strict=True):
        place[:, : cost.shape[1]] = cost
    return flat.reshape(len(costs), -1)[:, : n * width].reshape(len(costs), n, width).transpose(0, 2, 1)
