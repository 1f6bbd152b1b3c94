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
"""A hundred thousand rows take about 20 MB; what is larger is no text that somebody wrote."""


def read_text(path: Path, *, other: str | None = None) -> str:
    """Content of a text file without its byte order mark, line ends as line feeds.

    Args:
        path: UTF-8 with or without mark, or UTF-16 or UTF-32 with one.
        other: encoding of files that are none of these, such as latin-1. Nothing is guessed: a wrong guess gives
            wrong letters without anybody noticing.

    Raises:
        UserError: the file cannot be opened, is too large, or is not text in these encodings.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(what=f"the file is larger than {MAX_BYTES // 2**20} MB, no table of clips", where=str(path))
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    encoding = _encoding(content)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        text = _in_other(path, content, other, error)
    return text.replace("\r\n", "\n").replace("\r", "\n")


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """A text file of any size, read as far as it is asked for; in the encodings that `read_text` detects.

    Raises:
        UserError: as `read_text`; also within the block.
    """
    try:
        with path.open("rb") as file:
            mark = file.read(4)
        encoding = _encoding(mark)
        with path.open(encoding=encoding) as text:
            yield text
    except OSError as error:
        raise _unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise _not_utf8(path, _first_bad_line(path, encoding)) from error


def _first_bad_line(path: Path, encoding: str) -> int:
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            try:
                line += decoder.decode(block).count("\n")
            except UnicodeDecodeError as error:
                return line + error.object[: error.start].count(b"\n")
    return line


def _encoding(content: bytes) -> str:
    return next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")


def _unreadable(path: Path, error: OSError) -> UserError:
    return UserError(what=f"the file cannot be read: {error.strerror}", where=str(path))


def _not_utf8(path: Path, line: int) -> UserError:
    fix = "save it as UTF-8, or name its encoding: --encoding latin-1"
    return UserError(what="the file is not UTF-8 text", where=f"{path}, line {line}", fix=fix)


def _in_other(path: Path, content: bytes, other: str | None, error: UnicodeDecodeError) -> str:
    line = content[: error.start].count(b"\n") + 1
    if other is None:
        raise _not_utf8(path, line) from error
    try:
        return content.decode(other)
    except UnicodeDecodeError as second:
        line = content[: second.start].count(b"\n") + 1
        what = f"the file is neither UTF-8 nor {other} text"
        raise UserError(what=what, where=f"{path}, line {line}", fix="save it as UTF-8") from second
