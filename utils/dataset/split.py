"""Which clips are held out for evaluation: decided by their content, once and for good."""

import hashlib
from collections.abc import Mapping, Sequence

from utils.dataset.report import Split
from utils.errors import UserError


def assign_splits(clips: Sequence[str], *, fraction: float, assigned: Mapping[str, Split]) -> dict[str, Split]:
    """The split of every clip; one that has a split keeps it.

    New clips are held out, those with the lowest hashes first, until `fraction` of all is (rounded, at least one).
    The order of `clips` has no influence, so the same recordings give the same split anywhere.

    Args:
        clips: audio hash of every clip, each once.
        fraction: share held out, above 0 and below 1.
        assigned: splits that earlier preparations chose.

    Returns:
        {audio hash: split}, with at least one clip in each.

    Raises:
        UserError: there are too few clips for one in each.
    """
    splits = {clip: assigned[clip] for clip in clips if clip in assigned}
    new = sorted((clip for clip in clips if clip not in splits), key=_rank)
    held_out = sum(split == "eval" for split in splits.values())
    wanted = min(max(1, round(fraction * len(clips))), len(clips) - 1)
    num_eval = max(0, wanted - held_out)
    if not set(splits.values()) >= {"train"}:
        # A dataset of evaluation clips only must get at least one to train on.
        num_eval = min(num_eval, len(new) - 1)
    splits |= {clip: "eval" if index < num_eval else "train" for index, clip in enumerate(new)}
    _require_both(splits)
    return splits


def _rank(clip: str) -> bytes:
    """Hashed again, so that the order here has nothing to do with other uses of the hash."""
    return hashlib.sha256(b"split:" + clip.encode()).digest()


def _require_both(splits: Mapping[str, Split]) -> None:
    for split, purpose in (("train", "training"), ("eval", "evaluation")):
        if split in splits.values():
            continue
        if len(splits) < 2:
            count, fix = f"there is only {len(splits)} usable clip", "give at least two usable clips"
        else:
            count, fix = f"none of the {len(splits)} usable clips is in it", "add recordings and prepare again"
        raise UserError(what=f"the {purpose} set would be empty: {count}", fix=fix)
