"""Choose the held-out clips by recording and speaker, from their content, permanently."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from utils.dataset.storage.report import ClipReport, Split
from utils.errors import UserError


def assign_splits(clips: Sequence[ClipReport], *, fraction: float, assigned: Mapping[str, Split]) -> dict[str, Split]:
    """The split of every clip; one that has a split keeps it.

    `fraction` of each speaker's clips is held out (rounded, in all at least one). Whole recordings are taken, those
    with the lowest hashes first; of one that is longer than what is still wanted, a stretch in its middle is, so that
    two pairs of neighbors are parted and no more. A new clip of a recording that has a split goes where its nearest
    neighbor is. The order of `clips` has no influence, so the same recordings give the same split anywhere.

    Args:
        clips: every clip once.
        fraction: share held out, above 0 and below 1.
        assigned: splits that earlier preparations chose, by audio hash.

    Returns:
        {audio hash: split}, with at least one clip in each.

    Raises:
        UserError: there are too few clips for one in each.
    """
    splits = {clip.audio_hash: assigned[clip.audio_hash] for clip in clips if clip.audio_hash in assigned}
    by_speaker: defaultdict[str, list[ClipReport]] = defaultdict(list)
    for clip in clips:
        by_speaker[clip.speaker].append(clip)
    held_out = Counter(clip.speaker for clip in clips if splits.get(clip.audio_hash) == "eval")
    wanted = _quotas({speaker: len(found) for speaker, found in by_speaker.items()}, fraction, held_out)
    for speaker in sorted(by_speaker):
        splits |= _split_speaker(by_speaker[speaker], wanted[speaker], splits)
    splits = _with_both(clips, splits, assigned)
    _require_both(splits)
    return splits


def _quotas(sizes: Mapping[str, int], fraction: float, held_out: Mapping[str, int]) -> dict[str, int]:
    """Clips to hold out of each speaker's, in all `fraction`: the largest remainders are rounded up."""
    count = sum(sizes.values())
    total = min(max(1, round(fraction * count)), count - 1) if count else 0
    quotas = {speaker: int(fraction * size) for speaker, size in sizes.items()}
    # One who has more held out than is wanted takes it from nobody else.
    rest = total - sum(max(quota, held_out.get(speaker, 0)) for speaker, quota in quotas.items())
    by_remainder = sorted(sizes, key=lambda name: (-(fraction * sizes[name]) % 1, _rank(name)))
    for speaker in by_remainder:
        if rest > 0 and quotas[speaker] >= held_out.get(speaker, 0):
            quotas[speaker] += 1
            rest -= 1
    return quotas


def _split_speaker(clips: list[ClipReport], wanted: int, assigned: Mapping[str, Split]) -> dict[str, Split]:
    """Splits of one speaker's clips that have none yet."""
    # Clips of one recording share room, microphone and mood, and a sentence may run over from one into the next. Held
    # out one by one, they would be scored beside their training neighbors, and the loss would look better than it is.
    recordings: defaultdict[str, list[ClipReport]] = defaultdict(list)
    for clip in clips:
        recordings[_recording(clip)].append(clip)
    splits: dict[str, Split] = {}
    new: list[list[ClipReport]] = []
    for found in recordings.values():
        found.sort(key=lambda clip: (clip.start_s, clip.audio_hash))
        old = [clip for clip in found if clip.audio_hash in assigned]
        if old:
            for clip in (clip for clip in found if clip.audio_hash not in assigned):
                nearest = min(old, key=lambda other: (abs(other.start_s - clip.start_s), other.start_s))
                splits[clip.audio_hash] = assigned[nearest.audio_hash]
        else:
            new.append(found)
    missing = wanted - sum(assigned.get(c.audio_hash, splits.get(c.audio_hash)) == "eval" for c in clips)
    return splits | _hold_out(sorted(new, key=lambda found: _rank(_recording(found[0]))), missing)


def _hold_out(recordings: list[list[ClipReport]], missing: int) -> dict[str, Split]:
    """Take whole recordings while they fit, then the middle of the first that does not."""
    splits: dict[str, Split] = {clip.audio_hash: "train" for found in recordings for clip in found}
    for found in recordings:
        if 0 < len(found) <= missing:
            splits |= {clip.audio_hash: "eval" for clip in found}
            missing -= len(found)
    if missing > 0:
        longer = [found for found in recordings if splits[found[0].audio_hash] == "train" and len(found) > 1]
        for found in longer[:1]:
            # Not at an end: what is cut from the rest of the recording later would all follow it.
            start = (len(found) - missing) // 2
            splits |= {clip.audio_hash: "eval" for clip in found[start : start + missing]}
    return splits


def _with_both(
    clips: Sequence[ClipReport], splits: dict[str, Split], assigned: Mapping[str, Split]
) -> dict[str, Split]:
    """Give a set that came out empty one new clip, where there is any."""
    new = sorted((clip.audio_hash for clip in clips if clip.audio_hash not in assigned), key=_rank)
    wanted: tuple[Split, Split] = ("train", "eval")
    for split in wanted:
        if new and len(splits) > 1 and split not in splits.values():
            splits = splits | {new[0]: split}
    return splits


def _recording(clip: ClipReport) -> str:
    """The recording that a clip was cut from, or is: neighbors in one sound alike."""
    return clip.source_hash if clip.is_part else clip.audio_hash


def _rank(name: str) -> bytes:
    """Hashed again, so that the order here has nothing to do with other uses of the hash."""
    return hashlib.sha256(b"split:" + name.encode()).digest()


def _require_both(splits: Mapping[str, Split]) -> None:
    for split, purpose in (("train", "training"), ("eval", "evaluation")):
        if split in splits.values():
            continue
        if len(splits) < 2:
            count, fix = f"there is only {len(splits)} usable clip", "give at least two usable clips"
        else:
            count, fix = f"none of the {len(splits)} usable clips is in it", "add recordings and prepare again"
        raise UserError(what=f"the {purpose} set would be empty: {count}", fix=fix)
