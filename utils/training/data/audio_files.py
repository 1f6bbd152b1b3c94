"""Cached facts about a dataset's audio files, so that a run need not read 70,000 headers before its first step.

Beside the codes lies files.jsonl, a line {"file", "stamp", "content", "samples", "native"} for each file that was read;
of several lines about one file the last one counts. A file whose stamp (`utils.dataset.storage.stamps`) is another one
is read again; a torn or foreign line counts as not there.
"""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import soundfile
from filelock import FileLock

from utils.audio.decode import load_audio
from utils.dataset.storage.stamps import is_settled, now_ns, stamp
from utils.errors import UserError
from utils.files import file_hash
from utils.options import DATASET_RATE

log = logging.getLogger(__name__)


class AudioFacts(NamedTuple):
    """A recording's content and length."""

    content: str
    """16 hex digits of the file's content."""
    num_samples: int
    """Length at 22 050 Hz."""
    is_native: bool
    """A mono file at 22 050 Hz, of which parts can be read; anything else is decoded whole."""


Parsed = TypeVar("Parsed")
Known = tuple[list[int], AudioFacts]
"""The stamp of a file when it was read, and what was found."""


class AudioFiles:
    """Facts about audio files, each read once.

    Args:
        folder: where they are kept; created when absent.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "files.jsonl"
        self._lock = FileLock(folder / ".files-lock")
        self._known = dict(parsed_lines(self._file, _known))
        self._news: dict[str, Known] = {}
        try:
            # Asked before any file is read: what is changed from now on has a stamp that proves nothing.
            self._now = now_ns(folder / ".files-time")
        except OSError as error:
            log.debug("nothing can be kept in %s: %s", folder, error)
            self._now = 0

    def facts(self, path: Path) -> AudioFacts:
        """What is known of a file; it is read when it is new or changed.

        Raises:
            UserError: it cannot be read as sound.
        """
        name = str(path.absolute())
        try:
            now = stamp(path)
            if name in self._known and self._known[name][0] == now:
                return self._known[name][1]
            found = now, read_facts(path)
        except OSError as error:
            what = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be opened: {error.strerror}"
            raise UserError(what=f"{path.name} {what}", where=str(path), fix="put the file back") from error
        self._known[name] = found
        if is_settled(now, self._now):
            self._news[name] = found
        return found[1]

    def save(self) -> None:
        """Keep what was found for the next run.

        Raises:
            OSError: the disk is full or not writable.
        """
        if not self._news:
            return
        keys = ("file", "stamp", "content", "samples", "native")
        lines = [
            json.dumps(dict(zip(keys, (name, seen, *facts), strict=True))) for name, (seen, facts) in self._news.items()
        ]
        with self._lock, self._file.open("a", encoding="ascii") as file:
            # The line break comes first: it closes a line that a kill left torn.
            file.write("\n" + "\n".join(lines) + "\n")
        self._news = {}


def read_facts(path: Path) -> AudioFacts:
    """Facts from the file itself.

    Raises:
        UserError: it cannot be read as sound.
        OSError: it cannot be opened.
    """
    content = file_hash(path)[:16]
    try:
        info = soundfile.info(path)
        if info.samplerate == DATASET_RATE and info.channels == 1:
            return AudioFacts(content, info.frames, True)
    except soundfile.LibsndfileError:
        log.debug("libsndfile cannot read %s, so it is decoded whole", path)
    return AudioFacts(content, load_audio(path, DATASET_RATE).shape[1], False)


def _known(line: Any) -> tuple[str, Known]:
    facts = AudioFacts(f"{int(line['content'], 16):016x}", int(line["samples"]), bool(line["native"]))
    return str(line["file"]), (list(map(int, line["stamp"])), facts)


def parsed_lines(path: Path, parse: Callable[[Any], Parsed]) -> Iterator[Parsed]:
    """What is made of each line of JSON of a file, which may be missing; torn and foreign lines are skipped."""
    if not path.is_file():
        return
    with path.open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            try:
                yield parse(json.loads(line))
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                continue
