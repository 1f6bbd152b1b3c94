"""Turn a long recording into clips by subtitles or labels, recognized words, or an aligned transcript.

Slow results are cached below the project's sources/ folder: the pauses of a recording and its recognized words, under
names that depend on the recording and the settings. Whisper is given pieces of up to 28 s of speech between two pauses
(its window is 30 s), and each piece is cached as soon as it is done. Sections without speech (silero-vad) are skipped.
Memory is constant.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from utils.audio.container import unreadable
from utils.audio.decode import stream
from utils.audio.recognizer import Transcriber, Word
from utils.audio.resample import resample
from utils.audio.suffixes import PLAIN_SUFFIXES
from utils.audio.voice_activity import (
    FRAME,
    FRAMES_PER_SECOND,
    VAD_RATE,
    Pause,
    find_pauses,
    load_voice_activity,
    stream_levels,
)
from utils.dataset.formats.cues import Cue
from utils.dataset.formats.faults import Fault
from utils.dataset.segmentation.align import align, with_deviations, word_units
from utils.dataset.segmentation.cut import Cut, CutLengths, cut_units
from utils.errors import UserError
from utils.files import parsed_lines, write_atomic

_PIECE_S = 28.0
_BLOCK_S = 48
"""Transcribed at a time; a whole number of voice activity frames."""
_SPEECH = 0.5
_LEAST_SPEECH_S = 0.2
_MARGIN_S = 0.4
_VERSION, _CLOCK = 1, 2
"""Raised when the same recording would give other pauses or other words; the second: one with time stamps."""
_WORD_REACH_S = 0.25
"""Recognized words have better times than cues."""

log = logging.getLogger(__name__)


def hear_recording(
    audio: Path, pauses: Sequence[Pause], transcriber: Transcriber, kept: Path
) -> tuple[list[Word], dict[str, float]]:
    """All words of a recording, by time.

    Args:
        audio: the recording.
        pauses: where it may be taken apart.
        transcriber: who listens.
        kept: file of recognized words; pieces in it are not transcribed again, new ones are added one by one.

    Returns:
        The words, and how many seconds of speech were in which language.

    Raises:
        UserError: the recording cannot be read, or the recognizer is not there.
    """
    done: dict[str, Any] = dict(parsed_lines(kept, lambda piece: (str(piece["start"]), piece)))
    words: list[Word] = []
    languages: dict[str, float] = {}
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.open("a", encoding="utf-8") as file:
        # Closes a line that a kill left torn.
        file.write("\n")
        for start_s, wav in _pieces(audio, pauses):
            key = f"{start_s:.3f}"
            if key not in done:
                recognized, language = transcriber.words(wav)
                done[key] = {"start": key, "language": language, "words": [asdict(word) for word in recognized]}
                file.write(json.dumps(done[key]) + "\n")
                file.flush()
                log.info("%s: transcribed %.0f s", audio.name, start_s + len(wav) / VAD_RATE)
            languages[done[key]["language"]] = languages.get(done[key]["language"], 0.0) + len(wav) / VAD_RATE
            for word in done[key]["words"]:
                at = min(word["start_s"], len(wav) / VAD_RATE)
                end = min(max(word["end_s"], at + 0.02), len(wav) / VAD_RATE)
                words.append(Word(start_s=round(start_s + at, 3), end_s=round(start_s + end, 3), text=word["text"]))
    return words, languages


def _pieces(audio: Path, pauses: Sequence[Pause]) -> Iterator[tuple[float, NDArray[np.float32]]]:
    """Stretches of speech of at most 28 s at 16 000 Hz, each with the second it begins at."""
    vad, state = load_voice_activity(), None
    waiting, begin_s = torch.empty(1, 0), 0.0
    probabilities = torch.empty(0)
    for block in _blocks(audio):
        # A last frame that is not whole is filled with zeros; only the last block may have one.
        speech, state = vad(block, state)
        waiting, probabilities = torch.cat([waiting, block], dim=1), torch.cat([probabilities, speech])
        while waiting.shape[1] >= _PIECE_S * VAD_RATE:
            # In the longest pause of the piece's second half, or at its end where there is none.
            possible = [pause for pause in pauses if begin_s + _PIECE_S / 2 < pause.middle_s < begin_s + _PIECE_S]
            best = max(possible, key=lambda pause: pause.seconds, default=None)
            length_s = _PIECE_S if best is None else best.middle_s - begin_s
            # Whole frames, so that sound and voice activity stay side by side.
            count = round(length_s * VAD_RATE / FRAME)
            yield from _spoken(begin_s, waiting[:, : count * FRAME], probabilities[:count])
            waiting, probabilities = waiting[:, count * FRAME :], probabilities[count:]
            begin_s += count * FRAME / VAD_RATE
    if waiting.shape[1]:
        yield from _spoken(begin_s, waiting, probabilities)


def _spoken(begin_s: float, wav: torch.Tensor, speech: torch.Tensor) -> Iterator[tuple[float, NDArray[np.float32]]]:
    """The part of a piece that has speech, if any has."""
    frames = (speech > _SPEECH).nonzero().flatten()
    if len(frames) * FRAME < _LEAST_SPEECH_S * VAD_RATE:
        return
    margin = int(_MARGIN_S * VAD_RATE / FRAME)
    first, last = max(0, int(frames[0]) - margin), int(frames[-1]) + 1 + margin
    yield begin_s + first * FRAME / VAD_RATE, wav[0, first * FRAME : last * FRAME].numpy()


def _blocks(audio: Path) -> Iterator[torch.Tensor]:
    """The recording at 16 000 Hz in blocks of 48 s, [1, N]; the last is shorter."""
    waiting: list[torch.Tensor] = []
    rate = 0
    for part, rate in stream(audio):
        waiting.append(part)
        if sum(one.shape[1] for one in waiting) >= _BLOCK_S * rate:
            whole = torch.cat(waiting, dim=1)
            yield resample(whole[:, : _BLOCK_S * rate], rate, VAD_RATE)[:, : _BLOCK_S * VAD_RATE]
            waiting = [whole[:, _BLOCK_S * rate :]]
    if waiting and waiting[0].shape[1]:
        yield resample(torch.cat(waiting, dim=1), rate, VAD_RATE)


@dataclass(frozen=True, kw_only=True)
class LongAudio:
    """How long recordings are taken apart."""

    kept: Path
    """Folder for pauses and words that need not be found again."""
    limits: CutLengths = field(default_factory=CutLengths)
    transcriber: Transcriber | None = None
    """Transcribes recordings without times; None leaves them untranscribed."""
    language: str = ""
    """Recordings in which the recognizer detects mostly another one are reported; empty takes any."""
    asked: dict[Path, bool] | None = None
    """Gets which recordings would be taken apart, instead of that, and whether by their words."""

    def by_cues(self, audio: Path, cues: Sequence[Cue]) -> list[Cut]:
        """Clips of a recording with subtitles or labels.

        Raises:
            UserError: the recording cannot be read.
        """
        if self.asked is not None:
            self.asked.setdefault(audio, False)
            return []
        pauses, duration_s = self._pauses(audio)
        return cut_units(cues, pauses, duration_s=duration_s, limits=self.limits)

    def by_words(self, audio: Path, transcript: str | None = None) -> list[Cut]:
        """Clips of a recording that is transcribed; the text is the transcript's where there is one.

        Raises:
            UserError: the recording cannot be read, or the recognizer is not there.
        """
        if self.asked is not None:
            self.asked[audio] = True
            return []
        assert self.transcriber is not None
        pauses, duration_s = self._pauses(audio)
        name = self._name("words", audio, asdict(self.transcriber.settings))
        words, languages = hear_recording(audio, pauses, self.transcriber, self.kept / f"{name}.jsonl")
        limits = replace(self.limits, reach_s=min(_WORD_REACH_S, self.limits.reach_s))
        fault = self._strange(languages) or (Fault("silent", "Whisper found no speech") if not words else None)
        if fault is not None:
            whole = Cue(start_s=0.0, end_s=duration_s, text=transcript or "", place="the recording", fault=fault)
            return cut_units([whole], pauses, duration_s=duration_s, limits=limits)
        if transcript is None:
            return cut_units(word_units(words), pauses, duration_s=duration_s, limits=limits)
        cuts = cut_units(align(transcript, words), pauses, duration_s=duration_s, limits=limits)
        return with_deviations(cuts, words)

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
