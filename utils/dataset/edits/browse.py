"""Find clips of a dataset by status, reason and words, in an order."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from utils.dataset.storage.report import ClipReport

Order = Literal["prepared", "longest", "shortest", "name", "text"]
USED, DROPPED, REVIEW = "used", "dropped", "review"
REASON, FLAG = "reason:", "flag:"
"""Before the reason that clips were dropped for, or what a used clip should be reviewed for."""


def find_clips(
    clips: Iterable[ClipReport], *, words: str = "", kind: str = "", order: Order = "prepared"
) -> list[ClipReport]:
    """The clips that match, in the order asked for.

    Args:
        clips: to choose from.
        words: each of them is in the clip's name, transcript, speaker, reason or flags; letter case does not count.
        kind: USED, DROPPED, REVIEW, REASON or FLAG with a name, or empty for all.
        order: `prepared` is that of `clips`.
    """
    wanted = words.casefold().split()
    found = [clip for clip in clips if is_of(clip, kind) and _has(clip, wanted)]
    if order in ("longest", "shortest"):
        found.sort(key=lambda clip: clip.num_samples, reverse=order == "longest")
    elif order == "name":
        found.sort(key=lambda clip: (Path(clip.source).name.casefold(), clip.start_s))
    elif order == "text":
        found.sort(key=lambda clip: clip.text.casefold())
    return found


def is_of(clip: ClipReport, kind: str) -> bool:
    """Whether a clip is of a kind; every clip is of the empty one, none of an unknown one."""
    if not kind:
        return True
    if kind in (USED, DROPPED):
        return clip.status == kind
    if kind == REVIEW:
        return bool(_to_review(clip))
    if kind.startswith(REASON):
        return clip.status == DROPPED and clip.reason == kind.removeprefix(REASON)
    return kind.startswith(FLAG) and kind.removeprefix(FLAG) in _to_review(clip)


def kinds(clips: Sequence[ClipReport]) -> dict[str, int]:
    """Every kind there is among clips, with how many are of it, the most frequent reasons and flags first."""
    reasons = Counter(clip.reason for clip in clips if clip.status == DROPPED)
    flags = Counter(flag for clip in clips for flag in _to_review(clip))
    counts = {
        "": len(clips),
        USED: sum(clip.status == USED for clip in clips),
        DROPPED: sum(clip.status == DROPPED for clip in clips),
        REVIEW: sum(bool(_to_review(clip)) for clip in clips),
        **{REASON + name: count for name, count in reasons.most_common()},
        **{FLAG + name: count for name, count in flags.most_common()},
    }
    return {kind: count for kind, count in counts.items() if count or not kind}


def _to_review(clip: ClipReport) -> set[str]:
    """Flags of a used clip that were not reviewed."""
    return {flag.measure for flag in clip.flags} if clip.status == USED and not clip.accepted else set()


def _has(clip: ClipReport, words: Sequence[str]) -> bool:
    if not words:
        return True
    flags = " ".join(f"{flag.measure} {flag.detail}" for flag in clip.flags)
    place = f"{clip.clip} {Path(clip.source).name} {clip.speaker} {clip.reason} {clip.detail}"
    text = f"{clip.text} {clip.heard} {place} {flags}".casefold()
    return all(word in text for word in words)
