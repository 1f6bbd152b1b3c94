"""The code cache: DVAE codes of a dataset's clips, encoded once and memory-mapped during training.

The cache is a folder named after the DVAE's fingerprint with two files that only ever grow: codes.bin, all codes as
int16 one after the other, and index.jsonl, a line {"audio", "offset", "length"} a clip, keyed by the hash of its file.
A kill between the two leaves codes nobody points to, and a torn last line is skipped.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from utils.audio.decode import load_audio
from utils.bases.base import Base
from utils.callbacks import ProgressFn
from utils.model.dvae import fingerprint, load_code_encoder
from utils.options import DATASET_RATE
from utils.training.data.audio_files import AudioFiles, parsed_lines

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

    def codes(self, audio: list[str]) -> list[NDArray[np.int16]]:
        """Codes of some clips, [M] int16 each, read from disk when they are used."""
        whole = self.mapped()
        return [whole[start : start + count] for start, count in map(self.index.__getitem__, audio)]

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
    clips: list[Path], base: Base, folder: Path, *, progress: ProgressFn | None = None
) -> dict[Path, NDArray[np.int16]]:
    """Codes of every clip, encoding only those that the cache lacks.

    Args:
        clips: recordings of at most some seconds each.
        base: whose DVAE encodes.
        folder: where caches are kept; each DVAE has its own folder below.
        progress: called with (phase, clips done, clips in all).

    Returns:
        For each clip its codes, [ceil(samples / 1024)], memory-mapped int16.

    Raises:
        UserError: a clip cannot be read, or the base has no DVAE.
    """
    files, hashes = AudioFiles(folder), list[str]()
    for number, clip in enumerate(clips, start=1):
        hashes.append(files.facts(clip).content)
        if progress is not None:
            progress("reading clips", number, len(clips))
    files.save()
    cache = encode_missing(dict(zip(hashes, clips, strict=True)), base, folder, progress=progress)
    return dict(zip(clips, cache.codes(hashes), strict=True))


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
        recordings: by the hash of their file.
        base, folder, progress: as of `cache_codes`.
        accelerator: the device that encodes, and the processes that share the work; one on the CPU when not given.

    Raises:
        UserError: a clip cannot be read, or the base has no DVAE.
    """
    cache, own, device = cache_of(base, folder), list(recordings), torch.device("cpu")
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
