"""Cached facts about a dataset's audio files, so that a run need not read 70,000 headers before its first step.

Beside the codes lies files.jsonl, a line {"file", "stamp", "content", "samples", "native"} for each file that was read.
A file whose stamp (`utils.dataset.storage.stamps`) is another one is read again; a torn or foreign line counts as
not there.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile
from accelerate import Accelerator

from utils.audio.decode import load_audio
from utils.config import DATASET_RATE
from utils.dataset.storage.stamps import is_settled, now_ns, stamp
from utils.errors import UserError
from utils.events.progress import ProgressFn
from utils.files import file_hash, write_atomic
from utils.training.data.share import shared

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class AudioFacts:
    """A recording's content and length."""

    content: str
    """16 hex digits of the file's content."""
    num_samples: int
    """Length at 22 050 Hz."""
    is_native: bool
    """A mono file at 22 050 Hz, of which parts can be read; anything else is decoded whole."""


class AudioFiles:
    """Facts about audio files, each read once.

    Args:
        folder: where they are kept; created when absent.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "files.jsonl"
        self._kept = _read(self._file)
        self._seen: dict[str, AudioFacts] = {}
        self._has_news = False
        self._now = _time(folder)

    def facts(self, path: Path) -> AudioFacts:
        """What is known of a file; it is read when it is new or changed.

        Raises:
            UserError: it cannot be read as sound.
        """
        name = str(path.absolute())
        if name not in self._seen:
            self._seen[name] = self._look(path, name)
        return self._seen[name]

    def look(self, paths: list[Path], accelerator: Accelerator, progress: ProgressFn | None = None) -> None:
        """Read files, each process its part.

        Raises:
            UserError: one of them cannot be read as sound.
        """
        if accelerator.num_processes == 1:
            return  # they are read as they are needed

        def look(own: Sequence[Path]) -> list[tuple[str, AudioFacts, tuple[list[int], AudioFacts] | None]]:
            found = []
            for number, path in enumerate(own, start=1):
                facts, name = self.facts(path), str(path.absolute())
                found.append((name, facts, self._kept.get(name)))
                if progress is not None:
                    progress("reading clips", number, len(own))
            return found

        for name, facts, kept in shared(accelerator, paths, look):
            self._seen[name] = facts
            if kept is not None and self._kept.get(name) != kept:
                self._kept[name] = kept
                self._has_news = True

    def save(self) -> None:
        """Keep what was found for the next run.

        Raises:
            OSError: the disk is full or not writable.
        """
        if self._has_news:
            lines = (_line(name, *known) for name, known in self._kept.items())
            write_atomic(self._file, "".join(lines))
            self._has_news = False

    def _look(self, path: Path, name: str) -> AudioFacts:
        try:
            seen = stamp(path)
            known = self._kept.get(name)
            if known is not None and known[0] == seen:
                return known[1]
            facts = read_facts(path)
        except OSError as error:
            raise UserError(what=f"{path.name} cannot be opened: {error.strerror}", where=str(path)) from error
        if is_settled(seen, self._now):
            self._kept[name] = (seen, facts)
            self._has_news = True
        return facts


def read_facts(path: Path) -> AudioFacts:
    """Facts from the file itself.

    Raises:
        UserError: it cannot be read as sound.
        OSError: it cannot be opened.
    """
    content = file_hash(path)[:16]
    num_samples, is_native = _measure(path)
    return AudioFacts(content=content, num_samples=num_samples, is_native=is_native)


def _time(folder: Path) -> int:
    """The folder's time before any file is read: what is changed from then on has a stamp that proves nothing."""
    try:
        return now_ns(folder / ".files-time")
    except OSError as error:
        log.debug("nothing can be kept in %s: %s", folder, error)
        return 0


def _measure(audio: Path) -> tuple[int, bool]:
    """Samples at 22 050 Hz, and whether parts of the file can be read as they are."""
    try:
        info = soundfile.info(audio)
    except soundfile.LibsndfileError:
        return load_audio(audio, DATASET_RATE).shape[1], False
    if info.samplerate == DATASET_RATE and info.channels == 1:
        return info.frames, True
    return load_audio(audio, DATASET_RATE).shape[1], False


def _line(name: str, seen: list[int], facts: AudioFacts) -> str:
    entry = {
        "file": name,
        "stamp": seen,
        "content": facts.content,
        "samples": facts.num_samples,
        "native": facts.is_native,
    }
    return json.dumps(entry) + "\n"


def _read(path: Path) -> dict[str, tuple[list[int], AudioFacts]]:
    found = {}
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError as error:
        log.debug("nothing is known of the audio files yet: %s", error)
        return {}
    for line in lines:
        try:
            one = json.loads(line)
            facts = AudioFacts(content=one["content"], num_samples=one["samples"], is_native=one["native"])
            found[one["file"]] = (one["stamp"], facts)
        except (ValueError, KeyError, TypeError):
            continue
    return found
