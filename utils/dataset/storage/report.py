"""Report every clip: report.json and the table printed for the user."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple, Self

from utils.dataset.formats.faults import Fault, Reason
from utils.errors import UserError
from utils.options import DATASET_RATE
from utils.project.paths import Project
from utils.text.unknown import UnknownCharacter, count_unknown

Status = Literal["used", "dropped"]
Split = Literal["train", "eval"]
_SHOWN = 20
"""Dropped clips that the table names one by one; report.json names all."""


EXCLUDED = Fault("excluded", "excluded by hand; restore the clip to use it")
"""Its row is not in the metadata files: the page, the command or an editor removed it."""
BY_HAND: tuple[Reason, ...] = ("excluded", "replaced")
"""Reasons that people gave: they stand until they are taken back."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """A part of a recording."""

    audio: str
    """Absolute path."""
    start_s: float = 0.0
    """Where it begins, in seconds."""
    end_s: float | None = None
    """Where it ends, in seconds; None is the end of the file."""


class Flag(NamedTuple):
    """Why a clip deserves a look."""

    measure: str
    """What was measured: noise, clipping, speaker, ..."""
    detail: str
    """One sentence with the value and the limit."""


@dataclass(frozen=True, kw_only=True)
class ClipReport:
    """What became of one clip."""

    source: str
    """Absolute path of the file the user gave."""
    id: str = ""
    """Of the part of the recording it was made from, by content: stays when settings, texts or file names change."""
    start_s: float = 0.0
    """Where it begins in the recording, in seconds."""
    end_s: float | None = None
    """Where it ends, in seconds; None is the end of the file."""
    joined: tuple[Span, ...] = ()
    """Further parts that follow it without a pause."""
    made_from: tuple[str, ...] = ()
    """Ids of the clips that a fix made it from."""
    origin: str = ""
    """What it was made of, for people: which cues of which subtitles, which line of a table."""
    clip: str = ""
    """Path of the wav below the dataset folder; empty when none was made."""
    status: Status
    reason: Reason | Literal[""] = ""
    """Why it was dropped."""
    detail: str = ""
    """The offending value and the limit."""
    split: Split | Literal[""] = ""
    text: str = ""
    """Transcript in the dataset."""
    read: str = ""
    """The transcript as the base's tokenizer sees it: numbers and symbols as words, lower case."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Characters that the base has no token for, each with what to do about it."""
    heard: str = ""
    """The recognized text, where transcripts are checked."""
    speaker: str = ""
    source_text: str = ""
    """Transcript as the source had it: differs from `text` when the dataset was edited by hand."""
    source_speaker: str = ""
    notes: tuple[str, ...] = ()
    """What of its text has no rule in this language, and is read literally or dropped; of clips in use."""
    num_tokens: int = 0
    num_samples: int = 0
    """Length at 22 050 Hz."""
    source_hash: str = ""
    """Of the file's bytes: an unchanged file is not decoded again."""
    audio_hash: str = ""
    """Of the 16-bit samples at 22 050 Hz before cleaning: identifies duplicates, decides the split."""
    wav_hash: str = ""
    """Of the samples of its wav."""
    cleaning: str = ""
    """Changes with the cleaning settings that its wav was made with; empty is none."""
    trimmed_s: float = 0.0
    """Silence taken off its beginning, in seconds."""
    gain_db: float = 0.0
    """Amplification."""
    measures: dict[str, float] = field(default_factory=dict)
    """What was measured; see `utils.dataset.quality.measures`."""
    fingerprint: str = ""
    """Of its sound, as `utils.dataset.clips.sound` packs it: copies have nearly the same."""
    flags: tuple[Flag, ...] = ()
    """Measures that deserve a look."""
    accepted: bool = False
    """Reviewed and found good: it is used whatever its flags."""

    @property
    def seconds(self) -> float:
        """Duration, in seconds."""
        return self.num_samples / DATASET_RATE

    @property
    def name(self) -> str:
        """What people know it by: its file, and the time in it where it is a part."""
        name = Path(self.source).name
        if self.end_s is None and not self.start_s:
            return name
        return f"{name} {clock(self.start_s)}-{clock(self.end_s) if self.end_s is not None else 'end'}"

    @property
    def is_part(self) -> bool:
        """Whether it is cut from a longer recording."""
        return self.start_s > 0 or self.end_s is not None

    def as_dropped(self, fault: Fault) -> Self:
        """The clip, no more in use."""
        return replace(self, status="dropped", reason=fault.reason, detail=fault.detail, split="")

    @classmethod
    def load(cls, values: dict[str, Any]) -> Self:
        """A clip of report.json; fields of later versions are ignored."""
        known = {item.name for item in fields(cls)}
        clip = {key: value for key, value in values.items() if key in known}
        clip["joined"] = tuple(Span(**span) for span in clip.get("joined", ()))
        clip["flags"] = tuple(Flag(*flag) for flag in clip.get("flags", ()))
        clip["made_from"] = tuple(clip.get("made_from", ()))
        clip["notes"] = tuple(clip.get("notes", ()))
        if clip.get("reason") == "removed by hand":  # as earlier versions called it
            clip |= {"reason": EXCLUDED.reason, "detail": EXCLUDED.detail}
        return cls(**clip)


Section = tuple[str, Sequence[Any], tuple[str, ...], Callable[[Any], tuple[Any, ...]]]
"""A title, what is listed below it, the heads of the columns, and what makes the cells of one thing."""
_WHY = ("clip", "why")


@dataclass(frozen=True, kw_only=True)
class Report:
    """Every clip the dataset was ever given, what is in it now, and the settings of the last preparation."""

    clips: list[ClipReport]
    settings: dict[str, Any]
    added: int = 0
    """Clips that the last preparation brought in."""
    unchanged: int = 0
    """Clips that it found again as they were."""
    splits: dict[str, Split] = field(default_factory=dict)
    """The split of every sound the dataset ever used, by audio hash: one that comes back goes where it was."""
    notes: list[str] = field(default_factory=list)
    """What the last preparation read otherwise than written."""
    ignored: dict[str, str] = field(default_factory=dict)
    """Files of its input that are no part of the dataset: image, text, ... or why it is not read, by absolute path."""

    @property
    def used(self) -> list[ClipReport]:
        return [clip for clip in self.clips if clip.status == "used"]

    @property
    def dropped(self) -> list[ClipReport]:
        return [clip for clip in self.clips if clip.status == "dropped"]

    @property
    def flagged(self) -> list[ClipReport]:
        """Those in use that are to be reviewed."""
        return [clip for clip in self.used if clip.flags and not clip.accepted]

    @property
    def noted(self) -> list[ClipReport]:
        """Those in use whose text has something without a rule."""
        return [clip for clip in self.used if clip.notes]

    def in_split(self, split: Split) -> list[ClipReport]:
        return [clip for clip in self.used if clip.split == split]

    @property
    def totals(self) -> dict[str, Any]:
        """Counts of clips and the seconds of speech in use."""
        reasons = Counter(clip.reason for clip in self.dropped)
        return {
            "clips": len(self.clips),
            "used": len(self.used),
            "dropped": len(self.dropped),
            "train": len(self.in_split("train")),
            "eval": len(self.in_split("eval")),
            "added": self.added,
            "unchanged": self.unchanged,
            "seconds": round(sum(clip.seconds for clip in self.used), 3),
            "flagged": len(self.flagged),
            "flags": dict(Counter(flag.measure for clip in self.used for flag in clip.flags).most_common()),
            "noted": len(self.noted),
            "reasons": dict(reasons.most_common()),
            "ignored": len(self.ignored),
            "unknown_characters": [asdict(found) for found in self.unknown_characters],
        }

    @property
    def unknown_characters(self) -> list[UnknownCharacter]:
        """What the base cannot read in the transcripts given, the most frequent first."""
        return count_unknown((clip.read, clip.unknown) for clip in self.dropped if clip.unknown)

    def save(self, path: Path) -> None:
        """Write report.json.

        Raises:
            OSError: the disk is full or not writable.
        """
        # Not asdict, which copies all that is in them.
        clips = [vars(clip) | {"seconds": round(clip.seconds, 3)} for clip in self.clips]
        content = {"totals": self.totals, "settings": self.settings, "clips": clips, "splits": self.splits}
        content |= {
            "notes": self.notes,
            "ignored": [{"file": file, "kind": kind} for file, kind in self.ignored.items()],
        }
        # A clip a line: json indents in Python, which takes five times as long.
        encode = json.JSONEncoder(ensure_ascii=False, default=vars).encode
        lines = ",\n".join(map(encode, clips))
        parts = {name: f"[\n{lines}\n]" if name == "clips" else encode(value) for name, value in content.items()}
        text = ",\n".join(f'"{name}": {part}' for name, part in parts.items())
        path.write_text(f"{{{text}}}\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a report.json; fields of later versions are ignored.

        Raises:
            UserError: the file is missing or not such a report.
        """
        try:
            # Each clip as soon as it is read: 50,000 take 100 MB more as plain values.
            content = json.loads(
                path.read_text(encoding="utf-8"),
                object_hook=lambda one: ClipReport.load(one) if one.keys() >= {"source", "status"} else one,
            )
            clips = content["clips"]
            if not all(isinstance(clip, ClipReport) for clip in clips):
                raise TypeError("clips lack their source or status")
            totals = content["totals"]
            return cls(
                clips=clips,
                settings=content["settings"],
                added=totals["added"],
                unchanged=totals["unchanged"],
                splits=content["splits"],
                notes=content.get("notes", []),
                ignored={found["file"]: found["kind"] for found in content.get("ignored", [])},
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                what=f"the dataset's report cannot be read: {error!r}",
                where=str(path),
                fix="restore the file, or prepare under another project name",
            ) from error

    @property
    def sections(self) -> tuple[Section, ...]:
        """What people should look at, and the dropped clips last."""
        no_rule, as_read = "used, without a normalization rule for all of the text", "read otherwise than written"
        unknown = self.unknown_characters
        return (
            ("used, to be reviewed", self.flagged, _WHY, lambda c: (c.name, "; ".join(map(": ".join, c.flags)))),
            (no_rule, self.noted, _WHY, lambda c: (c.name, "; ".join(c.notes))),
            ("unsupported characters", unknown, ("character", "count and fix"), lambda u: (u.title, u.advice)),
            (as_read, self.notes, ("note",), lambda note: (note,)),
            ("ignored", list(self.ignored.items()), ("file", "kind"), tuple),
            ("dropped", self.dropped, _WHY, lambda c: (c.name, f"{c.reason}: {c.detail}")),
        )

    @property
    def overview(self) -> list[tuple[str, object, str]]:
        """What became of the clips: a name, how many, and the minutes of those in use."""
        timed = {"used": self.used, "  for training": self.in_split("train"), "  for evaluation": self.in_split("eval")}
        reasons = Counter(clip.reason for clip in self.dropped).most_common()
        return [
            ("", "clips", "minutes"),
            ("given", len(self.clips), ""),
            *((name, len(found), f"{sum(clip.seconds for clip in found) / 60:.1f}") for name, found in timed.items()),
            ("dropped", len(self.dropped), ""),
            *((f"  {reason}", count, "") for reason, count in reasons),
        ]

    def table(self) -> str:
        """The report as text, for the terminal and the log."""
        lines = [f"{name:<24}{count!s:>8}{minutes:>10}".rstrip() for name, count, minutes in self.overview]
        if denoised := [clip.measures for clip in self.used if "snr_before" in clip.measures]:
            before, after = (median(measures[name] for measures in denoised) for name in ("snr_before", "snr"))
            lines += ["", f"noise removed: signal-to-noise ratio {before:.1f} -> {after:.1f} dB (median)"]
        for title, found, _, cells in self.sections:
            rows = [": ".join(map(str, cells(one)[:2])) for one in found[:_SHOWN]]
            lines += ["", title, *(f"  {row}" for row in rows)] if rows else []
            if len(found) > _SHOWN:
                lines.append(f"  and {len(found) - _SHOWN} more, all in report.json")
        return "\n".join(lines)


def manifests(project: Project) -> dict[Split, Path]:
    """The metadata files of a project's dataset."""
    return {"train": project.train_csv, "eval": project.eval_csv}


def as_edited(clips: Sequence[ClipReport], rows: Mapping[str, tuple[Split, str, str]]) -> list[ClipReport]:
    """Clips with what their rows say now; one in use whose row was removed is excluded.

    Args:
        clips: of a report.
        rows: split, text and speaker by the path of the wav.
    """
    # A dropped clip may share its wav with one in use (the same sound in two files): the row is that one's.
    by_status = sorted(enumerate(clips), key=lambda item: item[1].status == "used")
    owners = {clip.clip: number for number, clip in by_status if clip.clip}
    found = []
    for number, clip in enumerate(clips):
        row = rows.get(clip.clip) if owners.get(clip.clip) == number else None
        if row is None:
            found.append(clip.as_dropped(EXCLUDED) if clip.status == "used" else clip)
            continue
        split, text, speaker = row
        now: dict[str, Any] = {"status": "used", "reason": "", "detail": "", "split": split}
        now |= {"text": text, "speaker": speaker}
        # Most clips are as they were, and copying 50,000 of them takes a second. How the base reads other words is
        # known after the next preparation.
        is_same = now.items() <= vars(clip).items()
        found.append(clip if is_same else replace(clip, **now, read=clip.read if text == clip.text else ""))
    return found


def explain(clip: ClipReport) -> str:
    """A dropped clip in one line: file, reason, detail."""
    return f"{clip.name}: {clip.reason}: {clip.detail}"


def clock(seconds: float) -> str:
    """Seconds as people read them on a player: 1:02:03.45."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02}:{rest:05.2f}" if hours else f"{minutes}:{rest:05.2f}"
