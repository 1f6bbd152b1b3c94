"""What preflight measured last in a project: a row for each combination of switches, written after each row."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from utils.errors import disk_errors
from utils.files import write_atomic
from utils.project.paths import Project

FILE = "preflight.json"
MAX_ROWS = 100


@dataclass(frozen=True, kw_only=True)
class MeasuredRow:
    """A combination of switches and what it cost."""

    name: str
    """The switches that are on."""
    settings: dict[str, Any]
    """Settings of a training that preflight chooses, by name."""
    step_s: float = 0.0
    audio_per_second: float = 0.0
    """Seconds of speech trained on in a second."""
    peak_bytes: int = 0
    hours: float | None = None
    """Of the whole training, evaluations and checkpoints not included; None where it could not be measured."""
    off: tuple[str, ...] = ()
    """Switches that were asked for and did not run."""
    fault: str = ""
    """Why it could not be measured."""


@dataclass(frozen=True, kw_only=True)
class MeasuredSwitches:
    """The rows so far."""

    rows: tuple[MeasuredRow, ...] = ()
    left: int = 0
    """Rows that may follow."""
    best: int | None = None
    """The recommended row, counted from 0; None before the end, or where none could be measured."""

    @classmethod
    def load(cls, project: Project) -> Self:
        """What was measured last; nothing where there is no such file, or a damaged one."""
        try:
            content = json.loads(_file(project).read_text(encoding="utf-8"))
            rows = tuple(_row(row) for row in content["rows"][:MAX_ROWS])
            best = content["best"]
            is_row = isinstance(best, int) and 0 <= best < len(rows) and not rows[best].fault
            return cls(rows=rows, left=int(content["left"]), best=best if is_row else None)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return cls()

    @disk_errors()
    def save(self, project: Project) -> None:
        """Write it in place of what was measured before.

        Raises:
            UserError: the disk is full or not writable.
        """
        write_atomic(_file(project), json.dumps(asdict(self)))


def _file(project: Project) -> Path:
    return project.folder / FILE


def _row(values: dict[str, Any]) -> MeasuredRow:
    numbers = {name: float(values[name]) for name in ("step_s", "audio_per_second", "peak_bytes")}
    hours = None if values["hours"] is None else float(values["hours"])
    if not all(math.isfinite(number) for number in (*numbers.values(), hours or 0.0)):
        raise ValueError(values)
    return MeasuredRow(
        name=str(values["name"]),
        settings={str(name): value for name, value in values["settings"].items()},
        step_s=numbers["step_s"],
        audio_per_second=numbers["audio_per_second"],
        peak_bytes=int(numbers["peak_bytes"]),
        hours=hours,
        off=tuple(map(str, values["off"])),
        fault=str(values["fault"]),
    )
