"""What can be undone: the last edits of a dataset's rows, each with the rows before and after."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from utils.dataset.formats.table import Row
from utils.dataset.storage.report import Split
from utils.errors import disk_errors
from utils.files import write_atomic

Place = tuple[Split, Row]
"""The set of a clip, and its row there."""
EditKind = Literal["text", "excluded", "restored"]
HISTORY_FILE = ".edits.json"
"""Beside the metadata files."""
MAX_EDITS = 20


@dataclass(frozen=True, kw_only=True)
class Edit:
    """What one edit changed."""

    kind: EditKind
    clips: dict[str, tuple[Place | None, Place | None]]
    """By path of the wav: where it was before and after; None where it was not in use."""

    def stored(self) -> dict[str, Any]:
        clips = {clip: [plain(before), plain(after)] for clip, (before, after) in self.clips.items()}
        return {"kind": self.kind, "clips": clips}

    @classmethod
    def load(cls, stored: dict[str, Any]) -> Self:
        if stored["kind"] not in get_args(EditKind):
            raise ValueError(stored["kind"])
        clips = {clip: (_place(clip, before), _place(clip, after)) for clip, (before, after) in stored["clips"].items()}
        return cls(kind=stored["kind"], clips=clips)


def load_edits(dataset: Path) -> list[Edit]:
    """The edits of a dataset folder, the last one last; none where the file is missing or damaged."""
    try:
        content = json.loads((dataset / HISTORY_FILE).read_text(encoding="utf-8"))
        return [Edit.load(entry) for entry in content]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


@disk_errors()
def save_edits(dataset: Path, edits: Sequence[Edit]) -> None:
    """Keep the last MAX_EDITS of them."""
    content = json.dumps([edit.stored() for edit in edits[-MAX_EDITS:]], ensure_ascii=False)
    write_atomic(dataset / HISTORY_FILE, content)


def plain(place: Place | None) -> list[str] | None:
    """The set, text and speaker of a place."""
    return [place[0], place[1].text, place[1].speaker] if place else None


def _place(clip: str, values: list[Any] | None) -> Place | None:
    if values is None:
        return None
    split, text, speaker = values
    if split not in get_args(Split) or not isinstance(text, str) or not isinstance(speaker, str):
        raise ValueError(values)
    return split, Row(line=0, audio=clip, text=text, speaker=speaker)
