"""Columns of numbers and texts in plain files that grow row by row and are mapped when they are read.

A column of texts, or of lists of numbers, is two: `NAME` holds them one after the other, `NAME_ends` where each ends.
"""

import mmap
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Kinds = Mapping[str, str]
"""Data type of each column, by name."""

ENDS = "_ends"
_ENDS_KIND = "<i8"


class ColumnWriter:
    """Appends to the columns of a folder; a context manager.

    Args:
        folder: created when absent; columns that it has are emptied.
        kinds: which columns, and of what.
    """

    def __init__(self, folder: Path, kinds: Kinds) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._stack, self._kinds = ExitStack(), kinds
        self._files = {name: self._stack.enter_context((folder / name).open("wb")) for name in kinds}
        self._ends: dict[str, int] = dict.fromkeys(kinds, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, name: str, values: Any) -> None:
        """Append an array's elements to a column.

        Raises:
            OSError: the disk is full or not writable.
        """
        self._files[name].write(np.ascontiguousarray(values, dtype=self._kinds[name]).tobytes())

    def add_parts(self, name: str, values: Any, sizes: Iterable[int]) -> None:
        """Append lists of numbers, given one after the other with the size of each."""
        self.add(name, values)
        ends = self._ends[name] + np.cumsum(np.fromiter(sizes, dtype=np.int64), dtype=np.int64)
        self._ends[name] = int(ends[-1]) if len(ends) else self._ends[name]
        self.add(name + ENDS, ends)

    def add_texts(self, name: str, texts: list[bytes]) -> None:
        """Append texts."""
        self.add_parts(name, np.frombuffer(b"".join(texts), dtype=np.uint8), map(len, texts))


def ragged(name: str, kind: str) -> dict[str, str]:
    """The two columns of lists of numbers."""
    return {name: kind, name + ENDS: _ENDS_KIND}


def map_column(path: Path, kind: str) -> NDArray[Any]:
    """A column, read from disk when it is used.

    Raises:
        OSError: there is no such file.
    """
    count = path.stat().st_size // np.dtype(kind).itemsize
    # No file of no bytes can be mapped.
    return np.asarray(np.memmap(path, dtype=kind, mode="r", shape=(count,))) if count else np.zeros(0, dtype=kind)


def release(columns: Iterable[NDArray[Any]]) -> None:
    """Take the pages of mapped columns out of this process's memory; they are mapped again when they are used."""
    for column in columns:
        base: Any = column
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            base.madvise(mmap.MADV_DONTNEED)


def part(columns: Mapping[str, NDArray[Any]], name: str, row: int) -> NDArray[Any]:
    """The list of numbers of a row."""
    ends = columns[name + ENDS]
    return columns[name][(ends[row - 1] if row else 0) : ends[row]]


def part_sizes(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many numbers each row's list has."""
    return np.diff(ends, prepend=0)
