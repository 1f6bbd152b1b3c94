"""Fix single clips of a dataset: python -m utils.cli.fix exclude --project NAME --clip ID; accept, recut ...

Ids stand in report.html and report.json; the name of a clip's wav does as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from utils.cli.common import error_exits, program
from utils.dataset.edits.edit import FixConfig


@dataclass(frozen=True, kw_only=True)
class _Clip:
    project: str
    """Name of the voice."""
    clip: str
    """Id of the clip, from report.html, or the name of its wav."""
    output: Path = Path("output")
    """The folder that holds all projects."""

    def config(self) -> FixConfig:
        """The fix as the engine knows it."""
        values = {f"{name}_s" if name in ("start", "end", "at") else name: value for name, value in vars(self).items()}
        halves = zip(("text_before", "text_after"), values.pop("texts", ()), strict=False)
        return FixConfig(fix=type(self).__name__.lower(), **values, **dict(halves))  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Exclude(_Clip):
    """Leave a clip out until it is restored."""


@dataclass(frozen=True, kw_only=True)
class Accept(_Clip):
    """Use a clip whatever its flags."""


@dataclass(frozen=True, kw_only=True)
class Restore(_Clip):
    """Take back exclusion, acceptance, trimming, moved edges, splitting or merging."""


@dataclass(frozen=True, kw_only=True)
class Text(_Clip):
    """Write another transcript."""

    text: str
    """What is said in the clip."""
    speaker: str | None = None
    """Who says it; as before when not given."""


@dataclass(frozen=True, kw_only=True)
class Trim(_Clip):
    """Keep a part of a clip."""

    start: float
    """Where the part begins, in seconds of the clip."""
    end: float
    """Where it ends, in seconds of the clip."""


@dataclass(frozen=True, kw_only=True)
class Recut(_Clip):
    """Move the edges of a clip within its recording, outwards too."""

    start: float
    """Where the clip begins, in seconds of the recording."""
    end: float
    """Where it ends, in seconds of the recording."""


@dataclass(frozen=True, kw_only=True)
class Split(_Clip):
    """Make two clips of one."""

    at: float
    """Where to cut, in seconds of the clip."""
    texts: tuple[str, str]
    """What is said before and after the cut."""


@dataclass(frozen=True, kw_only=True)
class Merge(_Clip):
    """Join a clip with the one that follows it."""


Fix = Exclude | Accept | Restore | Text | Trim | Recut | Split | Merge


def main(args: Sequence[str] | None = None) -> None:
    """The command; exits with 2 after a fault that the user can fix."""
    with error_exits():
        fix = tyro.cli(Fix, prog=program(), description=__doc__, args=args)  # type: ignore[call-overload]
        _fix(fix.config().validate(where="fix"))


def _fix(config: FixConfig) -> None:
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.dataset.edits.fixes import apply

    print(apply(config).table())


if __name__ == "__main__":
    main()
