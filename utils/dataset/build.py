"""Prepare a dataset: read, check, clean, measure and account for every recording."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from utils.audio.clean import Cleaning, require_denoiser
from utils.audio.recognizer import find_weights
from utils.callbacks import ProgressFn
from utils.dataset.clips.existing import assign_splits, merge, read_existing
from utils.dataset.clips.make_clip import ClipMaker, make_sounds, score_clips, wav_of
from utils.dataset.clips.sound import SoundMaker, SoundSettings
from utils.dataset.formats.faults import Fault
from utils.dataset.formats.listing import real_path
from utils.dataset.formats.locate import printable
from utils.dataset.page import write_page
from utils.dataset.quality.checks import Checks
from utils.dataset.quality.measures import flag_clips
from utils.dataset.quality.scorers import Scorers, compared, has_dnsmos
from utils.dataset.segmentation.long_audio import LongAudio
from utils.dataset.settings import Engine, PrepareConfig
from utils.dataset.sources.read import read_sources
from utils.dataset.sources.recording import ReadOptions, Recording, transcriber_of
from utils.dataset.storage.manifest import Clip, write_manifest
from utils.dataset.storage.parallel import require_ray, run_tasks
from utils.dataset.storage.report import ClipReport, Report, Split, explain, manifests
from utils.dataset.storage.work import Staging, Work, staged
from utils.errors import UserError
from utils.jobs.child import hold
from utils.project.paths import Project, open_project

log = logging.getLogger(__name__)

Change = Callable[[list[ClipReport]], tuple[list[ClipReport], list[Recording]]]
"""A fix of the clips that a dataset has: how they shall be, and what new ones are made from."""


def prepare(config: PrepareConfig, *, progress: ProgressFn | None = None) -> Report:
    """Bring recordings with transcripts into the project's dataset.

    Writes output/<project>/dataset/ {wavs/, metadata_train.csv, metadata_eval.csv, lang.txt, report.json, report.html}.
    Run again, it adds what is new, does no work twice, and keeps what is not in this input, each clip's split and edits
    made to the metadata files by hand. After any error the dataset is as it was, and the work done so far is kept.

    Args:
        config: checked settings.
        progress: called with the phase, clips done, and clips in all.

    Returns:
        What became of every clip that the dataset was ever given.

    Raises:
        UserError: the input cannot be read or holds no usable clip, a set would be empty, the base cannot read the
            language, the dataset has another one, or the disk is full.
    """
    from utils.bases.find import find_base

    project = open_project(config.project, config.output)
    if config.engine == "ray":
        # Before recordings are read, which takes long.
        require_ray()
    inputs = (config.input, *config.also)
    for path in inputs:
        _check_apart(path, project)
    find_base(config.base)
    device = config.transcriber_device if config.transcriber else "cpu"
    with hold("prepare", device=device, output=project.output, folder=project.folder):
        reading = ReadOptions.of(config, project.sources)
        if config.engine == "ray":
            read_ahead(inputs, reading, workers=config.workers, engine="ray")
        recordings = read_sources(inputs, reading)
        return build(config, recordings, reading=reading, progress=progress)


def build(
    config: PrepareConfig,
    recordings: list[Recording],
    *,
    reading: ReadOptions | None = None,
    progress: ProgressFn | None = None,
    change: Change | None = None,
) -> Report:
    """As `prepare`, for recordings that were found already.

    Args:
        config: checked settings.
        recordings: what is given now; none with a `change`.
        reading: with what was noted and ignored when they were read; None keeps what the dataset has of it.
        progress: called with the phase, clips done, and clips in all.
        change: a fix; what it makes new clips from must all be usable.
    """
    from utils.bases.find import find_base

    project = open_project(config.project, config.output)
    base = find_base(config.base)
    checks = Checks.of(config, base)
    # A fix makes a few clips: a cluster would take longer to answer.
    config = config if change is None else replace(config, engine="local")
    with staged(project) as staging, Work(project) as work:
        if config.check_transcripts and change is None:
            # Reported now, not after all clips were made.
            find_weights(str(config.transcriber))
        old = read_existing(project, checks.language)
        if change is not None:
            changed, recordings = change(old.clips)
            old = replace(old, clips=changed)
        scorers = _scorers(config, base)
        sounds = SoundMaker(
            settings=sound_settings(config, checks.max_audio_length), folder=work.wavs.absolute(), scorers=scorers
        )
        maker = ClipMaker(checks=checks, existing=old, work=work, settings=sounds.settings, dataset=project.dataset)
        made = make_sounds(
            recordings + ([] if change else _fixed(old, recordings, work)),
            maker,
            sounds,
            workers=config.workers,
            engine=config.engine,
            progress=progress,
        )
        if change is None:
            _require_usable(made)
        fresh = set(map(id, made))
        clips = [clip if id(clip) in fresh else maker.check_again(clip) for clip in merge(old.clips, made)]
        if change is not None:
            _require_all(made, old.clips, clips)
        clips = _scored(clips, config, work, scorers, project, checks)
        report = _report(clips, made, old, _settings(config, checks, sounds.settings, scorers))
        if reading is not None:
            report = replace(report, notes=reading.notes, ignored=reading.ignored)
        _write(report, checks.language, project, staging, work)
        staging.commit()
    return report


def _check_apart(source: Path, project: Project) -> None:
    """Recordings that lie in the dataset itself would be prepared again on every run."""
    given, dataset = real_path(source.expanduser()), project.dataset.resolve()
    if given is None:
        return
    if given.is_relative_to(dataset) or (given.is_dir() and project.output.resolve().is_relative_to(given)):
        raise UserError(
            what="the input folder and the output folder overlap",
            where=f"{source} and {project.dataset}",
            fix="keep the recordings in a separate folder",
        )


def sound_settings(config: PrepareConfig, max_samples: int) -> SoundSettings:
    """What all clips share; `max_samples` is the longest clip, at 22 050 Hz.

    Raises:
        UserError: denoising is asked for, and its package is not installed.
    """
    if config.denoise:
        require_denoiser()
    cleaning = Cleaning(
        loudness=config.loudness,
        trim=config.trim,
        lead_s=config.keep_before,
        tail_s=config.keep_after,
        remove_dc=config.remove_dc,
        highpass=config.highpass,
    )
    return SoundSettings(
        cleaning=cleaning,
        channel=config.channel,
        denoise=config.denoise,
        quality=config.quality,
        max_samples=max_samples,
    )


def _scorers(config: PrepareConfig, base: Any) -> Scorers:
    from utils.bases.speaker_encoder import speaker_fingerprint

    asks_speaker = config.quality and config.check_speakers
    return Scorers(
        base=base.folder.absolute() if asks_speaker else None,
        encoder=speaker_fingerprint(base) if asks_speaker else "",
        dnsmos=config.quality and config.check_quality and has_dnsmos(),
    )


def _fixed(old: Report, recordings: list[Recording], work: Work) -> list[Recording]:
    """Clips that fixes made of recordings given now: they are made again under the settings of now.

    Of a new take they are not: its times are others.
    """
    given = {str(recording.audio) for recording in recordings}
    fixed = (clip for clip in old.clips if clip.made_from and clip.source in given and Path(clip.source).is_file())
    return [as_recording(clip) for clip in fixed if work.file_hash(Path(clip.source)) == clip.source_hash]


def as_recording(clip: ClipReport) -> Recording:
    """The recording that a clip of the report was made from."""
    return Recording(
        audio=Path(clip.source),
        text=clip.source_text,
        speaker=clip.source_speaker,
        origin=clip.origin,
        start_s=clip.start_s,
        end_s=clip.end_s,
        joined=clip.joined,
        made_from=clip.made_from,
    )


def _require_usable(made: list[ClipReport]) -> None:
    if any(clip.status == "used" for clip in made):
        return
    reasons = ", ".join(f"{count} {reason}" for reason, count in Counter(clip.reason for clip in made).most_common())
    clips = "the only clip cannot" if len(made) == 1 else f"none of the {len(made)} clips can"
    raise UserError(
        what=f"{clips} be used ({reasons}); the first is {explain(made[0])}",
        where=made[0].source,
        fix="fix the recordings and transcripts named above, or use others",
    )


def _require_all(made: list[ClipReport], wanted: list[ClipReport], clips: list[ClipReport]) -> None:
    """A fix that would lose a clip is not made."""
    in_use = {clip.id for clip in wanted if clip.status == "used"}
    lost = [clip for clip in [*made, *(c for c in clips if c.id in in_use)] if clip.status == "dropped"]
    if lost:
        raise UserError(
            what=f"the edited clip would be dropped: {explain(lost[0])}",
            where=lost[0].source,
            fix="choose other times or another text; nothing was changed",
        )


def _scored(
    clips: list[ClipReport], config: PrepareConfig, work: Work, scorers: Scorers, project: Project, checks: Checks
) -> list[ClipReport]:
    """The clips with their flags; those that are flagged are dropped where the settings say so."""
    if not config.quality:
        return [replace(clip, flags=()) for clip in clips]
    used = [clip for clip in clips if clip.status == "used"]
    scores = score_clips(used, scorers, work, project.dataset.absolute(), workers=config.workers, engine=config.engine)
    voices = {wav_hash: found.pop("speaker") for wav_hash, found in scores.items() if "speaker" in found}
    used = [replace(clip, measures=clip.measures | scores.get(clip.wav_hash, {})) for clip in used]
    if config.check_transcripts:
        transcriber = transcriber_of(config, detect_language=False)
        assert transcriber is not None, "checked by PrepareConfig.problems"
        used = compared(used, transcriber, work, lambda clip: wav_of(clip, work, project.dataset), checks.reads)
    flagged = iter(flag_clips(used, voices=voices, loudness=config.loudness, max_cer=config.max_cer))
    done = [next(flagged) if clip.status == "used" else clip for clip in clips]
    return [
        clip.as_dropped(Fault("flagged", f"{': '.join(clip.flags[0])}; accept the clip to use it"))
        if config.drop_flagged and clip.status == "used" and clip.flags and not clip.accepted
        else clip
        for clip in done
    ]


def _report(clips: list[ClipReport], made: list[ClipReport], old: Report, settings: dict[str, Any]) -> Report:
    """The clips with their splits, and the counts of this preparation.

    Raises:
        UserError: a set would be empty.
    """
    sounds = {clip.audio_hash: clip for clip in clips if clip.status == "used"}
    assigned = old.splits | _inherited(clips, old)
    splits = assign_splits(list(sounds.values()), fraction=settings["eval_fraction"], assigned=assigned)
    had = {clip.audio_hash for clip in old.used}
    used = [clip.audio_hash for clip in made if clip.status == "used"]
    unchanged = sum(sound in had for sound in used)
    return replace(
        old,
        clips=[replace(clip, split=splits[clip.audio_hash] if clip.status == "used" else "") for clip in clips],
        settings=settings,
        added=len(used) - unchanged,
        unchanged=unchanged,
        splits=old.splits | splits,
    )


def _inherited(clips: list[ClipReport], old: Report) -> dict[str, Split]:
    """What a fix made stays on the side of what it was made from, by audio hash."""
    sounds = {clip.id: clip.audio_hash for clip in [*old.clips, *clips] if clip.audio_hash}
    parents = {clip.audio_hash: [sounds.get(parent, "") for parent in clip.made_from] for clip in clips}
    return {
        sound: next(old.splits[parent] for parent in found if parent in old.splits)
        for sound, found in parents.items()
        if sound not in old.splits and any(parent in old.splits for parent in found)
    }


def _settings(config: PrepareConfig, checks: Checks, sound: SoundSettings, scorers: Scorers) -> dict[str, Any]:
    """The settings with the limits that applied, what clips made with them carry as `cleaning`, and who was asked."""
    limits = {"max_audio_length": checks.max_audio_length, "max_text_length": checks.max_text_length}
    values = asdict(config) | limits | {"cleaning": sound.key if sound.changes_sound else ""}
    lacking = "not asked: the package speechmos is not installed" if not has_dnsmos() else "not asked"
    values["dnsmos"] = "asked" if scorers.dnsmos else lacking
    values["also"] = [printable(path) for path in config.also]
    return {key: printable(value) if isinstance(value, Path) else value for key, value in values.items()}


def _write(report: Report, language: str, project: Project, staging: Staging, work: Work) -> None:
    """Write the metadata aside, and hand the new wavs over."""
    for split, csv in manifests(project).items():
        clips = [
            Clip(audio=project.dataset.absolute() / clip.clip, text=clip.text, speaker=clip.speaker)
            for clip in report.in_split(split)
        ]
        write_manifest(staging.file(csv), clips, folder=project.dataset)
    report.save(staging.file(project.report))
    write_page(staging.file(project.page), report, project.name)
    staging.file(project.language_file).write_text(f"{language}\n", encoding="utf-8")
    for clip in report.clips:
        if clip.clip and not (project.dataset / clip.clip).is_file():
            work.wav(clip.wav_hash).replace(staging.wavs / Path(clip.clip).name)


def read_ahead(paths: Sequence[Path], reading: ReadOptions, *, workers: int | None, engine: Engine) -> None:
    """Cache what `read_sources` is slow to find, one recording a task; faults are left to `read_sources`.

    Args:
        paths: what will be read.
        reading: how; its cache must be in a folder that all processes see.
        workers: see `run_tasks`.
        engine: see `run_tasks`.

    Raises:
        ProcessDied: a process is gone; results of other recordings are kept.
        OSError: the cache cannot be written.
    """
    long = replace(reading.long_audio, kept=reading.long_audio.kept.absolute())
    asked: dict[Path, bool] = {}
    with suppress(UserError):
        read_sources(paths, replace(reading, long_audio=replace(long, asked=asked)))
    tasks = sorted(asked.items())
    for done, _ in run_tasks(partial(_find, long), tasks, workers=workers, engine=engine, chunk_size=1):
        log.info("read ahead: %s", done[0][0].name)


def _find(long_audio: LongAudio, tasks: Sequence[tuple[Path, bool]]) -> list[None]:
    """Fill the cache."""
    for audio, words in tasks:
        with suppress(UserError):
            long_audio.by_words(audio) if words else long_audio.by_cues(audio, [])
    return [None] * len(tasks)
