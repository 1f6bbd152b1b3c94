"""Read an existing dataset (its report, overridden by the metadata files that people edit), and merge new clips in.

Held-out clips are chosen by recording and speaker, from their content, permanently.
"""

import dataclasses
import hashlib
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from utils.audio.decode import load_audio
from utils.audio.write import to_pcm16
from utils.dataset.clips.sound import digest
from utils.dataset.formats.faults import Fault
from utils.dataset.formats.listing import Listing
from utils.dataset.formats.locate import printable
from utils.dataset.storage.manifest import iter_manifest
from utils.dataset.storage.report import BY_HAND, ClipReport, Report, Split, as_edited, manifests
from utils.errors import UserError
from utils.files import file_hash
from utils.options import DATASET_RATE
from utils.project.paths import Project


def read_existing(project: Project, language: str) -> Report:
    """The dataset as it is on disk now.

    A row's text, speaker and split are taken from the metadata files, a clip whose row was taken out is "excluded",
    and a row that was put in is a clip of its own.

    Args:
        project: may have no dataset yet.
        language: code that the dataset must have.

    Raises:
        UserError: the dataset has another language, or is damaged.
    """
    if not _has_dataset(project):
        return Report(clips=[], settings={})
    if project.language() != language:
        raise UserError(
            what=f"the dataset is in {project.language()!r}, not {language!r}; one dataset has one language",
            where=str(project.language_file),
            fix=f"use --language {project.language()}, or another project name",
        )
    report = Report.load(project.report)
    rows = dict(_rows(project))
    clips = [_with_wav(clip, project) for clip in as_edited(report.clips, rows)]
    known = {clip.clip for clip in report.clips}
    clips += [_put_in(name, row, project) for name, row in rows.items() if name not in known]
    edited = {clip.audio_hash: clip.split for clip in clips if clip.split}
    return dataclasses.replace(report, clips=clips, splits=report.splits | edited)


def merge(old: list[ClipReport], made: list[ClipReport]) -> list[ClipReport]:
    """Old clips that this input says nothing about, then those of this input.

    A file that is given again replaces what was made of it; of a longer recording only the parts that new parts cover
    by more than half, so that the next subtitles of a series add to those before.
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


def _has_dataset(project: Project) -> bool:
    files = [project.language_file, project.report, project.train_csv, project.eval_csv]
    missing = [path.name for path in files if not path.is_file()]
    if missing and len(missing) < len(files):
        raise UserError(
            what=f"the dataset is damaged: {', '.join(missing)} missing",
            where=str(project.dataset),
            fix="restore the file, or prepare under another project name",
        )
    return not missing


def _rows(project: Project) -> Iterator[tuple[str, tuple[Split, str, str]]]:
    """Split, text and speaker of each row of both metadata files, by its path below the dataset folder."""
    folder, files = project.dataset.absolute(), Listing()
    for split, csv in manifests(project).items():
        for clip in iter_manifest(csv, files.is_file):
            name = clip.audio.relative_to(folder) if clip.audio.is_relative_to(folder) else clip.audio
            yield name.as_posix(), (split, clip.text, clip.speaker)


def _with_wav(clip: ClipReport, project: Project) -> ClipReport:
    """The clip as it is where its wav was deleted."""
    # What was taken out by hand stays out.
    if not clip.clip or clip.reason in BY_HAND or (project.dataset / clip.clip).is_file():
        return clip
    if clip.status == "dropped":
        return dataclasses.replace(clip, clip="")
    # Only the sound is lost: made again from its source, the clip has its row's words and its side of the split.
    gone = Fault("missing file", f"{clip.clip} is no longer in the dataset")
    return dataclasses.replace(clip.as_dropped(gone), clip="")


def _put_in(name: str, row: tuple[Split, str, str], project: Project) -> ClipReport:
    """A clip for a row that was added by hand."""
    split, text, speaker = row
    audio = project.dataset.absolute() / name
    source = printable(audio)
    if not audio.is_file():
        detail = f"a row of the {split} metadata names it, but it is not there"
        return ClipReport(source=source, status="dropped", reason="missing file", detail=detail, text=text)
    pcm = to_pcm16(load_audio(audio, DATASET_RATE))
    return ClipReport(
        source=source,
        clip=name,
        status="used",
        split=split,
        text=text,
        speaker=speaker,
        source_text=text,
        source_speaker=speaker,
        num_samples=pcm.shape[1],
        source_hash=file_hash(audio)[:32],
        audio_hash=digest(pcm),
        wav_hash=digest(pcm),
    )


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
    # A speaker with more held-out clips than wanted does not reduce those of others.
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
