"""The code cache: DVAE codes of a dataset's clips, encoded once and memory-mapped during training.

The cache is a folder named after the DVAE's fingerprint with two files that only ever grow: codes.bin, all codes as
int16 one after the other, and index.jsonl, a line {"audio", "offset", "length"} a clip, keyed by the hash of its file.
A kill between the two leaves codes nobody points to, and a torn last line is skipped.
"""

import json
import logging
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from utils.audio.decode import load_audio
from utils.bases.base import Base
from utils.callbacks import ProgressFn
from utils.config import DATASET_RATE
from utils.model.dvae import CodeEncoder, fingerprint, load_code_encoder
from utils.training.data.audio_files import AudioFiles

log = logging.getLogger(__name__)


BATCH_SECONDS = 60
"""Audio encoded at a time: bounds memory, and fills a GPU."""


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
    def _index(self) -> "_Index":
        return _read_index(self._index_file, self.file)

    def __len__(self) -> int:
        return len(self._index.audio)

    def __contains__(self, audio: str) -> bool:
        return bool(self.find(np.array([int(audio, 16)], dtype=np.uint64))[1][0])

    def find(self, audio: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where in `file` the codes of clips begin, and how many there are; 0 of those that were never encoded.

        Args:
            audio: hash of each clip's file, [N].
        """
        index = self._index
        if not len(self):
            return np.zeros(len(audio), dtype=np.int64), np.zeros(len(audio), dtype=np.int32)
        # Of several entries about a clip the last one counts.
        places = np.maximum(np.searchsorted(index.audio, audio, side="right") - 1, 0)
        is_there = index.audio[places] == audio
        return np.where(is_there, index.offsets[places], 0), np.where(is_there, index.lengths[places], 0)

    def mapped(self) -> NDArray[np.int16]:
        """All codes of `file`, read from disk when they are used."""
        count = self.file.stat().st_size // 2
        return np.memmap(self.file, dtype=np.int16, mode="r", shape=(count,))

    def codes(self, audio: list[str]) -> list[NDArray[np.int16]]:
        """Codes of some clips, [M] int16 each, read from disk when they are used.

        All are parts of one mapping: a mapping, and its file handle, for each clip would run into the system's limits
        with a thousand clips.
        """
        whole = self.mapped()
        offsets, lengths = self.find(np.array([int(name, 16) for name in audio], dtype=np.uint64))
        return [whole[at : at + length] for at, length in zip(offsets.tolist(), lengths.tolist(), strict=True)]

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


def cache_codes(
    clips: list[Path],
    base: Base,
    folder: Path,
    *,
    device: str | torch.device = "cpu",
    progress: ProgressFn | None = None,
    files: AudioFiles | None = None,
    accelerator: Accelerator | None = None,
) -> dict[Path, NDArray[np.int16]]:
    """Codes of every clip, encoding only those that the cache lacks.

    Args:
        clips: recordings of at most some seconds each.
        base: whose DVAE encodes.
        folder: where caches are kept; each DVAE has its own folder below.
        device: where to encode.
        progress: called with (phase, clips done, clips in all).
        files: what is known of the clips; read from `folder` when not given.
        accelerator: the processes that share encoding; None where there is one.

    Returns:
        For each clip its codes, [ceil(samples / 1024)], memory-mapped int16.

    Raises:
        UserError: a clip cannot be read, or the base has no DVAE.
    """
    files = files or AudioFiles(folder)
    hashes = {}
    for number, clip in enumerate(clips, start=1):
        hashes[clip] = files.facts(clip).content
        if progress is not None:
            progress("reading clips", number, len(clips))
    if accelerator is None or accelerator.is_main_process:
        files.save()
    audio = np.array([int(hashes[clip], 16) for clip in clips], dtype=np.uint64)
    cache = encode_missing(
        clips.__getitem__, audio, base, folder, device=device, progress=progress, accelerator=accelerator
    )
    return dict(zip(clips, cache.codes([hashes[clip] for clip in clips]), strict=True))


def encode_missing(
    path_of: Callable[[int], Path],
    audio: NDArray[np.uint64],
    base: Base,
    folder: Path,
    *,
    device: str | torch.device = "cpu",
    progress: ProgressFn | None = None,
    accelerator: Accelerator | None = None,
) -> CodeCache:
    """The cache with the codes of all clips, whatever their number; those that it lacks are encoded.

    Args:
        path_of: the recording of a clip, by its number.
        audio: hash of each clip's file, [N].
        base, folder, device, progress, accelerator: as of `cache_codes`.

    Raises:
        UserError: a clip cannot be read, or the base has no DVAE.
    """
    cache, device = cache_of(base, folder), torch.device(device)
    # A recording that several clips name is encoded once.
    own = np.sort(np.unique(audio, return_index=True)[1])
    if accelerator is not None:
        # Of all recordings, not of those that are missing: while one process looks, another may be adding some.
        own = own[accelerator.process_index :: accelerator.num_processes]
    missing = own[cache.find(audio[own])[1] == 0].tolist()
    done = len(own) - len(missing)
    if missing:
        encoder = load_code_encoder(base.dvae, base.mel_stats()).to(device)
        for numbers, codes in _encoded(missing, path_of, encoder, device):
            cache.add({f"{int(audio[number]):016x}": clip for number, clip in zip(numbers, codes, strict=True)})
            done += len(numbers)
            if progress is not None:
                progress("encoding clips", done, len(own))
    log.info("encoded %d clips, %d were cached", len(missing), len(own) - len(missing))
    if accelerator is not None:
        accelerator.wait_for_everyone()
    return cache_of(base, folder)


def cache_of(base: Base, folder: Path) -> CodeCache:
    """The cache of a base's DVAE.

    Raises:
        UserError: the base has no DVAE.
    """
    return CodeCache(folder / fingerprint(base.dvae, base.mel_stats()))


def up_to_silence(codes: NDArray[np.int16]) -> NDArray[np.int16]:
    """Codes up to the first of the equal ones at their end, [M] to [m]; see `TrainConfig.trim_end`."""
    others = np.flatnonzero(codes != codes[-1])
    return codes[: others[-1] + 2] if len(others) else codes[:1]


def _encoded(
    clips: Sequence[int], path_of: Callable[[int], Path], encoder: CodeEncoder, device: torch.device
) -> Iterator[tuple[list[int], list[Tensor]]]:
    """Clips and their codes, some at a time; only as much audio as a batch holds is in memory."""
    for batch in _batches(clips, path_of):
        lengths = [wav.shape[1] for _, wav in batch]
        wavs = torch.zeros(len(batch), max(lengths))
        for row, (_, wav) in enumerate(batch):
            wavs[row, : wav.shape[1]] = wav[0]
        yield [clip for clip, _ in batch], encoder(wavs.to(device), lengths)


def _batches(clips: Iterable[int], path_of: Callable[[int], Path]) -> Iterator[list[tuple[int, Tensor]]]:
    """Decoded clips in batches of at most `BATCH_SECONDS` of padded audio."""
    batch: list[tuple[int, Tensor]] = []
    longest = 0
    for clip in clips:
        wav = load_audio(path_of(clip), DATASET_RATE)
        longest = max(longest, wav.shape[1])
        if batch and longest * (len(batch) + 1) > BATCH_SECONDS * DATASET_RATE:
            yield batch
            batch, longest = [], wav.shape[1]
        batch.append((clip, wav))
    if batch:
        yield batch


class _Index(NamedTuple):
    audio: NDArray[np.uint64]
    """Hashes, ascending; of equal ones the last stands last."""
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int32]


def _read_index(path: Path, codes: Path) -> _Index:
    """The entries whose codes are there: clips whose codes were cut off are encoded again."""
    num_codes = codes.stat().st_size // 2 if codes.is_file() else 0
    audio, offsets, lengths = array("Q"), array("q"), array("i")
    if path.is_file():
        with path.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                try:
                    entry = json.loads(line)
                    found = int(entry["audio"], 16), int(entry["offset"]), int(entry["length"])
                    np.array([found[0]], dtype=np.uint64)
                    if found[1] < 0 or found[2] <= 0 or sum(found[1:]) > num_codes:
                        continue
                except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                    continue
                for column, value in zip((audio, offsets, lengths), found, strict=True):
                    column.append(value)
    hashes = np.array(audio, dtype=np.uint64)
    order = np.argsort(hashes, kind="stable")
    return _Index(hashes[order], np.array(offsets, dtype=np.int64)[order], np.array(lengths, dtype=np.int32)[order])
