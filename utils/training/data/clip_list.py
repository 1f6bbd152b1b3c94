"""The clips of a run as columns, mapped from disk: they take no memory until they are used.

R rows of a manifest, N of them clips that train. A clip becomes an object when it is asked for.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray

from utils.config import DATASET_RATE
from utils.training.data.clips import TrainingClip
from utils.training.data.columns import ENDS, map_column, part, part_sizes, ragged, release

ROW_KINDS = {
    **ragged("names", "u1"),
    "folders": "<i4",
    "speakers": "<i4",
    "samples": "<i8",
    "native": "?",
    "contents": "<u8",
    "stamps": "<i8",
    "settled": "?",
}
"""Columns of a manifest's rows: file name and its folder's number, speaker's number, length at 22 050 Hz, whether
native, hash of the content, stamp (four numbers a row), and whether the stamp proves anything."""
TOKEN_KINDS = {**ragged("tokens", "<i4"), **ragged("readings", "<f4"), "kept": "<i4"}
"""Text tokens of each row, `TrainingClip.reading` one pair after the other, and the rows that train, [N]."""
CODE_KINDS = {"code_starts": "<i8", "code_counts": "<i4"}
"""Where in the code cache a clip's codes begin, and how many, [N]."""
STAMP = 4
ABOUT_FILE = "about.json"
"""Names of folders and speakers by their numbers."""

_HASHED_AT_ONCE = 50_000
"""Clips whose numbers are in memory as objects."""
_LOOKED_AT_ONCE = 200_000
"""Clips whose numbers are in memory as arrays."""
_READ_BEFORE_RELEASE = 500
"""Clips that are read before the pages that they touched are given back."""

Columns = dict[str, NDArray[Any]]
Result = TypeVar("Result")


class ClipList(Sequence[TrainingClip]):
    """Clips that train, in the order of their manifest.

    Args:
        columns: `ROW_KINDS`, `TOKEN_KINDS` and `CODE_KINDS`.
        folders: of the audio files.
        speakers: their names.
        codes: codes of all clips, and maybe more, one after the other, int16.
        source: where the columns and the codes lie on disk; None where they are in memory only.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        folders: list[str],
        speakers: list[str],
        codes: NDArray[np.int16],
        source: tuple[Path, Path | None] | None = None,
    ) -> None:
        self.columns, self._folders, self._speakers, self._codes = columns, folders, speakers, codes
        self._source = source
        self._num_read = 0

    @classmethod
    def open(cls, folder: Path, codes: Path | None) -> "ClipList":
        """The list that lies in a folder.

        Args:
            folder: of the columns.
            codes: codes.bin of the cache that encoded the clips; None where they are not encoded yet.

        Raises:
            OSError, ValueError: it is not there, or not whole.
        """
        about = json.loads((folder / ABOUT_FILE).read_text(encoding="ascii"))
        kinds = ROW_KINDS | TOKEN_KINDS | ({} if codes is None else CODE_KINDS)
        return cls(
            {name: map_column(folder / name, kind) for name, kind in kinds.items()},
            folders=about["folders"],
            speakers=about["speakers"],
            codes=np.zeros(0, dtype=np.int16) if codes is None else map_column(codes, "<i2"),
            source=(folder, codes),
        )

    @classmethod
    def of(cls, clips: Sequence[TrainingClip]) -> "ClipList":
        """A list in memory."""
        folders = {str(clip.audio.parent): 0 for clip in clips}
        speakers = {clip.speaker: 0 for clip in clips}
        for known in (folders, speakers):
            known.update({name: number for number, name in enumerate(known)})
        names = [os.fsencode(clip.audio.name) for clip in clips]
        columns = {
            "names": np.frombuffer(b"".join(names), dtype=np.uint8),
            "names" + ENDS: np.cumsum([0, *map(len, names)])[1:],
            "folders": np.array([folders[str(clip.audio.parent)] for clip in clips]),
            "speakers": np.array([speakers[clip.speaker] for clip in clips]),
            "samples": np.array([clip.num_samples for clip in clips]),
            "native": np.array([clip.is_native for clip in clips]),
            "tokens": np.concatenate([clip.tokens.numpy() for clip in clips]),
            "tokens" + ENDS: np.cumsum([len(clip.tokens) for clip in clips]),
            "readings": np.concatenate([clip.reading.reshape(-1) for clip in clips]),
            "readings" + ENDS: np.cumsum([clip.reading.size for clip in clips]),
            "kept": np.arange(len(clips)),
            "code_starts": np.cumsum([0, *(len(clip.codes) for clip in clips)])[:-1],
            "code_counts": np.array([len(clip.codes) for clip in clips]),
        }
        codes = np.concatenate([clip.codes for clip in clips])
        return cls(columns, folders=list(folders), speakers=list(speakers), codes=codes)

    def __getstate__(self) -> dict[str, Any]:
        """A process that loads clips maps what lies on disk, rather than being sent it."""
        return {"source": self._source} if self._source else self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(vars(ClipList.open(*state["source"])) if "source" in state else state)

    def __len__(self) -> int:
        return len(self.columns["kept"])

    @overload
    def __getitem__(self, number: int) -> TrainingClip: ...
    @overload
    def __getitem__(self, number: slice) -> list[TrainingClip]: ...
    def __getitem__(self, number: int | slice) -> TrainingClip | list[TrainingClip]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        self._num_read += 1
        if self._num_read % _READ_BEFORE_RELEASE == 0:
            self.release()
        columns, row = self.columns, int(self.columns["kept"][number])
        return TrainingClip(
            audio=self.path(row),
            num_samples=int(columns["samples"][row]),
            is_native=bool(columns["native"][row]),
            # Copies: the columns are not writable.
            tokens=torch.from_numpy(np.array(part(columns, "tokens", row), dtype=np.int32)),
            codes=self.codes(number),
            speaker=self._speakers[columns["speakers"][row]],
            reading=np.array(part(columns, "readings", row), dtype=np.float32).reshape(-1, 2),
        )

    def __iter__(self) -> Iterator[TrainingClip]:
        return map(self.__getitem__, range(len(self)))

    def path(self, row: int) -> Path:
        """The audio file of a manifest's row."""
        return Path(os.fsdecode(next(self.paths(range(row, row + 1)))))

    def paths(self, rows: range) -> Iterator[bytes]:
        """The audio of some rows of the manifest, one after the other, as the system names files."""
        ends, folders = self.columns["names" + ENDS], self.columns["folders"][rows.start : rows.stop].tolist()
        start = int(ends[rows.start - 1]) if rows.start else 0
        names = self.columns["names"][start : ends[rows.stop - 1]].tobytes()
        begin = 0
        for end, folder in zip((ends[rows.start : rows.stop] - start).tolist(), folders, strict=True):
            yield self._prefixes[folder] + names[begin:end]
            begin = end

    @cached_property
    def _prefixes(self) -> list[bytes]:
        return [os.fsencode(os.path.join(folder, "")) for folder in self._folders]  # noqa: PTH118

    def length(self, number: int) -> int:
        """Samples of a clip at 22 050 Hz."""
        return int(self.columns["samples"][self.columns["kept"][number]])

    def codes(self, number: int) -> NDArray[np.int16]:
        """Codes of a clip, [M]."""
        start = self.columns["code_starts"][number]
        return self._codes[start : start + self.columns["code_counts"][number]]

    def add_to(self, digest: "hashlib._Hash") -> None:
        """Hash each clip's file name, length, tokens and codes."""
        columns = self.columns
        names, tokens, codes = (one.data.cast("B") for one in (columns["names"], columns["tokens"], self._codes))
        for at in range(0, len(self), _HASHED_AT_ONCE):
            clips = slice(at, at + _HASHED_AT_ONCE)
            rows = columns["kept"][clips]
            numbers = zip(
                *_spans(columns["names" + ENDS], rows),
                columns["samples"][rows].tolist(),
                *_spans(columns["tokens" + ENDS], rows),
                columns["code_starts"][clips].tolist(),
                columns["code_counts"][clips].tolist(),
                strict=True,
            )
            for name, name_end, num_samples, token, token_end, code, num_codes in numbers:
                digest.update(names[name:name_end])
                digest.update(f" {num_samples}".encode())
                digest.update(tokens[4 * token : 4 * token_end])
                digest.update(codes[2 * code : 2 * (code + num_codes)])

    @property
    def contents(self) -> NDArray[np.uint64]:
        """Hash of each clip's file, [N]."""
        return self.columns["contents"][self.columns["kept"]]

    @property
    def is_whole(self) -> bool:
        """Whether all columns are as long as they belong to, and the codes are there."""
        columns, rows = self.columns, len(self.columns["folders"])
        of_rows = ["names" + ENDS, "speakers", "samples", "native", "contents", "settled"]
        of_rows += ["tokens" + ENDS, "readings" + ENDS]
        counts = {len(columns[name]) for name in of_rows} | {len(columns["stamps"]) // STAMP}
        return (
            counts == {rows}
            and len(columns["code_starts"]) == len(columns["code_counts"]) == len(self) > 0
            and all(columns[name + ENDS][-1] == len(columns[name]) for name in ("names", "tokens", "readings"))
            and max(self._in_parts(self._code_end)) <= len(self._codes)
        )

    def _code_end(self, clips: slice) -> int:
        """Where the last codes of some clips end."""
        return int((self.columns["code_starts"][clips] + self.columns["code_counts"][clips]).max())

    def _in_parts(self, look: Callable[[slice], Result]) -> list[Result]:
        """What is found in one part of the clips after another, with the pages of one part in memory."""
        found = []
        for at in range(0, len(self), _LOOKED_AT_ONCE):
            found.append(look(slice(at, min(at + _LOOKED_AT_ONCE, len(self)))))
            self.release()
        return found

    def release(self) -> None:
        """Give back the memory of the pages that were looked at."""
        release((*self.columns.values(), self._codes))

    def positions(self, more: int) -> NDArray[np.int16]:
        """Text tokens and codes of each clip together, and so many positions more, [N]; no model has 32,767."""
        columns, found = self.columns, np.empty(len(self), dtype=np.int16)

        def fill(clips: slice) -> None:
            rows, ends = columns["kept"][clips], columns["tokens" + ENDS]
            tokens = ends[rows] - np.where(rows > 0, ends[rows - 1], 0)
            found[clips] = np.minimum(tokens + columns["code_counts"][clips] + more, np.iinfo(np.int16).max)

        self._in_parts(fill)
        return found

    @property
    def longest(self) -> int:
        """Number of the longest clip, the first of several."""

        def of(clips: slice) -> tuple[int, int]:
            samples = self.columns["samples"][self.columns["kept"][clips]]
            place = int(samples.argmax())
            return int(samples[place]), -(clips.start + place)

        return -max(self._in_parts(of))[1]

    @property
    def num_samples(self) -> NDArray[np.int64]:
        """Length of each clip at 22 050 Hz, [N]."""
        return self.columns["samples"][self.columns["kept"]]

    @property
    def seconds(self) -> float:
        """Duration of all clips together."""
        samples, rows = self.columns["samples"], self.columns["kept"]
        return sum(self._in_parts(lambda clips: int(samples[rows[clips]].sum()))) / DATASET_RATE

    @property
    def speakers(self) -> NDArray[np.int32]:
        """Number of each clip's speaker, [N]; clips of the same speaker have the same."""
        return self.columns["speakers"][self.columns["kept"]]

    @property
    def num_alone(self) -> int:
        """Speakers with one clip only."""
        return int((np.bincount(self.speakers) == 1).sum())

    @property
    def num_timed(self) -> int:
        """Clips with word times that fit their text."""
        return int((part_sizes(self.columns["readings" + ENDS])[self.columns["kept"]] > 0).sum())

    @property
    def audio_bytes(self) -> int:
        """Size of all audio files together, each once, of a list on disk."""
        stamps, rows = self.columns["stamps"].reshape(-1, STAMP), self.columns["kept"]
        # Size and number of each file.
        _, first = np.unique(stamps[:, 3][rows], return_index=True)
        return int(stamps[rows[first], 0].sum())


def _spans(ends: NDArray[np.int64], rows: NDArray[np.int32]) -> tuple[list[int], list[int]]:
    """Where the lists of some rows begin, and where they end."""
    return np.where(rows > 0, ends[rows - 1], 0).tolist(), ends[rows].tolist()
