"""Read the weights of a checkpoint, checked against the marks that it was completed with."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from utils.errors import UserError
from utils.files import file_hash
from utils.model.weights import State, read_weights
from utils.runs.layout import COMPLETE_FILE, MODEL_FILE, is_complete


def load_checkpoint(folder: Path) -> State:
    """The GPT weights of a checkpoint, checked against its marks.

    Raises:
        UserError: incomplete, or changed since it was written.
    """
    verify(folder, [MODEL_FILE])
    return read_weights(folder / MODEL_FILE)


def verify(folder: Path, names: Iterable[str] | None = None) -> None:
    """Read files of a checkpoint through, all when none is named, and find them as they were written.

    Raises:
        UserError: incomplete, or changed since it was written; says which file.
    """
    marks = marks_of(folder) if is_complete(folder) else {}
    for name in names or marks or [COMPLETE_FILE]:
        mark = marks.get(name)
        if mark is None:
            raise UserError(what="this is not a complete checkpoint", where=str(folder), fix="name another checkpoint")
        if file_hash(folder / name) != mark.get("sha256"):
            what, where = f"the checkpoint's {Path(name).name} is damaged", str(folder / name)
            raise UserError(what=what, where=where, fix="name another checkpoint")


def marks_of(folder: Path) -> dict[str, Any]:
    """Size and hash of each file of a complete checkpoint, as they were when it was written."""
    marks: dict[str, Any] = json.loads((folder / COMPLETE_FILE).read_text(encoding="utf-8"))
    return marks
