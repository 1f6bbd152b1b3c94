"""What became of every clip: report.json and the table that people read."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from utils.config import SAMPLE_RATE
from utils.errors import UserError

Status = Literal["used", "dropped"]
Split = Literal["train", "eval"]
Reason = Literal[
    "missing file",
    "outside the folder",
    "no transcript",
    "no recording",
    "unreadable audio",
    "silent",
    "too short",
    "too long",
    "empty text",
    "text too long",
    "unreadable text",
    "unknown characters",
    "duplicate audio",
    "removed by hand",
]
_SHOWN = 20
"""Dropped clips that the table names one by one; report.json names all."""


class Fault(NamedTuple):
    """Why a clip cannot be used."""

    reason: Reason
    detail: str
    """One sentence with the offending value and the limit."""


@dataclass(frozen=True, kw_only=True)
class ClipReport:
    """What became of one clip."""

    source: str
    """Absolute path of the file the user gave."""
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
    speaker: str = ""
    source_text: str = ""
    """Transcript as the source had it: differs from `text` when the dataset was edited by hand."""
    source_speaker: str = ""
    num_tokens: int = 0
    num_samples: int = 0
    """Length at 22 050 Hz."""
    source_hash: str = ""
    """Of the file's bytes: an unchanged file is not decoded again."""
    audio_hash: str = ""
    """Of the 16-bit samples at 22 050 Hz: tells duplicates, decides the split."""

    @property
    def seconds(self) -> float:
        """Duration, in seconds."""
        return self.num_samples / SAMPLE_RATE


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

    @property
    def used(self) -> list[ClipReport]:
        return [clip for clip in self.clips if clip.status == "used"]

    @property
    def dropped(self) -> list[ClipReport]:
        return [clip for clip in self.clips if clip.status == "dropped"]

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
            "reasons": dict(reasons.most_common()),
        }

    def save(self, path: Path) -> None:
        """Write report.json.

        Raises:
            OSError: the disk is full or not writable.
        """
        clips = [asdict(clip) | {"seconds": round(clip.seconds, 3)} for clip in self.clips]
        content = {"totals": self.totals, "settings": self.settings, "clips": clips, "splits": self.splits}
        path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a report.json; fields of later versions are ignored.

        Raises:
            UserError: the file is missing or not such a report.
        """
        known = {item.name for item in fields(ClipReport)}
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            clips = [ClipReport(**{k: v for k, v in clip.items() if k in known}) for clip in content["clips"]]
            totals = content["totals"]
            return cls(
                clips=clips,
                settings=content["settings"],
                added=totals["added"],
                unchanged=totals["unchanged"],
                splits=content["splits"],
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                what=f"the dataset's report cannot be read: {error!r}",
                where=str(path),
                fix="restore the file, or prepare under another project name",
            ) from error

    def table(self) -> str:
        """The report as text, for the terminal and the log."""
        lines = [_row("", "clips", "minutes"), *(_row(*cells) for cells in self._counts())]
        if self.dropped:
            lines += ["", "dropped"] + [f"  {explain(clip)}" for clip in self.dropped[:_SHOWN]]
        if len(self.dropped) > _SHOWN:
            lines.append(f"  and {len(self.dropped) - _SHOWN} more, all in report.json")
        return "\n".join(lines)

    def _counts(self) -> list[tuple[str, str, str]]:
        train, held_out = self.in_split("train"), self.in_split("eval")
        rows: list[tuple[str, int, list[ClipReport] | None]] = [
            ("given", len(self.clips), None),
            ("used", len(self.used), self.used),
            ("  for training", len(train), train),
            ("  for evaluation", len(held_out), held_out),
            ("dropped", len(self.dropped), None),
            *((f"  {reason}", count, None) for reason, count in self.totals["reasons"].items()),
        ]
        return [(name, str(count), _minutes(clips)) for name, count, clips in rows]


def explain(clip: ClipReport) -> str:
    """A dropped clip in one line: file, reason, detail."""
    return f"{Path(clip.source).name}: {clip.reason}: {clip.detail}"


def _minutes(clips: list[ClipReport] | None) -> str:
    return "" if clips is None else f"{sum(clip.seconds for clip in clips) / 60:.1f}"


def _row(name: str, count: str, minutes: str) -> str:
    return f"{name:<24}{count:>8}{minutes:>10}".rstrip()
