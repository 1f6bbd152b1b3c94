"""The code cache: DVAE codes of a dataset's clips, encoded once and memory-mapped during training.

The cache is a folder named after the DVAE's fingerprint with two files that only ever grow: codes.bin, all codes as
int16 one after the other, and index.jsonl, a line {"audio", "offset", "length"} a clip, keyed by the hash of its file.
A kill between the two leaves codes nobody points to, and a torn last line is skipped.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from utils.audio.decode import load_audio
from utils.bases.base import Base
from utils.config import DATASET_RATE
from utils.events.progress import ProgressFn
from utils.model.dvae import CodeEncoder, fingerprint, load_code_encoder
from utils.training.data.audio_files import AudioFiles
from utils.training.data.share import shared

log = logging.getLogger(__name__)


BATCH_SECONDS = 60
"""Audio encoded at a time: bounds memory, and fills a GPU."""


class CodeCache:
    """Codes of clips by the hash of their audio file.

    Args:
        folder: created when absent.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._codes_file = folder / "codes.bin"
        self._index_file = folder / "index.jsonl"
        self._lock = FileLock(folder / ".lock")
        self._index = dict(_read_index(self._index_file))

    def __contains__(self, audio: str) -> bool:
        return audio in self._index

    def codes(self, audio: list[str]) -> list[NDArray[np.int16]]:
        """Codes of some clips, [M] int16 each, read from disk when they are used.

        All are parts of one mapping: a mapping, and its file handle, for each clip would run into the system's limits
        with a thousand clips.
        """
        count = self._codes_file.stat().st_size // 2
        whole = np.memmap(self._codes_file, dtype=np.int16, mode="r", shape=(count,))
        spans = [self._index[name] for name in audio]
        return [whole[offset : offset + length] for offset, length in spans]

    def add(self, codes: dict[str, Tensor]) -> None:
        """Append clips: {hash: codes [M] int16}; several processes may."""
        lines = []
        with self._lock, self._codes_file.open("ab") as file:
            # An odd byte left by a kill would shift every code behind it.
            file.write(b"\0" * (file.tell() % 2))
            for audio, clip in codes.items():
                self._index[audio] = (file.tell() // 2, len(clip))
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
    mel_stats = base.mel_stats()
    own_folder = folder / fingerprint(base.dvae, mel_stats)
    cache = CodeCache(own_folder)
    files = files or AudioFiles(folder)
    hashes = {}
    for number, clip in enumerate(clips, start=1):
        hashes[clip] = files.facts(clip).content
        if progress is not None:
            progress("reading clips", number, len(clips))
    if accelerator is None or accelerator.is_main_process:
        files.save()
    missing = [clip for clip in clips if hashes[clip] not in cache]
    if accelerator is not None:
        # One process's list for all: another may have looked when the first had encoded some already.
        (missing,) = broadcast_object_list([missing])

    def encode(own: Sequence[Path]) -> list[None]:
        encoder = load_code_encoder(base.dvae, mel_stats).to(device)
        done = total = len(clips) - len(missing)
        total += len(own)
        for names, codes in _encoded(own, encoder, torch.device(device)):
            cache.add({hashes[name]: clip for name, clip in zip(names, codes, strict=True)})
            done += len(names)
            if progress is not None:
                progress("encoding clips", done, total)
        log.info("encoded %d clips, %d were cached", len(own), len(clips) - len(missing))
        return []

    if missing:
        shared(accelerator, missing, encode)
        cache = CodeCache(own_folder)
    return dict(zip(clips, cache.codes([hashes[clip] for clip in clips]), strict=True))


def _encoded(
    clips: Sequence[Path], encoder: CodeEncoder, device: torch.device
) -> Iterator[tuple[list[Path], list[Tensor]]]:
    """Clips and their codes, some at a time; only as much audio as a batch holds is in memory."""
    for batch in _batches(clips):
        lengths = [wav.shape[1] for _, wav in batch]
        wavs = torch.zeros(len(batch), max(lengths))
        for row, (_, wav) in enumerate(batch):
            wavs[row, : wav.shape[1]] = wav[0]
        yield [clip for clip, _ in batch], encoder(wavs.to(device), lengths)


def _batches(clips: Iterable[Path]) -> Iterator[list[tuple[Path, Tensor]]]:
    """Decoded clips in batches of at most `BATCH_SECONDS` of padded audio."""
    batch: list[tuple[Path, Tensor]] = []
    longest = 0
    for clip in clips:
        wav = load_audio(clip, DATASET_RATE)
        longest = max(longest, wav.shape[1])
        if batch and longest * (len(batch) + 1) > BATCH_SECONDS * DATASET_RATE:
            yield batch
            batch, longest = [], wav.shape[1]
        batch.append((clip, wav))
    if batch:
        yield batch


def _read_index(path: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    if not path.is_file():
        return
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            yield entry["audio"], (entry["offset"], entry["length"])
        except (ValueError, KeyError, TypeError):
            continue
