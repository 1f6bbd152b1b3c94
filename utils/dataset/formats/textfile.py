"""Read text files: UTF-8 and UTF-16 are detected, other encodings must be named."""

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from utils.errors import UserError

_MARKS = (
    # UTF-32's mark begins with UTF-16's, so it is asked for first.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MAX_BYTES = 256 * 2**20
"""A hundred thousand rows take about 20 MB; what is larger is no transcript."""


def read_text(path: Path, *, other: str | None = None) -> str:
    """Content of a text file without its byte order mark, line ends as line feeds.

    Args:
        path: UTF-8 with or without mark, or UTF-16 or UTF-32 with one.
        other: encoding of files that are none of these, such as latin-1. Nothing is guessed: a wrong guess gives
            wrong letters without anybody noticing.

    Raises:
        UserError: the file cannot be opened, is too large, or is not text in these encodings.
    """
    with open_text(path, other=other, any_size=False) as text:
        return text.read()


@contextmanager
def open_text(path: Path, *, other: str | None = None, any_size: bool = True) -> Iterator[TextIO]:
    """A text file, read as far as it is asked for; see `read_text`.

    Raises:
        UserError: as `read_text`; also within the block.
    """
    try:
        if not any_size and path.stat().st_size > MAX_BYTES:
            raise UserError(what=f"the file is larger than {MAX_BYTES // 2**20} MB, no table of clips", where=str(path))
        with path.open("rb") as file:
            start = file.read(4)
        encoding = next((name for mark, name in _MARKS if start.startswith(mark)), "utf-8")
        if other is not None and _bad_line(path, encoding):
            encoding = other
        with path.open(encoding=encoding) as text:
            yield text
    except OSError as error:
        raise UserError(what=f"the file cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        what = "the file is not UTF-8 text" if other is None else f"the file is neither UTF-8 nor {other} text"
        fix = "save it as UTF-8" + (", or name its encoding: --encoding latin-1" if other is None else "")
        raise UserError(what=what, where=f"{path}, line {_bad_line(path, encoding)}", fix=fix) from error


def _bad_line(path: Path, encoding: str) -> int:
    """The first line of a file that is not text in an encoding, counted from 1; 0 where all are."""
    decoder, line, block = codecs.getincrementaldecoder(encoding)(), 1, b"-"
    with path.open("rb") as file:
        while block:
            block = file.read(1 << 20)
            try:
                line += decoder.decode(block, not block).count("\n")
            except UnicodeDecodeError as error:
                return line + error.object[: error.start].count(b"\n")
    return 0
