"""Read text files: UTF-8 and UTF-16 are detected; others are named: see `code_pages`."""

import codecs
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from utils.errors import UserError

_STARTS = (
    # UTF-32's mark begins with UTF-16's, so it is asked for first.
    (rb"\xff\xfe\0\0|\0\0\xfe\xff", "utf-32"),
    (rb"\xef\xbb\xbf", "utf-8-sig"),
    (rb"\xff\xfe|\xfe\xff", "utf-16"),
    # Two ASCII characters without a mark.
    (rb"[\x01-\x7f]\0[\x01-\x7f]\0", "utf-16-le"),
    (rb"\0[\x01-\x7f]\0[\x01-\x7f]", "utf-16-be"),
)
MAX_BYTES = 256 * 2**20
"""A hundred thousand rows take about 20 MB; what is larger is no transcript."""


def read_text(path: Path, *, other: str | None = None) -> str:
    """Content of a text file without its byte order mark, line ends as line feeds.

    Args:
        path: UTF-8 with or without mark, UTF-32 with one, or UTF-16 with one or two ASCII characters at its start.
        other: encoding of files that are none of these, such as latin-1.

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
        encoding = unicode_of(path)
        if other is not None and bad_line(path, encoding):
            encoding = other
        with path.open(encoding=encoding) as text:
            yield text
    except OSError as error:
        raise UserError(what=f"the file cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        what = "the file is not UTF-8 text" if other is None else f"the file is neither UTF-8 nor {other} text"
        fix = "save it as UTF-8" + (", or name its encoding: --encoding latin-1" if other is None else "")
        raise UserError(what=what, where=f"{path}, line {bad_line(path, encoding)}", fix=fix) from error


def unicode_of(path: Path) -> str:
    """Which of Unicode's encodings a file has, if any."""
    with path.open("rb") as file:
        start = file.read(4)
    return next((name for pattern, name in _STARTS if re.match(pattern, start)), "utf-8")


def bad_line(path: Path, encoding: str) -> int:
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
