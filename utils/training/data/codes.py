"""What is cached of a dataset's recordings: the facts of their files, and the DVAE codes that training reads.

files.jsonl has a line {"file", "stamp", "content", "samples", "native"} for each file that was read, so that a run
reads no header twice. A file whose stamp (`utils.dataset.storage.stamps`) has changed is read again.

Codes lie in a folder named after the DVAE's fingerprint with two files that only ever grow: codes.bin, all codes as
int16 one after the other, and index.jsonl, a line {"audio", "offset", "length"} a clip, keyed by the hash of its file.
A kill between the two leaves codes that nothing points to.

Of several lines about one file the last one counts; a torn or foreign line counts as not there.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from utils.audio.decode import load_audio
from utils.bases.base import Base
from utils.callbacks import ProgressFn
from utils.dataset.storage.stamps import is_settled, now_ns, stamp
from utils.errors import UserError
from utils.files import file_hash, parsed_lines
from utils.model.dvae import fingerprint, load_code_encoder
from utils.options import DATASET_RATE

log = logging.getLogger(__name__)


BATCH_SECONDS = 60
"""Audio encoded at a time: bounds memory, and fills a GPU."""


class AudioFacts(NamedTuple):
    """A recording's content and length."""

    content: str
    """16 hex digits of the file's content."""
    num_samples: int
    """Length at 22 050 Hz."""
    is_native: bool
    """A mono file at 22 050 Hz, of which parts can be read; anything else is decoded whole."""


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


class CodeCache:
    """Codes of clips by the hash of their audio file; what is added later is known to caches that are opened later.

    Args:
        folder: created when absent.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "codes.bin"
        """All codes, int16."""
        self._index_file = folder / "index.jsonl"
        self._lock = FileLock(folder / ".lock")

    @cached_property
    def index(self) -> dict[str, tuple[int, int]]:
        """Where in `file` the codes of each clip begin, and how many there are."""
        # Of several entries about a clip the last one counts; clips whose codes were cut off are encoded again.
        num_codes = self.file.stat().st_size // 2 if self.file.is_file() else 0
        entries = parsed_lines(
            self._index_file, lambda entry: (str(entry["audio"]), int(entry["offset"]), int(entry["length"]))
        )
        return {audio: (start, count) for audio, start, count in entries if 0 <= start < start + count <= num_codes}

    def mapped(self) -> NDArray[np.int16]:
        """All codes of `file`, read from disk when they are used.

        A clip's are a part of this one mapping: a mapping, and its file handle, for each clip would run into the
        system's limits with a thousand clips.
        """
        count = self.file.stat().st_size // 2
        return np.memmap(self.file, dtype=np.int16, mode="r", shape=(count,))

    def add(self, codes: dict[str, Tensor]) -> None:
        """Append clips: {hash: codes [M] int16}; several processes may."""
        lines = []
        with self._lock, self.file.open("ab") as file:
            # An odd byte left by a kill would shift every code behind it.
            file.write(b"\0" * (file.tell() % 2))
            for audio, clip in codes.items():
                lines.append(json.dumps({"audio": audio, "offset": file.tell() // 2, "length": len(clip)}))
                file.write(clip.numpy().tobytes())
        with self._lock, self._index_file.open("a", encoding="ascii") as file:
            # The line break comes first: it closes a line that a kill left torn.
            file.write("\n" + "\n".join(lines) + "\n")


def encode_missing(
    recordings: Mapping[str, Path],
    base: Base,
    folder: Path,
    *,
    accelerator: Accelerator | None = None,
    progress: ProgressFn | None = None,
) -> CodeCache:
    """The cache with the codes of all recordings; those that it lacks are encoded.

    Args:
        recordings: of some seconds at most, by the hash of their file.
        base: whose DVAE encodes.
        folder: where caches are kept; each DVAE has its own folder below.
        accelerator: the device that encodes, and the processes that share the work; one on the CPU when not given.
        progress: called with (phase, clips done, clips in all).

    Raises:
        UserError: a clip cannot be read, or the base has no DVAE.
    """
    place, own, device = folder / fingerprint(base.dvae, base.mel_stats()), list(recordings), torch.device("cpu")
    cache = CodeCache(place)
    if accelerator is not None:
        # Of all recordings, not of those that are missing: while one process looks, another may be adding some.
        own = own[accelerator.process_index :: accelerator.num_processes]
        device = accelerator.device
    missing = [audio for audio in own if audio not in cache.index]
    done = len(own) - len(missing)
    if missing:
        encoder = load_code_encoder(base.dvae, base.mel_stats()).to(device)
        for batch in _decoded(missing, recordings):
            lengths = [wav.shape[1] for wav in batch.values()]
            wavs = torch.cat([F.pad(wav, (0, max(lengths) - wav.shape[1])) for wav in batch.values()])
            cache.add(dict(zip(batch, encoder(wavs.to(device), lengths), strict=True)))
            done += len(batch)
            if progress is not None:
                progress("encoding clips", done, len(own))
    log.info("encoded %d clips, %d were cached", len(missing), len(own) - len(missing))
    if accelerator is not None:
        accelerator.wait_for_everyone()
    return CodeCache(place)


def up_to_silence(codes: NDArray[np.int16]) -> NDArray[np.int16]:
    """Codes up to the first of the equal ones at their end, [M] to [m]; see `TrainConfig.trim_end`."""
    others = np.flatnonzero(codes != codes[-1])
    return codes[: others[-1] + 2] if len(others) else codes[:1]


def _decoded(hashes: list[str], recordings: Mapping[str, Path]) -> Iterator[dict[str, Tensor]]:
    """Decoded recordings in batches of at most `BATCH_SECONDS` of padded audio; no more is in memory."""
    batch: dict[str, Tensor] = {}
    longest = 0
    for audio in hashes:
        wav = load_audio(recordings[audio], DATASET_RATE)
        longest = max(longest, wav.shape[1])
        if batch and longest * (len(batch) + 1) > BATCH_SECONDS * DATASET_RATE:
            yield batch
            batch, longest = {}, wav.shape[1]
        batch[audio] = wav
    if batch:
        yield batch
