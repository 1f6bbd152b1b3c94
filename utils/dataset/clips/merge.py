"""Merge newly prepared clips with those of the dataset, without loss or duplicates."""

from bisect import bisect_left
from collections import defaultdict

from utils.dataset.storage.report import ClipReport


def merge(old: list[ClipReport], made: list[ClipReport]) -> list[ClipReport]:
    """Old clips that this input says nothing about, then those of this input.

    A file that is given anew replaces what was made of it; of a longer recording only the parts that new parts cover by
    more than half, so that the next subtitles of a series add to those before.
    """
    sources = {clip.source for clip in made if not clip.is_part and not clip.made_from}
    ids = {clip.id for clip in made if clip.id}
    sounds = {clip.audio_hash for clip in made if clip.status == "used"}
    covered = _covered([clip for clip in made if not clip.made_from])
    return [
        clip
        for clip in old
        if clip.id not in ids
        and clip.audio_hash not in sounds
        and (clip.is_part or clip.source not in sources)
        and not (clip.is_part and _is_covered(clip, covered.get(clip.source, [])))
    ] + made


def _covered(made: list[ClipReport]) -> dict[str, list[tuple[float, float]]]:
    """Parts of each recording that were given, by their beginning."""
    parts: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for clip in made:
        parts[clip.source].append(_span(clip))
    return {source: sorted(found) for source, found in parts.items()}


def _span(clip: ClipReport) -> tuple[float, float]:
    return clip.start_s, float("inf") if clip.end_s is None else clip.end_s


def _is_covered(clip: ClipReport, parts: list[tuple[float, float]]) -> bool:
    start, end = _span(clip)
    # Parts hardly overlap, so those that matter lie next to where this one begins.
    at = bisect_left(parts, (start, end))
    near = parts[max(0, at - 8) : at + 8]
    overlap = sum(max(0.0, min(end, stop) - max(start, begin)) for begin, stop in near)
    return overlap > 0.5 * (end - start)
