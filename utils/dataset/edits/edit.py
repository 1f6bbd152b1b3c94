"""What can be done to one clip of a dataset by hand: `FixConfig`; and what of it needs no sound, done at once.

`save_text`, `exclude` and `restore` change the metadata files, which are the authority, as a person could in an editor.
The next preparation finds it there (see `utils.dataset.clips.existing`) and keeps it. Nothing here loads torch, so that
the page can do it; all else is a job, which runs `utils.dataset.edits.fixes.apply`, as the command line does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from filelock import FileLock

from utils.dataset.edits.history import Edit, EditKind, Place, load_edits, plain, save_edits
from utils.dataset.formats.table import DEFAULT_SPEAKER, Row, clean, read_table
from utils.dataset.storage.manifest import Clip, write_manifest
from utils.dataset.storage.report import EXCLUDED, ClipReport, Report, Split, as_edited, manifests
from utils.errors import UserError, disk_errors
from utils.files import replacing
from utils.project.paths import Project
from utils.settings import Config

MAX_TEXT = 2_000
"""Characters; far more than any base can read."""

FixKind = Literal["accept", "exclude", "restore", "text", "trim", "recut", "split", "merge"]
NEEDED: dict[FixKind, tuple[str, ...]] = {
    "trim": ("start_s", "end_s"),
    "recut": ("start_s", "end_s"),
    "split": ("at_s",),
}
"""Which times a fix needs."""
TAKEN: dict[FixKind, tuple[str, ...]] = {
    "accept": ("also",),
    "text": ("text", "speaker"),
    "split": ("text_before", "text_after"),
}
"""What else a fix takes, beside the clip; another one would be lost without a word."""


Tables = dict[Split, list[Row]]
FileState = tuple[int, int, int] | None
MAX_REPORTS = 2
_reports: dict[Path, tuple[FileState, Report]] = {}
"""The reports read last, each with the state of its file then."""


@dataclass(frozen=True, kw_only=True)
class FixConfig(Config):
    """Fix one clip of a dataset."""

    project: str
    """Name of the voice; its folder below `output`."""
    clip: str
    """Id of the clip, or the path of its wav below the dataset."""
    fix: FixKind
    """What to do: use it whatever its flags, exclude it, undo, write another transcript, keep a part, move its edges
    within the recording, cut in two, join it with the next."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    text: str = ""
    """What is said in the clip."""
    speaker: str | None = None
    """Who says it; as before when not given."""
    start_s: float | None = None
    """Where the part to keep begins, in seconds of the clip; of its recording where the edges are moved."""
    end_s: float | None = None
    """Where the part to keep ends, in the same seconds."""
    at_s: float | None = None
    """Where to cut in two, in seconds of the clip."""
    text_before: str = ""
    """What is said before the cut."""
    text_after: str = ""
    """What is said after the cut."""
    also: tuple[str, ...] = ()
    """Further clips to accept."""

    def problems(self) -> list[str]:
        whole = "recording" if self.fix == "recut" else "clip"
        found = [
            f"{name} is not given; {self.fix} needs it, in seconds of the {whole}"
            for name in NEEDED.get(self.fix, ())
            if getattr(self, name) is None
        ]
        own = ("project", "clip", "fix", "output", *NEEDED.get(self.fix, ()), *TAKEN.get(self.fix, ()))
        given = [one.name for one in fields(self) if one.name not in own and getattr(self, one.name) != one.default]
        if given:
            flags = dict.fromkeys("texts" if one.startswith("text_") else one.removesuffix("_s") for one in given)
            names = " or ".join(flags)
            found.append(f"{self.fix} takes no {names}; omit it, or choose the fix that it belongs to")
        if not self.clip.strip():
            found.append("clip is empty; give its id, or the name of its wav")
        if self.fix == "text" and not (self.text.strip() or self.speaker):
            found.append("text is empty; write what is said in the clip")
        if self.fix == "split" and not (self.text_before.strip() and self.text_after.strip()):
            found.append("a half has no transcript; write what is said before and after the cut")
        return found


def current_clips(project: Project) -> list[ClipReport]:
    """The clips of the report as the metadata files have them now.

    They are kept in memory until one of the three files changes; the list is the caller's own.

    Raises:
        UserError: the report or a metadata file cannot be read.
    """
    files = (project.report, *manifests(project).values())
    return list(_clips_of(project, tuple(state_of(path) for path in files)))


def current_report(project: Project) -> Report:
    """The report as it is on disk, kept in memory until it changes: with 50,000 clips it takes seconds to read.

    Raises:
        UserError: it cannot be read.
    """
    path, state = project.report, state_of(project.report)
    known = _reports.get(path)
    if known is None or known[0] != state:
        known = state, Report.load(path)
        _keep(path, *known)
    return known[1]


def _keep(path: Path, state: FileState, report: Report) -> None:
    _reports.pop(path, None)
    for oldest in list(_reports)[: len(_reports) + 1 - MAX_REPORTS]:
        _reports.pop(oldest, None)
    _reports[path] = state, report


@lru_cache(maxsize=2)
def _clips_of(project: Project, state: tuple[FileState, ...]) -> list[ClipReport]:
    del state
    places = _places(_tables(project)).items()
    rows = {clip: (split, row.text, row.speaker) for clip, (split, row) in places}
    return as_edited(current_report(project).clips, rows)


@lru_cache(maxsize=4)
def _rows_of(path: Path, state: FileState) -> list[Row]:
    del state
    return read_table(path)


def state_of(path: Path) -> FileState:
    """What changes with a file: it is replaced by another, or written into."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def save_text(project: Project, clip: str, text: str) -> None:
    """Give a clip another transcript.

    Args:
        project: with a dataset.
        clip: path of its wav below the dataset folder, as the report has it.
        text: what is said in it.

    Raises:
        UserError: the text is empty or far too long, or the clip is not in use.
    """
    wanted = clean(text)
    if not wanted or len(wanted) > MAX_TEXT:
        raise UserError(
            what="the transcript is empty" if not wanted else f"the transcript has {len(wanted)} characters",
            where=Path(clip).name,
            fix=f"enter the words of the clip, in 1 to {MAX_TEXT} characters",
        )
    with _locked(project):
        tables = _tables(project)
        split, row = _place_of(tables, clip)
        _change(project, tables, {clip: (split, replace(row, text=wanted))}, kind="text")


def exclude(project: Project, *clips: str) -> None:
    """Take clips out of the dataset, all or none; their wavs stay, so that they can be restored.

    Raises:
        UserError: one is not in use, or its set would be empty.
    """
    with _locked(project):
        tables = _tables(project)
        places = {clip: _place_of(tables, clip) for clip in clips}
        _require_others(project, tables, clips)
        _keep_words(project, places)
        _change(project, tables, dict.fromkeys(clips), kind="excluded")


def restore(project: Project, *clips: str) -> None:
    """Put clips back that were taken out, all or none, each in the set it was in.

    Raises:
        UserError: one is in use already, or has no wav in the dataset.
    """
    with _locked(project):
        tables, report = _tables(project), current_report(project)
        known = {item.clip: item for item in report.clips if item.clip}
        in_use = {row.audio for rows in tables.values() for row in rows}
        places: dict[str, Place | None] = {}
        for clip in clips:
            found = known.get(clip)
            if found is None or not (project.dataset / clip).is_file():
                raise UserError(
                    what="the clip has no recording in the dataset",
                    where=Path(clip).name,
                    fix="fix its recording or transcript, then prepare the dataset again",
                )
            if clip in in_use:
                raise UserError(what="the clip is already in use", where=Path(clip).name)
            split: Split = found.split or report.splits.get(found.audio_hash, "train")
            places[clip] = split, Row(line=0, audio=clip, text=found.text, speaker=found.speaker or DEFAULT_SPEAKER)
        _change(project, tables, places, kind="restored")


def undo(project: Project) -> Edit:
    """Take back the last edit that `save_text`, `exclude` or `restore` made; the last 20 can be, one by one.

    Raises:
        UserError: there is none, or one of its clips was changed in another way since.
    """
    with _locked(project):
        edits, tables = load_edits(project.dataset), _tables(project)
        if not edits:
            raise UserError(what="there is no edit to undo", where=project.name)
        last = _, clips = edits.pop()
        now = _places(tables)
        changed = [clip for clip, (_, after) in clips.items() if plain(now.get(clip)) != plain(after)]
        if changed:
            save_edits(project.dataset, edits)
            raise UserError(
                what=f"the last edit cannot be undone: {Path(changed[0]).name} was changed in another way since",
                where=project.name,
                fix="edit the clip itself; undoing again takes back the edit before",
            )
        leaving = {clip: now[clip] for clip, (before, _) in clips.items() if before is None}
        _require_others(project, tables, leaving)
        _keep_words(project, leaving)
        _write_places(project, tables, {clip: before for clip, (before, _) in clips.items()})
        save_edits(project.dataset, edits)
        return last


def num_undoable(project: Project) -> int:
    """How many edits `undo` could take back."""
    return len(load_edits(project.dataset))


def can_be_restored(clip: ClipReport) -> bool:
    """Whether nothing but a clip's row is missing, so that `restore` puts it back at once."""
    return clip.status == "dropped" and clip.reason == EXCLUDED.reason and bool(clip.clip)


def _require_others(project: Project, tables: Tables, clips: Iterable[str]) -> None:
    """Do nothing when each set keeps a clip without these.

    Raises:
        UserError: one would be empty.
    """
    leaving = set(clips)
    for split, rows in tables.items():
        out = [row.audio for row in rows if row.audio in leaving]
        if out and len(out) == len(rows):
            is_one = len(out) == 1
            last = "this is the last clip" if is_one else f"these are the last {len(out)} clips"
            raise UserError(
                what=f"{last} of the {split} set",
                where=Path(out[0]).name if is_one else project.name,
                fix="keep it, or add more clips" if is_one else "keep one of them at least, or add more clips",
            )


def _place_of(tables: Tables, clip: str) -> Place:
    if (found := _places(tables).get(clip)) is None:
        raise UserError(what="the clip is not in use", where=Path(clip).name, fix="restore it first")
    return found


def _places(tables: Tables) -> dict[str, Place]:
    return {row.audio: (split, row) for split, rows in tables.items() for row in rows}


def _tables(project: Project) -> Tables:
    return {split: _rows_of(path, state_of(path)) for split, path in manifests(project).items()}


def _change(project: Project, tables: Tables, wanted: Mapping[str, Place | None], *, kind: EditKind) -> None:
    """Give clips other rows, None to take them out, and remember how they were."""
    now = _places(tables)
    done: Edit = kind, {clip: (now.get(clip), place) for clip, place in wanted.items()}
    _write_places(project, tables, wanted)
    save_edits(project.dataset, [*load_edits(project.dataset), done])


def _write_places(project: Project, tables: Tables, wanted: Mapping[str, Place | None]) -> None:
    """Rows that stay in their set keep their place in it; others come last."""
    for split, rows in tables.items():
        kept = []
        for row in rows:
            place = wanted.get(row.audio, (split, row))
            if place is not None and place[0] == split:
                kept.append(place[1])
        there = {row.audio for row in rows}
        kept += [place[1] for clip, place in wanted.items() if place and place[0] == split and clip not in there]
        if kept != rows:
            _write(project, split, kept)


@disk_errors()
def _write(project: Project, split: Split, rows: list[Row]) -> None:
    """Replace a metadata file in one move."""
    clips = [Clip(audio=project.dataset / row.audio, text=row.text, speaker=row.speaker) for row in rows]
    with replacing(manifests(project)[split]) as temporary:
        write_manifest(temporary, clips, folder=project.dataset)


@disk_errors()
def _keep_words(project: Project, places: Mapping[str, Place]) -> None:
    """Write what rows say into the report, which alone has it once they are removed."""
    if not places:
        return
    report = current_report(project)
    clips = []
    for item in report.clips:
        place = places.get(item.clip) if item.clip else None
        if place and (item.status == "used" or can_be_restored(item)):
            read = item.read if place[1].text == item.text else ""
            item = replace(item, text=place[1].text, read=read, speaker=place[1].speaker, split=place[0])
        clips.append(item)
    if clips != report.clips:
        with replacing(project.report) as temporary:
            report = replace(report, clips=clips)
            report.save(temporary)
            _keep(project.report, state_of(temporary), report)


def _locked(project: Project) -> FileLock:
    """Two browsers that save at once do so one after the other."""
    return FileLock(project.dataset / ".edit.lock", timeout=10)
