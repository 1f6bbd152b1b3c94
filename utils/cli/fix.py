"""Mend single clips of a dataset: python -m utils.cli.fix exclude --project NAME --clip ID; accept, split, merge ...

Ids stand in report.html and report.json; the name of a clip's wav does as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from utils.cli.common import error_exits
from utils.dataset.edits.fix_settings import FixConfig
from utils.dataset.storage.report import Report
from utils.project.paths import Project, open_project


@dataclass(frozen=True, kw_only=True)
class _Clip:
    project: str
    """Name of the voice."""
    clip: str
    """Id of the clip, from report.html, or the name of its wav."""
    output: Path = Path("output")
    """The folder that holds all projects."""


@dataclass(frozen=True, kw_only=True)
class Exclude(_Clip):
    """Leave a clip out until it is restored."""


@dataclass(frozen=True, kw_only=True)
class Accept(_Clip):
    """Use a clip whatever its flags."""


@dataclass(frozen=True, kw_only=True)
class Restore(_Clip):
    """Take back exclusion, acceptance, trimming, splitting or merging."""


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
class Split(_Clip):
    """Make two clips of one."""

    at: float
    """Where to cut, in seconds of the clip."""
    texts: tuple[str, str]
    """What is said before and after the cut."""


@dataclass(frozen=True, kw_only=True)
class Merge(_Clip):
    """Join a clip with the one that follows it."""


Fix = (
    Annotated[Exclude, tyro.conf.subcommand("exclude")]
    | Annotated[Accept, tyro.conf.subcommand("accept")]
    | Annotated[Restore, tyro.conf.subcommand("restore")]
    | Annotated[Text, tyro.conf.subcommand("text")]
    | Annotated[Trim, tyro.conf.subcommand("trim")]
    | Annotated[Split, tyro.conf.subcommand("split")]
    | Annotated[Merge, tyro.conf.subcommand("merge")]
)


def main(args: Sequence[str] | None = None) -> None:
    """The command; exits with 2 after a fault that the user can mend."""
    with error_exits():
        fix = tyro.cli(Fix, description=__doc__, args=args)  # type: ignore[call-overload]
        report = _apply(fix, open_project(fix.project, fix.output))
        print(report.table())


def _apply(fix: _Clip, project: Project) -> Report:
    from utils.dataset.edits import fixes

    match fix:
        case Exclude():
            return fixes.exclude(project, fix.clip)
        case Accept():
            return fixes.accept(project, fix.clip)
        case Restore():
            return fixes.restore(project, fix.clip)
        case Text():
            return fixes.edit_text(project, fix.clip, fix.text, speaker=fix.speaker)
        case Trim():
            return fixes.trim(project, fix.clip, start_s=fix.start, end_s=fix.end)
        case Split():
            return fixes.split(project, fix.clip, at_s=fix.at, texts=fix.texts)
        case Merge():
            return fixes.merge_with_next(project, fix.clip)
    raise AssertionError(fix)


def apply(config: FixConfig) -> Report:
    """Do the fix of a job.

    Raises:
        UserError: no such clip, or it cannot be mended so.
    """
    from utils.dataset.edits import fixes

    project, clip = open_project(config.project, config.output), config.clip
    match config.fix:
        case "trim":
            assert config.start_s is not None and config.end_s is not None, "checked by FixConfig.problems"
            return fixes.trim(project, clip, start_s=config.start_s, end_s=config.end_s)
        case "split":
            assert config.at_s is not None, "checked by FixConfig.problems"
            return fixes.split(project, clip, at_s=config.at_s, texts=(config.text_before, config.text_after))
        case "merge":
            return fixes.merge_with_next(project, clip)
        case "accept":
            return fixes.accept(project, clip)
        case "exclude":
            return fixes.exclude(project, clip)
        case "restore":
            return fixes.restore(project, clip)


if __name__ == "__main__":
    main()
