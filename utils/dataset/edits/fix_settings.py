"""Settings of a fix job: one edit of one clip."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from utils.config import Config

FixKind = Literal["accept", "exclude", "restore", "trim", "split", "merge"]
TIMES: dict[FixKind, tuple[str, ...]] = {"trim": ("start_s", "end_s"), "split": ("at_s",)}
"""Which times a fix needs."""


@dataclass(frozen=True, kw_only=True)
class FixConfig(Config):
    """Mend one clip of a dataset."""

    project: str
    """Name of the voice; its folder below `output`."""
    clip: str
    """Id of the clip, or the path of its wav below the dataset."""
    fix: FixKind
    """What to do: use it whatever its flags, leave it out, undo, keep a part, cut in two, join it with the next."""
    output: Path = Path("output")
    """The folder that holds all projects."""
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
            for name in TIMES.get(self.fix, ())
            if getattr(self, name) is None
        ]
        if not self.clip.strip():
            found.append("clip is empty; give its id, or the name of its wav")
        if self.fix == "split" and not (self.text_before.strip() and self.text_after.strip()):
            found.append("a half has no transcript; write what is said before and after the cut")
        return found
