"""Turn recordings into dataset clips, or into the reasons why they are dropped; audio is made in several processes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from utils.audio.decode import duration, load_audio
from utils.audio.suffixes import PLAIN_SUFFIXES
from utils.callbacks import ProgressFn
from utils.dataset.clips.sound import ClipSound, SoundMaker, SoundSettings, SoundTask
from utils.dataset.formats.audio_names import WAVS
from utils.dataset.formats.faults import Fault
from utils.dataset.formats.locate import printable
from utils.dataset.quality.checks import Checks
from utils.dataset.quality.scorers import Scorers
from utils.dataset.settings import Engine
from utils.dataset.sources.recording import Recording
from utils.dataset.storage.parallel import run_tasks
from utils.dataset.storage.report import BY_HAND, ClipReport, Report, Span
from utils.dataset.storage.work import Work, short_hash
from utils.options import DATASET_RATE

_NAME_LENGTH = 48


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A clip before its sound is known."""

    clip: ClipReport
    known: ClipReport | None = None
    """What the dataset has of the same recording."""
    fault: Fault | None = None
    """Why there is no sound to look at."""
    task: SoundTask | None = None
    """How its sound is to be had."""


@dataclass(frozen=True, kw_only=True)
class ClipMaker:
    """Decides about clips one by one; their sound is made elsewhere, see `utils.dataset.clips.sound`."""

    checks: Checks
    existing: Report
    """What the dataset has already."""
    work: Work
    settings: SoundSettings
    dataset: Path
    """Folder of the dataset, where its wavs lie."""
    sources: dict[str, str] = field(default_factory=dict)
    """Name of each clip that was used, by its audio hash."""

    def plan(self, recording: Recording) -> Draft:
        """What there is to do for a recording."""
        clip = ClipReport(
            source=printable(recording.audio),
            status="dropped",
            start_s=recording.start_s,
            end_s=recording.end_s,
            joined=recording.joined,
            made_from=recording.made_from,
            origin=recording.origin,
            text=recording.text,
            speaker=recording.speaker,
            source_text=recording.text,
            source_speaker=recording.speaker,
        )
        if recording.fault:
            return Draft(clip=clip, fault=recording.fault)
        spans = (Span(audio=str(recording.audio), start_s=recording.start_s, end_s=recording.end_s), *recording.joined)
        try:
            hashes = [self.work.file_hash(Path(span.audio)) for span in spans]
        except OSError as error:
            return Draft(clip=clip, fault=Fault("unreadable audio", f"it cannot be opened: {error.strerror}"))
        # The same for the same parts of the same files, wherever they lie.
        parts = ((digest, span.start_s, span.end_s) for span, digest in zip(spans, hashes, strict=True))
        clip = replace(clip, source_hash=hashes[0], id=short_hash(*parts))
        known = self._known.get(("id", clip.id))
        if known is None:
            read, fault = self.checks.read(clip)
            if fault:
                # What cannot be trained on need not be decoded.
                return Draft(clip=read, fault=fault)
        if known is not None and known.reason in BY_HAND:
            return Draft(clip=clip, known=known)
        item = f"sound:{self.settings.key}:{self.settings.quality}:{clip.id}"
        if clip.is_part and recording.audio.suffix.lower() not in PLAIN_SUFFIXES:
            item += ":2"  # Earlier versions counted from the first sample, not in the container's time.
        return Draft(clip=clip, known=known, task=(item, spans))

    def sound(self, draft: Draft) -> ClipSound | None:
        """A draft's sound when it has been made; None when it is still to be made."""
        assert draft.task is not None
        kept = self.work.results.get(draft.task[0])
        if kept is None:
            return None
        sound = ClipSound(**kept)
        # What cannot be read may become readable, and what was cut may be wanted longer now.
        fits = not sound.is_silent and self.checks.length(sound.num_samples) is None
        if sound.fault or sound.is_cut or (fits and not sound.wav_hash):
            return None
        if not sound.wav_hash or self.work.wav(sound.wav_hash).is_file():
            return sound
        used = self._known.get(("wav", sound.wav_hash))
        return sound if used is not None and (self.dataset / used.clip).is_file() else None

    def finish(self, draft: Draft) -> ClipReport:
        """What becomes of the recording, its sound made; called in the order of the input."""
        clip, known = draft.clip, draft.known
        if draft.fault:
            return self._drop_unless_had(replace(clip, num_samples=_whole_length(draft)), draft.fault)
        if draft.task is None:
            assert known is not None
            return self._as_before(clip, known)
        sound = ClipSound(**self.work.results[draft.task[0]])
        if sound.fault:
            return self._drop_unless_had(clip, Fault("unreadable audio", sound.fault))
        known = known or self._known.get(("sound", sound.audio_hash))
        clip = replace(
            clip,
            num_samples=_whole_length(draft) if sound.is_cut else sound.num_samples,
            audio_hash=sound.audio_hash,
            wav_hash=sound.wav_hash,
            cleaning=self.settings.key if self.settings.changes_sound else "",
            trimmed_s=round(sound.trimmed_s, 4),
            gain_db=sound.gain_db,
            measures=dict(sound.measures) | ({"lost": sound.lost_s} if sound.lost_s else {}),
            fingerprint=sound.fingerprint,
        )
        if known is not None:
            clip = _with_edits(clip, known)
            if known.reason in BY_HAND:
                return self._as_before(clip, known)
        return self._decide(clip, sound, known)

    def check_again(self, clip: ClipReport) -> ClipReport:
        """A clip in use, perhaps edited or made for another base: what does not fit is dropped, not trained on."""
        if clip.status == "dropped":
            return clip
        read, fault = self.checks.read(clip)
        fault = fault or self.checks.length(clip.num_samples)
        if fault:
            return _drop(read, fault)
        return replace(read, notes=self.checks.tokenizer.notes(clip.text, self.checks.language))

    def _decide(self, clip: ClipReport, sound: ClipSound, known: ClipReport | None) -> ClipReport:
        clip, fault = self.checks.read(clip)
        if sound.is_silent:
            fault = fault or Fault("silent", "every sample is zero")
        longer = self.checks.max_audio_length + 1
        fault = fault or self.checks.length(longer if sound.is_cut else sound.num_samples) or self._duplicate(clip)
        if fault is None:
            kept = self._known.get(("wav", clip.wav_hash))
            # A name that people recognize and that no other sound has.
            stem = re.sub(r"[^\w-]+", "_", Path(clip.source).stem)[:_NAME_LENGTH]
            return self._use(clip, kept.clip if kept is not None else f"{WAVS}/{stem}-{clip.wav_hash[:12]}.wav")
        # With its wav and its text, so that under other limits it comes back as it was edited.
        had = known.clip if known is not None and fault.reason != "duplicate audio" else ""
        return replace(_drop(clip, fault), clip=had)

    def _drop_unless_had(self, clip: ClipReport, fault: Fault) -> ClipReport:
        """A file that is gone, locked or no longer named is no reason to lose the clip that was made from it."""
        known = self._known.get(("place", clip.source, clip.start_s, clip.end_s))
        if known is None or fault.reason not in ("missing file", "unreadable audio", "no transcript"):
            return _drop(clip, fault)
        if fault.reason == "no transcript":
            # The next table of a series names its own recordings only; the clip keeps what the earlier one said.
            clip = replace(clip, source_text=known.source_text, source_speaker=known.source_speaker)
        return self._as_before(clip, known)

    def _as_before(self, clip: ClipReport, known: ClipReport) -> ClipReport:
        """A recording that is not looked at now: its clip is as it was, with what the source says about it now."""
        edited = _with_edits(clip, known)
        clip = replace(
            known,
            source=clip.source,
            text=edited.text,
            speaker=edited.speaker,
            source_text=clip.source_text,
            source_speaker=clip.source_speaker,
        )
        if known.reason in BY_HAND:
            return clip
        clip, fault = self.checks.read(clip)
        fault = fault or self.checks.length(clip.num_samples)
        if fault is None and not (clip.clip and (self.dataset / clip.clip).is_file()):
            fault = Fault("missing file", f"{printable(Path(clip.source).name)} and the clip made from it are missing")
        if fault:
            return _drop(clip, fault)
        fault = self._duplicate(clip)
        return replace(_drop(clip, fault), clip="") if fault else self._use(clip, clip.clip)

    def _duplicate(self, clip: ClipReport) -> Fault | None:
        # What differs in less than cleaning leaves over is the same sound too, and would be the same wav.
        first = self.sources.get(clip.audio_hash) or self.sources.get(clip.wav_hash or clip.audio_hash)
        return Fault("duplicate audio", f"same audio as {first}") if first else None

    def _use(self, clip: ClipReport, wav: str) -> ClipReport:
        self.sources.update({digest: clip.name for digest in (clip.audio_hash, clip.wav_hash) if digest})
        notes = self.checks.tokenizer.notes(clip.text, self.checks.language)
        return replace(clip, status="used", reason="", detail="", clip=wav, notes=notes)

    @cached_property
    def _known(self) -> dict[tuple[object, ...], ClipReport]:
        """Clips whose sound is known, or that were excluded by hand: by id, sound, wav, and place in their file.

        Of clips with the same key the last one in use counts; only those that have a wav have a place.
        """
        known = (clip for clip in self.existing.clips if clip.audio_hash or clip.reason in BY_HAND)
        found: dict[tuple[object, ...], ClipReport] = {}
        for clip in sorted(known, key=lambda clip: (clip.status == "used", bool(clip.clip))):
            found |= {("id", clip.id): clip, ("sound", clip.audio_hash): clip}
            if clip.clip:
                found |= {("wav", clip.wav_hash): clip, ("place", clip.source, clip.start_s, clip.end_s): clip}
        # None is known by an empty key.
        return {key: clip for key, clip in found.items() if key[1]}


def _whole_length(draft: Draft) -> int:
    """Samples at 22 050 Hz of a recording that is not decoded to its end, by its header; 0 where that says nothing."""
    clip = draft.clip
    if clip.end_s is not None:
        return round((clip.end_s - clip.start_s) * DATASET_RATE)
    path = Path(clip.source)
    seconds = duration(path) if path.is_file() else None
    return round(max(0.0, (seconds or 0.0) - clip.start_s) * DATASET_RATE)


def _with_edits(clip: ClipReport, known: ClipReport) -> ClipReport:
    """Edits made in the dataset stand, unless the source changed as well."""
    if clip.source_text == known.source_text:
        clip = replace(clip, text=known.text)
    if clip.source_speaker == known.source_speaker:
        clip = replace(clip, speaker=known.speaker)
    return replace(clip, accepted=known.accepted)


def _drop(clip: ClipReport, fault: Fault) -> ClipReport:
    return replace(clip.as_dropped(fault), flags=(), notes=())


def make_sounds(
    recordings: Sequence[Recording],
    maker: ClipMaker,
    sounds: SoundMaker,
    *,
    workers: int | None,
    engine: Engine = "local",
    progress: ProgressFn | None,
) -> list[ClipReport]:
    """What becomes of each recording, in their order.

    Args:
        recordings: what was given.
        maker: decides about clips.
        sounds: makes their sound.
        workers: processes; None decides by the number of clips.
        engine: where these run.
        progress: called with the phase, clips done, and clips in all.

    Raises:
        OSError: a wav cannot be written.
        UserError: a process died.
    """
    drafts: list[Draft] = []
    missing: dict[str, tuple[Span, ...]] = {}
    for recording in recordings:
        drafts.append(maker.plan(recording))
        if (task := drafts[-1].task) is not None and maker.sound(drafts[-1]) is None:
            # Copies of a file share one task.
            missing |= [task]
    done = 0

    def count(more: int) -> None:
        nonlocal done
        for _ in range(more):
            done += 1
            if progress is not None:
                progress("preparing clips", done, len(drafts))

    count(len(drafts) - len(missing))
    # Parts of one recording one after the other: what the system has just read is still in memory.
    tasks = sorted(missing.items(), key=lambda task: (task[1][0].audio, task[1][0].start_s))
    while tasks:
        made: set[str] = set()
        for _, results in run_tasks(sounds.make, tasks, workers=workers, engine=engine):
            for result in results:
                maker.work.put(result)
                made |= result.keys()
            count(len(results))
        # A disk that filled up in mid-chunk: what is left either fits now or raises at once.
        tasks = [task for task in tasks if task[0] not in made]
    return [maker.finish(draft) for draft in drafts]


def score_clips(
    clips: Sequence[ClipReport],
    scorers: Scorers,
    work: Work,
    dataset: Path,
    *,
    workers: int | None,
    engine: Engine = "local",
) -> dict[str, dict[str, Any]]:
    """The scores of clips by wav hash and scorer; a clip without scores is read from disk and scored.

    Raises:
        UserError: a wav cannot be read, or a process died.
    """
    with_hash = {clip.wav_hash: clip for clip in clips if clip.wav_hash}
    pending = [
        (str(wav_of(clip, work, dataset)), digest)
        for digest, clip in with_hash.items()
        if any(work.results.get(key) is None for key in scorers.keys(digest).values())
    ]
    for _, results in run_tasks(partial(_score_files, scorers), pending, workers=workers, engine=engine):
        for result in results:
            work.put(result)
    return {digest: {name: work.results.get(key) for name, key in scorers.keys(digest).items()} for digest in with_hash}


def _score_files(scorers: Scorers, tasks: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Scores of wavs on disk, given with their hashes."""
    return list(scorers.score({digest: load_audio(Path(path), DATASET_RATE) for path, digest in tasks}).values())


def wav_of(clip: ClipReport, work: Work, dataset: Path) -> Path:
    """Where a clip's sound lies now: in the dataset, or ready to be moved there."""
    lies = dataset / clip.clip
    return lies if lies.is_file() else work.wav(clip.wav_hash)
