"""Prepare a dataset: every recording is read, checked, brought to 22 050 Hz mono and accounted for."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from utils.config import PrepareConfig
from utils.dataset.checks import Checks
from utils.dataset.existing import Existing, read_existing
from utils.dataset.locate import printable, real_path
from utils.dataset.make_clip import ClipMaker
from utils.dataset.manifest import Clip, write_manifest
from utils.dataset.report import ClipReport, Report, Split, explain
from utils.dataset.sources import Recording, read_source
from utils.dataset.split import assign_splits
from utils.dataset.staging import Staging, staged
from utils.errors import UserError
from utils.paths import Project, open_project

Progress = Callable[[int, int], None]
"""Called with (clips done, clips in all)."""


def prepare(config: PrepareConfig, *, progress: Progress | None = None) -> Report:
    """Bring recordings with transcripts into the project's dataset.

    Writes output/<project>/dataset/ {wavs/, metadata_train.csv, metadata_eval.csv, lang.txt, report.json}. Run again,
    it adds what is new, does not decode what it has, and keeps what is not in this input, every clip's split and
    edits made to the metadata files by hand. After any error the dataset is as it was.

    Args:
        config: checked settings.
        progress: told (clips done, clips in all).

    Returns:
        What became of every clip that the dataset was ever given.

    Raises:
        UserError: the input cannot be read or holds no usable clip, a set would be empty, the base cannot read the
            language, the dataset has another one, or the disk is full.
    """
    project = open_project(config.project, config.output)
    _check_apart(config.input, project)
    recordings = read_source(config.input)
    checks = _checks(config)
    with staged(project) as staging:
        old = read_existing(project, checks.language)
        made = _make_clips(recordings, old, checks, staging, progress)
        report = _report(_merge(old.clips, made), made, old, _settings(config, checks))
        _write(report, checks.language, project, staging)
        staging.commit()
    return report


def _check_apart(source: Path, project: Project) -> None:
    """Recordings that lie in the dataset itself would be prepared again on every run."""
    given, dataset = real_path(source.expanduser()), project.dataset.resolve()
    if given is None:
        return
    if given.is_relative_to(dataset) or (given.is_dir() and project.output.resolve().is_relative_to(given)):
        raise UserError(
            what="the input and the output folder lie in one another",
            where=f"{source} and {project.dataset}",
            fix="keep the recordings in a folder of their own",
        )


def _checks(config: PrepareConfig) -> Checks:
    # Imported here: the base model's module takes a second to load, after the input has been found readable.
    from utils.model.base import find_base

    return Checks.of(config, find_base(config.base))


def _make_clips(
    recordings: list[Recording],
    old: Existing,
    checks: Checks,
    staging: Staging,
    progress: Progress | None,
) -> list[ClipReport]:
    """What becomes of each recording.

    Raises:
        UserError: none is usable.
    """
    maker = ClipMaker(checks=checks, wavs=staging.wavs, existing=old)
    made = []
    for recording in recordings:
        made.append(maker.make(recording))
        if progress is not None:
            progress(len(made), len(recordings))
    _require_usable(made)
    return made


def _require_usable(made: list[ClipReport]) -> None:
    if any(clip.status == "used" for clip in made):
        return
    reasons = ", ".join(f"{count} {reason}" for reason, count in Counter(clip.reason for clip in made).most_common())
    clips = "the only clip cannot" if len(made) == 1 else f"none of the {len(made)} clips can"
    raise UserError(
        what=f"{clips} be used ({reasons}); the first is {explain(made[0])}",
        where=made[0].source,
        fix="mend the recordings and transcripts named, or give others",
    )


def _merge(old: list[ClipReport], made: list[ClipReport]) -> list[ClipReport]:
    """Old clips that this input says nothing about, then those of this input."""
    sources = {clip.source for clip in made}
    sounds = {clip.audio_hash for clip in made if clip.status == "used"}
    return [clip for clip in old if clip.source not in sources and clip.audio_hash not in sounds] + made


def _report(clips: list[ClipReport], made: list[ClipReport], old: Existing, settings: dict[str, Any]) -> Report:
    """The clips with their splits, and the counts of this preparation.

    Raises:
        UserError: a set would be empty.
    """
    sounds = list(dict.fromkeys(clip.audio_hash for clip in clips if clip.status == "used"))
    splits = assign_splits(sounds, fraction=settings["eval_fraction"], assigned=old.splits)
    had = {clip.audio_hash for clip in old.clips if clip.status == "used"}
    used = [clip.audio_hash for clip in made if clip.status == "used"]
    unchanged = sum(sound in had for sound in used)
    return Report(
        clips=[replace(clip, split=splits[clip.audio_hash] if clip.status == "used" else "") for clip in clips],
        settings=settings,
        added=len(used) - unchanged,
        unchanged=unchanged,
        splits=old.splits | splits,
    )


def _settings(config: PrepareConfig, checks: Checks) -> dict[str, Any]:
    """The settings with the limits that applied."""
    limits = {"max_audio_length": checks.max_audio_length, "max_text_length": checks.max_text_length}
    values = asdict(config) | limits
    return {key: printable(value) if isinstance(value, Path) else value for key, value in values.items()}


def _write(report: Report, language: str, project: Project, staging: Staging) -> None:
    """Write the metadata aside; the wavs are there already."""
    files: list[tuple[Path, Split]] = [(project.train_csv, "train"), (project.eval_csv, "eval")]
    for csv, split in files:
        clips = [
            Clip(audio=project.dataset.absolute() / clip.clip, text=clip.text, speaker=clip.speaker)
            for clip in report.in_split(split)
        ]
        write_manifest(staging.file(csv), clips, folder=project.dataset)
    report.save(staging.file(project.report))
    staging.file(project.language_file).write_text(f"{language}\n", encoding="utf-8")
