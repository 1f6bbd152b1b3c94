"""Recordings in shards: a thousand or so in one tar, each read from its place in it and checked by its checksum.

A recording in a shard has a path as if the tar was a folder: train/recording.000003.tar/clip_17.wav. Beside the folder
of the tars lies that of their indices, train-index/recording.000003.npy, which say where in a tar each recording is.
"""

import hashlib
import re
import zlib
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from utils.errors import UserError

TAR = ".tar"
INDEX_KIND = np.dtype(
    [("name", "<u8"), ("offset", "<i8"), ("size", "<i8"), ("crc", "<u4"), ("content", "<u8"), ("samples", "<i8")]
)
"""A recording in a shard: hash of its name, ascending; where its bytes are, how many, and their checksum; the hash of
the file that it was packed from; length at 22 050 Hz. All are mono at that rate."""
_SHARD_NAME = re.compile(r"recording\.\d+\.tar")
"""That Lhotse gives."""
_INDICES_KEPT = 64
"""48 kB each for a thousand recordings."""
_PACK_AGAIN = "put the file back, or pack the dataset again"


def shard_of(path: Path) -> Path | None:
    """The shard in which a recording lies; None where it is a file of its own."""
    return path.parent if is_shard(path.parent) else None


def is_shard(path: Path) -> bool:
    """Whether it is the path of a shard, by its name."""
    return _SHARD_NAME.fullmatch(path.name) is not None


def sound_source(path: Path) -> Path | BytesIO:
    """What soundfile opens to read a recording: its path, or its bytes if it lies in a shard.

    Raises:
        UserError: the shard is missing or broken.
    """
    return path if shard_of(path) is None else BytesIO(read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """The file that a recording in a shard is.

    Raises:
        UserError: the shard or its index is missing or broken, or has no such recording.
    """
    shard, entry = path.parent, find(path)
    try:
        # Opened anew for each: two processes must not share a place in a file, and a shard that is lost is noticed.
        with shard.open("rb") as file:
            file.seek(int(entry["offset"]))
            found = file.read(int(entry["size"]))
    except OSError as error:
        raise _unusable(shard, error) from error
    if zlib.crc32(found) != entry["crc"]:
        raise _broken(shard, f"{path.name} in it is not what was packed")
    return found


def find(path: Path) -> Any:
    """The entry of a recording in its shard's index, of `INDEX_KIND`.

    Raises:
        UserError: the index is missing or broken, or has no such recording.
    """
    index = _index(path.parent)
    place = int(np.searchsorted(index["name"], name_hash(path.name)))
    if place == len(index) or index["name"][place] != name_hash(path.name):
        raise _broken(path.parent, f"its index has no {path.name}")
    return index[place]


def check_shard(shard: Path) -> None:
    """Do nothing where each recording of a shard is what was packed; all of it is read once, front to back.

    Raises:
        UserError: it is missing, shorter or otherwise than it was.
    """
    _index.cache_clear()
    try:
        with shard.open("rb") as file:
            for entry in np.sort(_index(shard), order="offset"):
                file.seek(int(entry["offset"]))
                if zlib.crc32(file.read(int(entry["size"]))) != entry["crc"]:
                    raise _broken(shard, f"what it has at byte {entry['offset']} is not what was packed")
    except OSError as error:
        raise _unusable(shard, error) from error


def index_file(shard: Path) -> Path:
    """Where the index of a shard lies; not beside it, as Lhotse takes all that lies there for its own."""
    return shard.parent.with_name(f"{shard.parent.name}-index") / f"{shard.stem}.npy"


def name_hash(name: str) -> np.uint64:
    """64 bits of a recording's name."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest))


@lru_cache(maxsize=_INDICES_KEPT)
def _index(shard: Path) -> NDArray[Any]:
    path = index_file(shard)
    try:
        index: NDArray[Any] = np.load(path, allow_pickle=False)
    except OSError as error:
        raise _unusable(path, error) from error
    except ValueError as error:
        raise _broken(path, str(error)) from error
    if index.dtype != INDEX_KIND:
        raise _broken(path, "it is not the index of a shard")
    return index


def _unusable(path: Path, error: OSError) -> UserError:
    what = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
    return UserError(what=f"the shard {path.name} {what}", where=str(path), fix=_PACK_AGAIN)


def _broken(path: Path, what: str) -> UserError:
    return UserError(what=f"the shard {path.name} is broken: {what}", where=str(path), fix=_PACK_AGAIN)
