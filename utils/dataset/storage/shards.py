"""Pack the recordings of a dataset into shards: a Lhotse Shar dataset, with an index of each shard and manifests.

`folder/train/` and `folder/evaluate/` are what Lhotse reads (`CutSet.from_shar`); how training reads the same tars says
`utils.audio.shards`. Each sample is compared with its recording's before the manifest is written.
"""

import csv as csv_format
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from utils.audio.decode import unreadable
from utils.audio.shards import INDEX_KIND, index_file, name_hash, shard_of
from utils.config import DATASET_RATE
from utils.dataset.formats.table import AUDIO, SPEAKER, TEXT, WORD_TIMES
from utils.dataset.storage.manifest import Clip, iter_manifest
from utils.errors import UserError
from utils.events.progress import ProgressFn
from utils.files import file_hash

SHARD_CLIPS = 1_000
"""That Lhotse and WebDataset take, too."""
_SHAR_TYPE = "wav"


@dataclass(frozen=True, kw_only=True)
class Packed:
    """What was packed."""

    manifests: dict[str, Path]
    """By the name of each part."""
    clips: int
    shards: int
    num_bytes: int


def require_lhotse() -> None:
    """Do nothing where Lhotse is installed.

    Raises:
        UserError: it is not.
    """
    if find_spec("lhotse") is None:
        raise UserError(
            what="packing needs the package lhotse, which is not installed",
            where="shards",
            fix="pip install -r requirements-shards.txt -c requirements.lock",
        )


def pack(
    csvs: Mapping[str, Path], folder: Path, *, shard_clips: int = SHARD_CLIPS, progress: ProgressFn | None = None
) -> Packed:
    """Pack the recordings of manifests; nothing is there under the folder's name before all is.

    Args:
        csvs: manifests by the name of the part that each becomes.
        folder: made by this.
        shard_clips: recordings in a shard.
        progress: called with (phase, clips done, None).

    Raises:
        UserError: the folder exists, a manifest cannot be read, or a recording is not 16-bit mono at 22 050 Hz.
        OSError: the disk is full or not writable.
    """
    require_lhotse()
    if folder.exists():
        raise UserError(what="there are shards already", where=str(folder), fix="remove the folder, or name another")
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = folder.with_name(f".{folder.name}-unfinished")
    shutil.rmtree(making, ignore_errors=True)
    try:
        shards = clips = 0
        for name, csv in csvs.items():
            (making / name).mkdir(parents=True)
            with (making / csv.name).open("w", encoding="utf-8", newline="") as file:
                table = csv_format.writer(file, delimiter="|", lineterminator="\n")
                table.writerow((AUDIO, TEXT, SPEAKER, WORD_TIMES))
                for number, block in enumerate(_blocks(iter_manifest(csv), shard_clips)):
                    shard = _write_shard(making / name, number, block)
                    shards, clips = shards + 1, clips + len(block)
                    for cut, clip in block.items():
                        place = f"{name}/{shard.name}/{_member(cut)}"
                        times = " ".join(f"{time:.3f}" for time in clip.word_times)
                        table.writerow((place, clip.text, clip.speaker, times))
                    if progress is not None:
                        progress("packing clips", clips, None)
        num_bytes = sum(path.stat().st_size for path in making.rglob("*") if path.is_file())
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    manifests = {name: folder / csv.name for name, csv in csvs.items()}
    return Packed(manifests=manifests, clips=clips, shards=shards, num_bytes=num_bytes)


def _blocks(clips: Iterator[Clip], size: int) -> Iterator[dict[str, Clip]]:
    """The clips of each shard, by names that differ within it."""
    while block := list(islice(clips, size)):
        named: dict[str, Clip] = {}
        for clip in block:
            name, again = clip.audio.stem, 1
            while name in named:
                again += 1
                name = f"{clip.audio.stem}-{again}"
            named[name] = clip
        yield named


def _write_shard(folder: Path, number: int, clips: Mapping[str, Clip]) -> Path:
    """Write a shard and its index.

    Returns:
        The tar.

    Raises:
        UserError: a recording is not 16-bit mono at 22 050 Hz, or missing.
    """
    from lhotse import AudioSource, Recording, SupervisionSegment  # takes seconds
    from lhotse.cut import MonoCut
    from lhotse.shar import SharWriter

    lengths = {name: _length(clip.audio) for name, clip in clips.items()}
    fields = {"recording": _SHAR_TYPE}
    with SharWriter(folder, fields, shard_size=len(clips), shard_offset=number) as writer:
        for name, clip in clips.items():
            samples, seconds = lengths[name], lengths[name] / DATASET_RATE
            recording = Recording(
                id=name,
                sources=[AudioSource(type="file", channels=[0], source=str(clip.audio))],
                sampling_rate=DATASET_RATE,
                num_samples=samples,
                duration=seconds,
            )
            said = SupervisionSegment(
                id=name, recording_id=name, start=0.0, duration=seconds, text=clip.text, speaker=clip.speaker
            )
            cut = MonoCut(id=name, start=0.0, duration=seconds, channel=0, supervisions=[said], recording=recording)
            writer.write(cut)
    (tar,) = map(Path, writer.output_paths["recording"])
    index_file(tar).parent.mkdir(exist_ok=True)
    np.save(index_file(tar), _indexed(tar, clips))
    return tar


def _indexed(tar: Path, clips: Mapping[str, Clip]) -> NDArray[Any]:
    """The index of a shard.

    Raises:
        UserError: a recording has samples that a shard cannot hold.
    """
    index = np.zeros(len(clips), dtype=INDEX_KIND)
    with tarfile.open(tar, "r:") as shard:
        members = {member.name: member for member in shard}
        for entry, (name, clip) in zip(index, clips.items(), strict=True):
            member = members[_member(name)]
            data = shard.extractfile(member)
            assert data is not None
            packed = data.read()
            sound, _ = soundfile.read(BytesIO(packed), dtype="float32")
            if not np.array_equal(sound, soundfile.read(clip.audio, dtype="float32")[0]):
                raise unreadable(clip.audio, "has samples finer than 16 bits", fix="prepare the dataset again")
            entry["name"] = name_hash(_member(name))
            entry["offset"], entry["size"], entry["crc"] = member.offset_data, member.size, zlib.crc32(packed)
            entry["content"], entry["samples"] = int(file_hash(clip.audio)[:16], 16), len(sound)
    return np.sort(index, order="name")


def _member(name: str) -> str:
    return f"{name}.{_SHAR_TYPE}"


def _length(path: Path) -> int:
    """Samples of a recording that a shard can hold.

    Raises:
        UserError: it is none.
    """
    if shard_of(path) is not None:
        raise UserError(what="the recordings are in shards already", where=str(path.parent), fix="train from them")
    try:
        info = soundfile.info(path)
    except soundfile.LibsndfileError as error:
        raise unreadable(path, f"cannot be read ({error})", fix="prepare the dataset again") from error
    if (info.samplerate, info.channels) != (DATASET_RATE, 1):
        found = f"{info.samplerate} Hz with {info.channels} channels"
        raise unreadable(path, f"is {found}, not {DATASET_RATE} Hz mono", fix="prepare the dataset first")
    return int(info.frames)
