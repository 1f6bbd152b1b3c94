"""Edit single clips: exclude, accept, restore, edit text, trim, re-cut, split, merge; edits survive all preparations.

report.json stores each edit with its clip, by an id from the recording's content. Trimmed, split and merged clips are
cut from the recordings again with the dataset's settings; later preparations repeat that.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from utils.audio.decode import duration
from utils.config import DATASET_RATE
from utils.dataset.build import as_recording, build
from utils.dataset.clips.existing import read_existing
from utils.dataset.edits import edit
from utils.dataset.edits.edit import FixConfig
from utils.dataset.edits.recut import check_edges, check_is_current, has_edges
from utils.dataset.settings import PrepareConfig
from utils.dataset.sources.recording import Recording
from utils.dataset.storage.report import BY_HAND, EXCLUDED, ClipReport, Fault, Report, Span, clock
from utils.errors import UserError
from utils.project.paths import Project, open_project

Change = Callable[[ClipReport], ClipReport]


def apply(config: FixConfig) -> Report:
    """Do a fix that was asked for on the command line or as a job.

    Raises:
        UserError: no such clip, or it cannot be fixed so.
    """
    project, clip = open_project(config.project, config.output), config.clip
    match config.fix:
        case "accept":
            return accept(project, clip, *config.also)
        case "exclude":
            return exclude(project, clip)
        case "restore":
            return restore(project, clip)
        case "text":
            return edit_text(project, clip, config.text, speaker=config.speaker)
        case "trim":
            assert config.start_s is not None and config.end_s is not None, "checked by FixConfig.problems"
            return trim(project, clip, start_s=config.start_s, end_s=config.end_s)
        case "recut":
            assert config.start_s is not None and config.end_s is not None, "checked by FixConfig.problems"
            return recut(project, clip, start_s=config.start_s, end_s=config.end_s)
        case "split":
            assert config.at_s is not None, "checked by FixConfig.problems"
            return split(project, clip, at_s=config.at_s, texts=(config.text_before, config.text_after))
        case "merge":
            return merge_with_next(project, clip)


def exclude(project: Project, clip: str) -> Report:
    """Use a clip no more until it is restored: its row is taken out, as the page does, and the report says so."""
    found = _find(_load(project), clip)
    if found.status == "used":
        edit.exclude(project, found.clip)
    return _change(project, clip, lambda c: c.as_dropped(EXCLUDED))


def accept(project: Project, *clips: str) -> Report:
    """Use clips whatever their flags: somebody listened.

    Raises:
        UserError: no such clip.
    """
    known = _load(project)
    ids = {_find(known, clip).id for clip in clips}
    return _rebuild(project, lambda now: [replace(_back(c), accepted=True) if c.id in ids else c for c in now])


def restore(project: Project, clip: str) -> Report:
    """Take back what was done to a clip by hand: exclusion, trimming, splitting, merging, acceptance; its text stays.

    Clips that a fix made of it are taken out again. A clip that was cut several times goes back by one cut.
    """
    found = _find(_load(project), clip)
    if found.made_from and found.reason != "replaced":
        names = ", ".join(found.made_from)
        raise UserError(what="this clip was made from other clips", where=clip, fix=f"restore those clips: {names}")
    return _rebuild(project, lambda clips: _restored(clips, found))


def edit_text(project: Project, clip: str, text: str, *, speaker: str | None = None) -> Report:
    """Write another transcript, and another speaker where one is given.

    Raises:
        UserError: no such clip.
    """
    return _change(project, clip, lambda c: replace(c, text=" ".join(text.split()), speaker=speaker or c.speaker))


def trim(project: Project, clip: str, *, start_s: float, end_s: float) -> Report:
    """Keep only a part of a clip.

    Args:
        project: whose dataset.
        clip: id, or path of the wav.
        start_s: where the part begins, in seconds of the clip as it sounds now.
        end_s: where it ends.

    Raises:
        UserError: no such clip, or times outside it.
    """
    found = _find(_load(project), clip)
    _check_time(found, start_s, end_s)
    part = _part(found, start_s, end_s, found.text)
    return _replace_clips(project, [found], [part], f"trimmed to {clock(start_s)}-{clock(end_s)}")


def recut(project: Project, clip: str, *, start_s: float, end_s: float) -> Report:
    """Move the edges of a clip, outwards too; its words and its speaker stay.

    Args:
        project: whose dataset.
        clip: id, or path of the wav.
        start_s: where the clip begins, in seconds of its recording.
        end_s: where it ends.

    Raises:
        UserError: no such clip, it is not in use, its recording is missing, or the times are not within that.
    """
    clips = _load(project)
    found = _find(clips, clip)
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
    return _replace_clips(project, [found], [moved], f"cut anew at {clock(start_s)}-{clock(end)}")


def split(project: Project, clip: str, *, at_s: float, texts: tuple[str, str]) -> Report:
    """Make two clips of one.

    Args:
        project: whose dataset.
        clip: id, or path of the wav.
        at_s: where to cut, in seconds of the clip as it sounds now.
        texts: what is said before and after.

    Raises:
        UserError: no such clip, or a time outside it.
    """
    found = _find(_load(project), clip)
    _check_time(found, 0.0, at_s)
    _check_time(found, at_s, found.seconds)
    parts = [_part(found, 0.0, at_s, texts[0]), _part(found, at_s, found.seconds, texts[1])]
    return _replace_clips(project, [found], parts, f"split at {clock(at_s)}")


def merge_with_next(project: Project, clip: str) -> Report:
    """Join a clip with the one that follows it: of the same recording where it is a part, else in the report's order.

    The two halves of a clip that was split become that clip again.

    Raises:
        UserError: no such clip, nothing follows, or somebody else speaks there.
    """
    clips = _load(project)
    found = _find(clips, clip)
    after = _next(clips, found)
    if after.speaker != found.speaker:
        what = f"the next clip, {after.name}, is spoken by {after.speaker}, not {found.speaker}"
        raise UserError(what=what, where=clip, fix="merge clips of one speaker")
    text = f"{found.text} {after.text}".strip()
    if found.made_from and found.made_from == after.made_from:
        # The halves of one clip: the clip that was split comes back, with their text.
        parent = found.made_from[0]

        def rejoined(clips: list[ClipReport]) -> list[ClipReport]:
            restored = _restored(clips, _find(clips, parent))
            return [replace(clip, text=text) if clip.id == parent else clip for clip in restored]

        return _rebuild(project, rejoined)
    whole = as_recording(found)
    if found.is_part and after.source == found.source and not found.joined and not after.joined:
        # One piece of the recording, with the pause between them.
        whole = replace(whole, end_s=after.end_s, text=text)
    else:
        second = Span(audio=after.source, start_s=after.start_s, end_s=after.end_s)
        whole = replace(whole, joined=(*whole.joined, second, *after.joined), text=text)
    made = replace(whole, made_from=(found.id, after.id))
    return _replace_clips(project, [found, after], [made], f"merged {found.name} and {after.name}")


def _part(clip: ClipReport, start_s: float, end_s: float, text: str) -> Recording:
    """A part of a clip, in times of its recording."""
    check_is_current(clip)
    if clip.joined:
        raise UserError(what="the clip was merged from several", where=clip.name, fix="restore its parts and cut those")
    begin = clip.start_s + clip.trimmed_s
    start, end = round(begin + start_s, 4), round(begin + end_s, 4)
    return replace(as_recording(clip), start_s=start, end_s=end, text=" ".join(text.split()), made_from=(clip.id,))


def _replace_clips(project: Project, old: Sequence[ClipReport], new: list[Recording], detail: str) -> Report:
    """Put clips in the place of others, all or none.

    Raises:
        UserError: the recording is gone, or a new clip would be dropped; with the reason.
    """
    if gone := [clip for clip in old if not Path(clip.source).is_file()]:
        raise UserError(
            what=f"the recording of {gone[0].name} is missing", where=gone[0].source, fix="restore the file"
        )
    ids = {clip.id for clip in old}
    fault = Fault("replaced", f"{detail}; restore the clip to undo this")
    return _rebuild(
        project,
        lambda clips: [replace(clip.as_dropped(fault), flags=()) if clip.id in ids else clip for clip in clips],
        new=new,
    )


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


def _change(project: Project, clip: str, change: Change) -> Report:
    found = _find(_load(project), clip)
    return _rebuild(project, lambda clips: [change(c) if c.id == found.id else c for c in clips])


def _rebuild(
    project: Project, change: Callable[[list[ClipReport]], list[ClipReport]], *, new: list[Recording] | None = None
) -> Report:
    """The dataset with some clips changed; all others stay as they are, and nothing is decoded but what is new."""
    settings = Report.load(project.report).settings
    known = {name: settings[name] for name in PrepareConfig.__dataclass_fields__ if name in settings}
    values = known | {"project": project.name, "output": project.output, "input": Path(settings["input"])}
    config = PrepareConfig.from_values(values, where=str(project.report))
    return build(config, new or [], progress=None, change=change)


def _load(project: Project) -> list[ClipReport]:
    return read_existing(project, project.language()).clips


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


def _next(clips: list[ClipReport], found: ClipReport) -> ClipReport:
    usable = [clip for clip in clips if clip.audio_hash and clip.reason not in ("replaced", "duplicate audio")]
    if found.is_part:
        later = [c for c in usable if c.source == found.source and c.start_s > found.start_s]
        following = sorted(later, key=lambda clip: clip.start_s)
    else:
        at = next(n for n, clip in enumerate(usable) if clip.id == found.id)
        following = usable[at + 1 :]
    if not following:
        raise UserError(what=f"no clip follows {found.name}", fix="merge the clip before it with this one")
    return following[0]


def _check_time(clip: ClipReport, start_s: float, end_s: float) -> None:
    length = clip.num_samples / DATASET_RATE
    if not 0 <= start_s < end_s <= length + 0.01:
        raise UserError(
            what=f"{start_s:g} to {end_s:g} s is not within {clip.name}, which is {length:.2f} s long",
            fix="use times within the clip, in seconds",
        )
