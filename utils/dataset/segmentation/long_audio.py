"""Turn a long recording into clips by subtitles or labels, recognized words, or an aligned transcript.

Slow results are cached below the project's sources/ folder: the pauses of a recording and its recognized words, under
names that depend on the recording and the settings.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from utils.audio.container import unreadable
from utils.audio.decode import stream
from utils.audio.pauses import FRAMES_PER_SECOND, Pause, find_pauses, stream_levels
from utils.audio.recognizer import Transcriber
from utils.audio.suffixes import PLAIN_SUFFIXES
from utils.dataset.formats.cues import Cue
from utils.dataset.segmentation.align import align, with_deviations, word_units
from utils.dataset.segmentation.cut import Cut, CutLengths, Unit, cut_units
from utils.dataset.segmentation.transcribe import hear_recording
from utils.dataset.storage.report import Fault
from utils.errors import UserError
from utils.files import write_atomic

log = logging.getLogger(__name__)

_VERSION, _CLOCK = 1, 2
"""Raised when the same recording would give other pauses or other words; the second: one with time stamps."""
_WORD_REACH_S = 0.25
"""Recognized words have better times than cues."""


@dataclass(frozen=True, kw_only=True)
class LongAudio:
    """How long recordings are taken apart."""

    kept: Path
    """Folder for pauses and words that need not be found again."""
    limits: CutLengths = field(default_factory=CutLengths)
    transcriber: Transcriber | None = None
    """Who writes down recordings without times; nobody when None."""
    language: str = ""
    """Recordings in which the recognizer detects mostly another one are reported; empty takes any."""

    def by_cues(self, audio: Path, cues: Sequence[Cue]) -> list[Cut]:
        """Clips of a recording with subtitles or labels.

        Raises:
            UserError: the recording cannot be read.
        """
        pauses, duration_s = self._pauses(audio)
        units = [
            Unit(
                start_s=cue.start_s,
                end_s=cue.end_s,
                text=cue.text,
                speaker=cue.speaker,
                place=cue.place,
                fault=Fault("bad times", cue.problem) if cue.problem else None,
            )
            for cue in cues
        ]
        return cut_units(units, pauses, duration_s=duration_s, limits=self.limits)

    def by_words(self, audio: Path, transcript: str | None = None) -> list[Cut]:
        """Clips of a recording that is transcribed; the text is the transcript's where there is one.

        Raises:
            UserError: the recording cannot be read, or the recognizer is not there.
        """
        assert self.transcriber is not None
        pauses, duration_s = self._pauses(audio)
        name = self._name("words", audio, asdict(self.transcriber.settings))
        words, languages = hear_recording(audio, pauses, self.transcriber, self.kept / f"{name}.jsonl")
        limits = replace(self.limits, reach_s=min(_WORD_REACH_S, self.limits.reach_s))
        if fault := self._strange(languages):
            return [_whole(duration_s, transcript or "", fault)]
        if not words:
            return [_whole(duration_s, transcript or "", Fault("silent", "Whisper found no speech"))]
        if transcript is None:
            return cut_units(word_units(words), pauses, duration_s=duration_s, limits=limits)
        aligned = align(transcript, words)
        cuts = cut_units(aligned.units, pauses, duration_s=duration_s, limits=limits)
        return with_deviations(cuts, aligned, words)

    def _strange(self, languages: dict[str, float]) -> Fault | None:
        """A recording that is mostly in another language; asked only when the recognizer was to find out."""
        if not self.language or not languages:
            return None
        most = max(languages, key=lambda code: languages[code])
        if most == self.language.split("-")[0]:
            return None
        return Fault("other language", f"Whisper detected mostly {most!r}, but the dataset is in {self.language!r}")

    def _pauses(self, audio: Path) -> tuple[list[Pause], float]:
        """The pauses of a recording and its length, in seconds."""
        path = self.kept / f"{self._name('pauses', audio)}.json"
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            return [Pause(*times) for times in kept["pauses"]], kept["duration_s"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.debug("no pauses kept for %s: %s", audio, error)
        levels = _levels(audio)
        pauses, duration_s = find_pauses(levels), len(levels) / FRAMES_PER_SECOND
        self.kept.mkdir(parents=True, exist_ok=True)
        content = {"pauses": [(pause.start_s, pause.end_s) for pause in pauses], "duration_s": duration_s}
        write_atomic(path, json.dumps(content))
        return pauses, duration_s

    def _name(self, kind: str, audio: Path, more: object = None) -> str:
        try:
            stat = audio.stat()
        except OSError as error:
            raise UserError(what=f"{audio.name} cannot be opened: {error.strerror}", where=str(audio)) from error
        version = _VERSION if audio.suffix.lower() in PLAIN_SUFFIXES else _CLOCK
        parts = [version, kind, str(audio), stat.st_size, stat.st_mtime_ns, more]
        return f"{kind}-{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]}"


def _levels(audio: Path) -> NDArray[np.float32]:
    """Level of every 10 ms of a recording, [F]."""
    parts = stream(audio)
    first, rate = next(parts, (None, 0))
    if first is None:
        raise unreadable(audio, "holds no samples")
    return stream_levels(chain([first], (part for part, _ in parts)), rate)


def _whole(duration_s: float, text: str, fault: Fault) -> Cut:
    unit = Unit(start_s=0.0, end_s=duration_s, text=text, place="the recording", fault=fault)
    return Cut(start_s=0.0, end_s=duration_s, text=text, speaker=unit.speaker, units=(unit,), fault=fault)
