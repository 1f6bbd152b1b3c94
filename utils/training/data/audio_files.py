"""Cached facts about a dataset's audio files, so that a run need not read 70,000 headers before its first step.

Beside the codes lies files.jsonl, a line {"file", "stamp", "content", "samples", "native"} for each file that was read;
of several lines about one file the last one counts. A file whose stamp (`utils.dataset.storage.stamps`) is another one
is read again; a torn or foreign line counts as not there.
"""

import hashlib
import json
import logging
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from accelerate import Accelerator
from filelock import FileLock
from numpy.typing import NDArray

from utils.audio.decode import load_audio
from utils.config import DATASET_RATE
from utils.dataset.storage.stamps import is_settled, now_ns, stamp
from utils.errors import UserError
from utils.events.progress import ProgressFn
from utils.files import file_hash
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
        self._lock = FileLock(folder / ".files-lock")
        self._kept = _Kept.read(self._file)
        self._seen: dict[str, Seen] = {}
        self._news: dict[str, Seen] = {}
        self._now = start_time(folder)

    def facts(self, path: Path) -> AudioFacts:
        """What is known of a file; it is read when it is new or changed.

        Raises:
            UserError: it cannot be read as sound.
        """
        return self.seen(path).facts

    def seen(self, path: Path) -> "Seen":
        """The same with the file's stamp.

        Raises:
            UserError: as `facts`.
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
        paths = list(dict.fromkeys(paths))

        def look(own: Sequence[Path]) -> list[tuple[str, Seen, bool]]:
            found = []
            for number, path in enumerate(own, start=1):
                seen, name = self.seen(path), str(path.absolute())
                found.append((name, seen, name in self._news))
                if progress is not None:
                    progress("reading clips", number, len(own))
            return found

        for name, seen, is_new in shared(accelerator, paths, look):
            self._seen[name] = seen
            if is_new:
                self._news[name] = seen

    def save(self) -> None:
        """Keep what was found for the next run.

        Raises:
            OSError: the disk is full or not writable.
        """
        if self._news:
            lines = [_line(name, seen) for name, seen in self._news.items()]
            with self._lock, self._file.open("a", encoding="ascii") as file:
                # The line break comes first: it closes a line that a kill left torn.
                file.write("\n" + "".join(lines))
            self._news = {}

    def forget(self) -> None:
        """Free what was looked up so far; what is not saved is asked for anew by the next run."""
        self._seen, self._news = {}, {}

    def _look(self, path: Path, name: str) -> "Seen":
        try:
            now = file_stamp(path)
            known = self._kept.find(name, now)
            if known is not None:
                return Seen(now, known, is_settled=True)
            facts = read_facts(path)
            found = Seen(now, facts, is_settled=is_settled(now, self._now))
        except OSError as error:
            what = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be opened: {error.strerror}"
            name = Path(error.filename or path).name
            raise UserError(what=f"{name} {what}", where=str(path), fix="put the file back") from error
        if found.is_settled:
            self._news[name] = found
        return found


class Seen(NamedTuple):
    """A file as it was met."""

    stamp: list[int]
    facts: AudioFacts
    is_settled: bool
    """Whether the stamp proves anything."""


class _Kept:
    """What files.jsonl says, in arrays: ten million files take 600 MB.

    Args:
        names: 64 bits of a hash of each file's path, ascending. Two paths of one hash do no harm: the stamp is compared
            as well, and it holds the file's number.
        stamps: [F, 4].
        contents, samples, native: of `AudioFacts`, the content as a number.
    """

    def __init__(
        self,
        names: NDArray[np.uint64],
        stamps: NDArray[np.int64],
        contents: NDArray[np.uint64],
        samples: NDArray[np.int64],
        native: NDArray[np.bool_],
    ) -> None:
        self._names, self._stamps = names, stamps
        self._contents, self._samples, self._native = contents, samples, native

    def find(self, name: str, now: list[int]) -> AudioFacts | None:
        """What is known of a file, if it is what it was."""
        place = int(np.searchsorted(self._names, _key(name), side="right")) - 1
        if place < 0 or self._names[place] != _key(name) or self._stamps[place].tolist() != now:
            return None
        return AudioFacts(
            content=f"{int(self._contents[place]):016x}",
            num_samples=int(self._samples[place]),
            is_native=bool(self._native[place]),
        )

    @classmethod
    def read(cls, path: Path) -> "_Kept":
        names, contents = array("Q"), array("Q")
        stamps, samples, native = array("q"), array("q"), array("b")
        for name, seen in _read(path):
            names.append(int(_key(name)))
            stamps.extend(seen.stamp)
            contents.append(int(seen.facts.content, 16))
            samples.append(seen.facts.num_samples)
            native.append(seen.facts.is_native)
        # Of several lines about a file the last one counts: it stays the last of its equals.
        order = np.argsort(np.array(names, dtype=np.uint64), kind="stable")
        return cls(
            np.array(names, dtype=np.uint64)[order],
            np.array(stamps, dtype=np.int64).reshape(-1, 4)[order],
            np.array(contents, dtype=np.uint64)[order],
            np.array(samples, dtype=np.int64)[order],
            np.array(native, dtype=np.bool_)[order],
        )


def _key(name: str) -> np.uint64:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest))


def fitting(seen: list[int]) -> list[int]:
    """A stamp whose file number fits into 63 bits."""
    return [*seen[:3], seen[3] & (2**63 - 1)]


def file_stamp(path: Path | bytes) -> list[int]:
    """The stamp of a file, its number in 63 bits.

    Raises:
        OSError: it cannot be asked.
    """
    return fitting(stamp(path))


def read_facts(path: Path) -> AudioFacts:
    """Facts from the file itself.

    Raises:
        UserError: it cannot be read as sound.
        OSError: it cannot be opened.
    """
    content = file_hash(path)[:16]
    num_samples, is_native = _measure(path)
    return AudioFacts(content=content, num_samples=num_samples, is_native=is_native)


def start_time(folder: Path) -> int:
    """The folder's time in ns, to be asked before any file is read.

    What is changed from then on has a stamp that proves nothing.
    """
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


def _line(name: str, seen: Seen) -> str:
    entry = {
        "file": name,
        "stamp": seen.stamp,
        "content": seen.facts.content,
        "samples": seen.facts.num_samples,
        "native": seen.facts.is_native,
    }
    return json.dumps(entry) + "\n"


def _read(path: Path) -> Iterator[tuple[str, Seen]]:
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                try:
                    one = json.loads(line)
                    facts = AudioFacts(
                        content=f"{int(one['content'], 16):016x}",
                        num_samples=int(one["samples"]),
                        is_native=bool(one["native"]),
                    )
                    size, modified, changed, number = map(int, one["stamp"])
                    # Numbers that no array takes are not ours.
                    np.array([size, modified, changed, facts.num_samples], dtype=np.int64)
                    np.uint64(int(facts.content, 16))
                    yield str(one["file"]), Seen(fitting([size, modified, changed, number]), facts, is_settled=True)
                except (ValueError, KeyError, TypeError, OverflowError):
                    continue
    except OSError as error:
        log.debug("nothing is known of the audio files yet: %s", error)
