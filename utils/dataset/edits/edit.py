"""What can be done to one clip of a dataset by hand: `FixConfig`; and what of it needs no sound, done at once.

`save_text`, `exclude` and `restore` change the metadata files, which are the authority, as a person could in an editor.
The next preparation finds it there (see `utils.dataset.clips.existing`) and keeps it. Nothing here loads torch, so that
the page can do it; all else is a job, which runs `utils.dataset.edits.fixes.apply`, as the command line does.
"""

import csv as csv_format
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pandas as pd
from filelock import FileLock

from utils.config import Config
from utils.dataset.formats.table import AUDIO, DEFAULT_SPEAKER, SPEAKER, TEXT, Row, clean, read_table
from utils.dataset.storage.report import BY_HAND, EXCLUDED, ClipReport, Report, Split
from utils.errors import UserError, disk_errors
from utils.files import replacing, write_atomic
from utils.project.paths import Project

MAX_TEXT = 2_000
"""Characters; far more than any base can read."""

FixKind = Literal["accept", "exclude", "restore", "text", "trim", "split", "merge"]
NEEDED: dict[FixKind, tuple[str, ...]] = {"trim": ("start_s", "end_s"), "split": ("at_s",)}
"""Which times a fix needs."""


@dataclass(frozen=True, kw_only=True)
class FixConfig(Config):
    """Fix one clip of a dataset."""

    project: str
    """Name of the voice; its folder below `output`."""
    clip: str
    """Id of the clip, or the path of its wav below the dataset."""
    fix: FixKind
    """What to do: use it whatever its flags, exclude it, undo, write another transcript, keep a part, cut in two, join
    it with the next."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    text: str = ""
    """What is said in the clip."""
    speaker: str | None = None
    """Who says it; as before when not given."""
    start_s: float | None = None
    """Where the part to keep begins, in seconds of the clip."""
    end_s: float | None = None
    """Where the part to keep ends, in seconds of the clip."""
    at_s: float | None = None
    """Where to cut in two, in seconds of the clip."""
    text_before: str = ""
    """What is said before the cut."""
    text_after: str = ""
    """What is said after the cut."""

    def problems(self) -> list[str]:
        found = [
            f"{name} is not given; {self.fix} needs it, in seconds of the clip"
            for name in NEEDED.get(self.fix, ())
            if getattr(self, name) is None
        ]
        if not self.clip.strip():
            found.append("clip is empty; give its id, or the name of its wav")
        if self.fix == "split" and not (self.text_before.strip() and self.text_after.strip()):
            found.append("a half has no transcript; write what is said before and after the cut")
        return found


def current_clips(project: Project) -> list[ClipReport]:
    """The clips of the report as the metadata files have them now.

    Raises:
        UserError: the report or a metadata file cannot be read.
    """
    rows = {row.audio: (row, split) for split, table in _tables(project).items() for row in table}
    return [_as_edited(clip, rows) for clip in Report.load(project.report).clips]


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
        split = _split_of(tables, clip)
        rows = [replace(row, text=wanted) if row.audio == clip else row for row in tables[split]]
        _write(project, split, rows)


def exclude(project: Project, clip: str) -> None:
    """Take a clip out of the dataset; its wav stays, so that it can be restored.

    Raises:
        UserError: the clip is not in use, or its set would be empty.
    """
    with _locked(project):
        tables = _tables(project)
        split = _split_of(tables, clip)
        rows = [row for row in tables[split] if row.audio != clip]
        if not rows:
            raise UserError(
                what=f"this is the last clip of the {split} set",
                where=Path(clip).name,
                fix="keep it, or add more clips",
            )
        excluded = next(row for row in tables[split] if row.audio == clip)
        _keep_words(project, excluded, split)
        _write(project, split, rows)


def restore(project: Project, clip: str) -> None:
    """Put a clip back that was taken out, in the set it was in.

    Raises:
        UserError: it is in use already, or has no wav in the dataset.
    """
    with _locked(project):
        tables, report = _tables(project), Report.load(project.report)
        found = next((item for item in report.clips if item.clip == clip and clip), None)
        if found is None or not (project.dataset / clip).is_file():
            raise UserError(
                what="the clip has no recording in the dataset",
                where=Path(clip).name,
                fix="fix its recording or transcript, then prepare the dataset again",
            )
        if any(row.audio == clip for rows in tables.values() for row in rows):
            raise UserError(what="the clip is already in use", where=Path(clip).name)
        split: Split = found.split or report.splits.get(found.audio_hash, "train")
        speaker = found.speaker or DEFAULT_SPEAKER
        _write(project, split, [*tables[split], Row(line=0, audio=clip, text=found.text, speaker=speaker)])


def can_be_restored(clip: ClipReport) -> bool:
    """Whether nothing but a clip's row is missing, so that `restore` puts it back at once."""
    return clip.status == "dropped" and clip.reason == EXCLUDED.reason and bool(clip.clip)


def can_be_undone(clip: ClipReport) -> bool:
    """Whether anything but the transcript was changed by hand, so that it can be restored, at once or by a job."""
    return clip.reason in BY_HAND or clip.accepted or bool(clip.made_from)


def _as_edited(clip: ClipReport, rows: dict[str, tuple[Row, Split]]) -> ClipReport:
    found = rows.get(clip.clip) if clip.clip else None
    if found is not None and (clip.status == "used" or can_be_restored(clip)):
        row, split = found
        return replace(clip, status="used", reason="", detail="", text=row.text, speaker=row.speaker, split=split)
    if found is None and clip.status == "used":
        return clip.as_dropped(EXCLUDED)
    return clip


def _split_of(tables: dict[Split, list[Row]], clip: str) -> Split:
    split = next((name for name, rows in tables.items() if any(row.audio == clip for row in rows)), None)
    if split is None:
        raise UserError(what="the clip is not in use", where=Path(clip).name, fix="restore it first")
    return split


def _files(project: Project) -> dict[Split, Path]:
    return {"train": project.train_csv, "eval": project.eval_csv}


def _tables(project: Project) -> dict[Split, list[Row]]:
    return {split: read_table(path) for split, path in _files(project).items()}


@disk_errors()
def _write(project: Project, split: Split, rows: list[Row]) -> None:
    """Replace a metadata file in one move, in the layout of `utils.dataset.storage.manifest.write_manifest`."""
    path = _files(project)[split]
    columns = {AUDIO: [r.audio for r in rows], TEXT: [r.text for r in rows], SPEAKER: [r.speaker for r in rows]}
    table = pd.DataFrame(columns, dtype=str).to_csv(
        sep="|", index=False, quoting=csv_format.QUOTE_MINIMAL, lineterminator="\n"
    )
    write_atomic(path, table)


@disk_errors()
def _keep_words(project: Project, row: Row, split: Split) -> None:
    """Write what a row says into the report, which alone has it once the row is removed."""
    report = Report.load(project.report)
    clips = [
        replace(item, text=row.text, speaker=row.speaker, split=split)
        if item.clip == row.audio and (item.status == "used" or can_be_restored(item))
        else item
        for item in report.clips
    ]
    if clips != report.clips:
        with replacing(project.report) as temporary:
            replace(report, clips=clips).save(temporary)


def _locked(project: Project) -> FileLock:
    """Two browsers that save at once do so one after the other."""
    return FileLock(project.dataset / ".edit.lock", timeout=10)
