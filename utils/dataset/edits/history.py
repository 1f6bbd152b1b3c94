"""What can be undone: the last edits of a dataset's rows, each with the rows before and after."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

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


Edit = tuple[EditKind, dict[str, tuple[Place | None, Place | None]]]
"""What one edit changed, by path of the wav: where it was before and after; None where it was not in use."""


def load_edits(dataset: Path) -> list[Edit]:
    """The edits of a dataset folder, the last one last; none where the file is missing or damaged."""
    try:
        content = json.loads((dataset / HISTORY_FILE).read_text(encoding="utf-8"))
        return [_edit(**entry) for entry in content]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


@disk_errors()
def save_edits(dataset: Path, edits: Sequence[Edit]) -> None:
    """Keep the last MAX_EDITS of them."""
    stored = [
        {"kind": kind, "clips": {clip: [*map(plain, places)] for clip, places in clips.items()}}
        for kind, clips in edits[-MAX_EDITS:]
    ]
    write_atomic(dataset / HISTORY_FILE, json.dumps(stored, ensure_ascii=False))


def plain(place: Place | None) -> list[str] | None:
    """The set, text and speaker of a place."""
    return [place[0], place[1].text, place[1].speaker] if place else None


def _edit(kind: EditKind, clips: dict[str, list[Any]]) -> Edit:
    if kind not in get_args(EditKind):
        raise ValueError(kind)
    return kind, {clip: (_place(clip, before), _place(clip, after)) for clip, (before, after) in clips.items()}


def _place(clip: str, values: list[Any] | None) -> Place | None:
    if values is None:
        return None
    split, text, speaker = values
    if split not in get_args(Split) or not isinstance(text, str) or not isinstance(speaker, str):
        raise ValueError(values)
    return split, Row(line=0, audio=clip, text=text, speaker=speaker)
