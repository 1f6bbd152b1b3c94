"""Edit single clips: exclude, accept, restore, edit text, trim, re-cut, split, merge; edits survive all preparations.

report.json stores each edit with its clip, by an id from the recording's content. Trimmed, split and merged clips are
cut from the recordings again with the dataset's settings; later preparations repeat that.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from utils.audio.decode import duration
from utils.dataset.build import as_recording, build
from utils.dataset.clips.existing import read_existing
from utils.dataset.edits import edit
from utils.dataset.edits.edit import FixConfig, FixKind
from utils.dataset.edits.recut import check_edges, check_is_one_piece, has_edges
from utils.dataset.formats.faults import Fault
from utils.dataset.settings import PrepareConfig
from utils.dataset.sources.recording import Recording
from utils.dataset.storage.report import BY_HAND, EXCLUDED, ClipReport, Report, Span, clock
from utils.errors import UserError
from utils.project.paths import open_project

Fixed = tuple[list[ClipReport], list[Recording]]
"""The clips as they shall be, and what new ones are made from."""


def apply(config: FixConfig) -> Report:
    """Do a fix that was asked for on the command line or as a job.

    All other clips stay as they are, and nothing is decoded but what is new.

    Raises:
        UserError: no such clip, or it cannot be fixed so.
    """
    project = open_project(config.project, config.output)
    found = _find(read_existing(project, project.language()).clips, config.clip)
    if config.fix == "exclude" and found.status == "used":
        # Its row is taken out, as the page does, and the report says so.
        edit.exclude(project, found.clip)
    settings = Report.load(project.report).settings
    known = {name: settings[name] for name in PrepareConfig.__dataclass_fields__ if name in settings}
    values = known | {"project": project.name, "output": project.output, "input": Path(settings["input"])}
    prepared = PrepareConfig.from_values(values, where=str(project.report))
    return build(prepared, [], change=lambda clips: FIXES[config.fix](clips, _find(clips, config.clip), config))


CHANGES: dict[FixKind, Callable[[ClipReport, FixConfig], ClipReport]] = {
    # Use a clip no more until it is restored.
    "exclude": lambda clip, config: clip.as_dropped(EXCLUDED),
    # Use clips whatever their flags: they were reviewed.
    "accept": lambda clip, config: replace(_back(clip), accepted=True),
    # Write another transcript, and another speaker where one is given.
    "text": lambda clip, config: replace(
        clip, text=" ".join(config.text.split()) or clip.text, speaker=config.speaker or clip.speaker
    ),
}
"""Fixes that need no sound."""


def _change(clips: list[ClipReport], found: ClipReport, config: FixConfig) -> Fixed:
    ids = {found.id, *(_find(clips, name).id for name in config.also)}
    return [CHANGES[config.fix](clip, config) if clip.id in ids else clip for clip in clips], []


def _restore(clips: list[ClipReport], found: ClipReport, config: FixConfig) -> Fixed:
    """Take back what was done to a clip by hand: exclusion, trimming, splitting, merging, acceptance; its text stays.

    Clips that a fix made of it are taken out again. A clip that was cut several times goes back by one cut.
    """
    if found.made_from and found.reason != "replaced":
        names = ", ".join(found.made_from)
        raise UserError(
            what="this clip was made from other clips", where=config.clip, fix=f"restore those clips: {names}"
        )
    return _restored(clips, found), []


def _trim(clips: list[ClipReport], found: ClipReport, config: FixConfig) -> Fixed:
    """Keep only a part of a clip; its times are seconds of the clip as it sounds now."""
    start_s, end_s = _times(config)
    part = _part(found, start_s, end_s, found.text)
    return _replaced(clips, [found], [part], f"trimmed to {clock(start_s)}-{clock(end_s)}")


def _recut(clips: list[ClipReport], found: ClipReport, config: FixConfig) -> Fixed:
    """Move the edges of a clip, outwards too, in seconds of its recording; its words and its speaker stay."""
    start_s, end_s = _times(config)
    source = Path(found.source)
    length = duration(source) if source.is_file() else None
    check_edges(found, start_s, end_s, length_s=length)
    end = end_s if length is None else min(end_s, length)
    replaced = (clip for clip in clips if clip.source == found.source and clip.reason == "replaced" and not clip.joined)
    if any(has_edges(clip, start_s, end, length_s=length) for clip in replaced):
        raise UserError(
            what="an earlier cut of this clip had these edges",
            where=found.name,
            fix="undo the edits since then, by restoring the clip",
        )
    moved = replace(as_recording(found), start_s=round(start_s, 4), end_s=round(end, 4), made_from=(found.id,))
    moved = replace(moved, text=found.text, speaker=found.speaker)
    return _replaced(clips, [found], [moved], f"cut again at {clock(start_s)}-{clock(end)}")


def _split(clips: list[ClipReport], found: ClipReport, config: FixConfig) -> Fixed:
    """Make two clips of one, cut at a second of the clip as it sounds now."""
    at_s = config.at_s or 0.0
    parts = [_part(found, 0.0, at_s, config.text_before), _part(found, at_s, found.seconds, config.text_after)]
    return _replaced(clips, [found], parts, f"split at {clock(at_s)}")


def _merge(clips: list[ClipReport], found: ClipReport, config: FixConfig) -> Fixed:
    """Join a clip and the one that follows it; the halves of a clip that was split become that clip again."""
    usable = [clip for clip in clips if clip.audio_hash and clip.reason not in ("replaced", "duplicate audio")]
    if found.is_part:
        later = [clip for clip in usable if clip.source == found.source and clip.start_s > found.start_s]
        following = sorted(later, key=lambda clip: clip.start_s)
    else:
        following = usable[next(n for n, clip in enumerate(usable, start=1) if clip.id == found.id) :]
    if not following:
        raise UserError(what=f"no clip follows {found.name}", fix="merge the clip before it with this one")
    after = following[0]
    if after.speaker != found.speaker:
        what = f"the next clip, {after.name}, is spoken by {after.speaker}, not {found.speaker}"
        raise UserError(what=what, where=config.clip, fix="merge clips of one speaker")
    text = f"{found.text} {after.text}".strip()
    if found.made_from and found.made_from == after.made_from:
        # The halves of one clip: the clip that was split comes back, with their text.
        parent = found.made_from[0]
        restored = _restored(clips, _find(clips, parent))
        return [replace(clip, text=text) if clip.id == parent else clip for clip in restored], []
    whole = as_recording(found)
    if found.is_part and after.source == found.source and not found.joined and not after.joined:
        # One piece of the recording, with the pause between them.
        whole = replace(whole, end_s=after.end_s, text=text)
    else:
        second = Span(audio=after.source, start_s=after.start_s, end_s=after.end_s)
        whole = replace(whole, joined=(*whole.joined, second, *after.joined), text=text)
    made = replace(whole, made_from=(found.id, after.id))
    return _replaced(clips, [found, after], [made], f"merged {found.name} and {after.name}")


FIXES: dict[FixKind, Callable[[list[ClipReport], ClipReport, FixConfig], Fixed]] = {
    **dict.fromkeys(CHANGES, _change),
    "restore": _restore,
    "trim": _trim,
    "recut": _recut,
    "split": _split,
    "merge": _merge,
}


def _times(config: FixConfig) -> tuple[float, float]:
    assert config.start_s is not None and config.end_s is not None, "checked by FixConfig.problems"
    return config.start_s, config.end_s


def _part(clip: ClipReport, start_s: float, end_s: float, text: str) -> Recording:
    """A part of a clip, in times of its recording."""
    if not 0 <= start_s < end_s <= clip.seconds + 0.01:
        raise UserError(
            what=f"{start_s:g} to {end_s:g} s is not within {clip.name}, which is {clip.seconds:.2f} s long",
            fix="use times within the clip, in seconds",
        )
    check_is_one_piece(clip)
    begin = clip.start_s + clip.trimmed_s
    start, end = round(begin + start_s, 4), round(begin + end_s, 4)
    return replace(as_recording(clip), start_s=start, end_s=end, text=" ".join(text.split()), made_from=(clip.id,))


def _replaced(clips: list[ClipReport], old: Sequence[ClipReport], new: list[Recording], detail: str) -> Fixed:
    """Put clips in the place of others, all or none.

    Raises:
        UserError: the recording is gone.
    """
    if gone := [clip for clip in old if not Path(clip.source).is_file()]:
        raise UserError(
            what=f"the recording of {gone[0].name} is missing", where=gone[0].source, fix="restore the file"
        )
    ids = {clip.id for clip in old}
    fault = Fault("replaced", f"{detail}; restore the clip to undo this")
    return [replace(clip.as_dropped(fault), flags=()) if clip.id in ids else clip for clip in clips], new


def _restored(clips: list[ClipReport], found: ClipReport) -> list[ClipReport]:
    unmade = _made_of(clips, found.id)
    back = {found.id, *(parent for clip in clips if clip.id in unmade for parent in clip.made_from)} - unmade
    return [
        replace(_back(clip), accepted=False) if clip.id in back else clip for clip in clips if clip.id not in unmade
    ]


def _made_of(clips: list[ClipReport], parent: str) -> set[str]:
    """Ids of the clips that fixes made of one, and of those made of these."""
    made = {clip.id for clip in clips if parent in clip.made_from}
    return made.union(*(_made_of(clips, each) for each in made))


def _back(clip: ClipReport) -> ClipReport:
    by_hand = clip.reason in (*BY_HAND, "flagged")
    return replace(clip, status="used", reason="", detail="") if by_hand and clip.clip else clip


def _find(clips: list[ClipReport], name: str) -> ClipReport:
    """The clip with this id or wav."""
    wanted = name.replace("\\", "/").strip()
    # Clips cut at other times may have the same sound once silence was removed, and then share the wav.
    for clip in sorted(clips, key=lambda clip: clip.status != "used"):
        if clip.id and wanted in (clip.id, clip.clip, Path(clip.clip).name):
            return clip
    raise UserError(
        what=f"the dataset has no clip {name!r}", fix="give the id that report.html shows, or the name of its wav"
    )
