"""Check the words without a recognizer: retrieval among recordings of known sentences."""

from collections.abc import Sequence

from utils.evaluation.features import Features
from utils.evaluation.warping import distances


def rank(said: Features, wanted: Features, others: Sequence[Features]) -> int:
    """Place of the wanted sentence among all by nearness to what was said; 1 is right, and a tie is lost."""
    right, *wrong = distances(said, [wanted, *others])
    return 1 + sum(one <= right for one in wrong)
