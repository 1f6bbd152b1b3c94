"""Fix single clips of a dataset: python -m utils.cli.fix exclude --project NAME --clip ID; accept, recut ...

Ids stand in report.html and report.json; the name of a clip's wav does as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from utils.cli.common import error_exits, parse
from utils.dataset.edits.edit import FixConfig, FixKind
from utils.settings import Config


@dataclass(frozen=True, kw_only=True)
class FixCommand(Config):
    """Fix one clip of a dataset."""

    fix: tyro.conf.Positional[FixKind]
    """Exclude it until it is restored, accept it whatever its flags, restore it as it was, write another text, trim
    it to a part, recut its edges within the recording, split it in two, or merge it with the clip that follows."""
    project: str
    """Name of the voice."""
    clip: str
    """Id of the clip, from report.html, or the name of its wav."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    text: str = ""
    """What is said in the clip, for text."""
    speaker: str | None = None
    """Who says it, for text; as before when not given."""
    start: float | None = None
    """Where the clip shall begin: in seconds of the clip for trim, of the recording for recut."""
    end: float | None = None
    """Where it shall end, in the same seconds."""
    at: float | None = None
    """Where to split it, in seconds of the clip."""
    texts: tuple[str, str] = ("", "")
    """What is said before and after the place where it is split."""

    @property
    def settings(self) -> FixConfig:
        """The fix as the engine knows it."""
        values = {f"{name}_s" if name in ("start", "end", "at") else name: value for name, value in vars(self).items()}
        before, after = values.pop("texts")
        return FixConfig(**values, text_before=before, text_after=after)


def main(args: Sequence[str] | None = None) -> None:
    """The command; exits with 2 after a fault that the user can fix."""
    with error_exits():
        fix_clip(parse(FixCommand, __doc__, args).settings.validate(where="fix"))


def fix_clip(config: FixConfig) -> None:
    """Fix a clip and print what became of all."""
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.dataset.edits.fixes import apply

    print(apply(config).table())


if __name__ == "__main__":
    main()
