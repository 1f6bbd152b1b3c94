"""Read a metadata table in the common layouts, and locate errors exactly.

Layouts: a header with `audio_file` and `text` (`speaker_name` and `word_times` may follow), separated by `|`, comma,
semicolon or tab; or LJSpeech, which has no header and no quoting: `id|text` or `id|text|normalized text`.
"""

import csv
import io
import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

from utils.dataset.formats.normalized import is_normalized
from utils.dataset.formats.textfile import open_text, read_text
from utils.errors import UserError

AUDIO, TEXT, SPEAKER, WORD_TIMES = "audio_file", "text", "speaker_name", "word_times"
DEFAULT_SPEAKER = "speaker"
"""Who speaks when the source does not say."""

_SEPARATORS = "|,;\t"
# First cells that show that a table has a header, though not ours.
_HEADER_WORDS = frozenset(
    {"audio", "audio_path", "clip", "file", "filename", "id", "path", "text", "transcript", "wav"}
)
_EXPECTED = f"{AUDIO}|{TEXT}|{SPEAKER}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One clip as a table names it."""

    line: int
    """Line of the file, counted from 1."""
    audio: str = ""
    """File name or path as written."""
    text: str = ""
    """Transcript: normalized text where LJSpeech has it, white space collapsed, composed Unicode (NFC)."""
    speaker: str = DEFAULT_SPEAKER
    start_s: float = 0.0
    """Where the clip begins in its recording, in seconds."""
    end_s: float | None = None
    """Where it ends, in seconds; None is the end of the file."""
    word_times: tuple[float, ...] = ()
    """Second at which each word begins; empty where the table does not say."""
    problem: str = ""
    """Why the row cannot be used."""


@dataclass(frozen=True, kw_only=True)
class _Layout:
    separator: str
    header: list[str] | None
    """Column names in lower case; None is LJSpeech."""

    @property
    def quoting(self) -> Literal[0, 3]:
        return csv.QUOTE_NONE if self.header is None else csv.QUOTE_MINIMAL

    @property
    def widths(self) -> set[int]:
        """Numbers of fields that a row may have."""
        return {2, 3} if self.header is None else {len(self.header)}


def read_table(path: Path, encoding: str | None = None) -> list[Row]:
    """All rows of a metadata table, in order.

    Args:
        path: text in one of the layouts above, in UTF-8 or UTF-16.
        encoding: of a table that is neither.

    Raises:
        UserError: the file is missing, empty or not UTF-8, lacks the needed columns, has broken quoting, or half of its
            rows or more are damaged; with the line.
    """
    content = read_text(path, other=encoding)
    return list(_rows(path, lambda: io.StringIO(content), longest=len(content)))


def iter_table(path: Path) -> Iterator[Row]:
    """As `read_table`, row by row and whatever the table's size; only one without a header is read whole.

    Raises:
        UserError: as `read_table`; that half of the rows are damaged is known at the end only.
    """
    with open_text(path) as lines:
        yield from _rows(path, lambda: _from_start(lines), longest=path.stat().st_size)


def _from_start(lines: TextIO) -> TextIO:
    lines.seek(0)
    return lines


def _rows(path: Path, lines: Callable[[], Iterable[str]], *, longest: int) -> Iterator[Row]:
    """The rows of a table.

    Args:
        path: for messages.
        lines: the table's lines, from its beginning.
        longest: more characters than any field has.
    """
    layout = _find_layout(path, lines())
    fields = _read_fields(path, lines(), layout, longest)
    if layout.header is None:
        yield from _without_header(path, layout, list(fields))
        return
    next(fields, None)
    num_rows, problems = 0, _Problems(path, layout)
    for line, cells in fields:
        num_rows += 1
        if problem := _problem(cells, layout):
            problems.add(line, problem)
            yield Row(line=line, problem=problem)
        else:
            yield _named_row(line, cells, layout.header)
    problems.require_few(num_rows)


def _without_header(path: Path, layout: _Layout, rows: list[tuple[int, list[str]]]) -> list[Row]:
    problems = _Problems(path, layout)
    damaged = [Row(line=line, problem=found) for line, fields in rows if (found := _problem(fields, layout))]
    for row in damaged:
        problems.add(row.line, row.problem)
    problems.require_few(len(rows))
    lost = {row.line for row in damaged}
    read = _ljspeech_rows(path, [(line, fields) for line, fields in rows if line not in lost])
    return sorted([*read, *damaged], key=lambda row: row.line)


class _Problems:
    """Damaged rows of a table."""

    def __init__(self, path: Path, layout: _Layout) -> None:
        self._path, self._layout = path, layout
        self._count, self._first = 0, (0, "")

    def add(self, line: int, problem: str) -> None:
        self._first = self._first if self._count else (line, problem)
        self._count += 1

    def require_few(self, num_rows: int) -> None:
        """Do nothing when more than half of the rows are whole.

        Raises:
            UserError: so many are damaged that the table is meant otherwise than it is read here.
        """
        if 2 * self._count >= max(1, num_rows):
            (line, problem), layout = self._first, self._layout
            quotes = (
                f"put text that holds {layout.separator!r} in quotes" if layout.header else f"begin with {_EXPECTED}"
            )
            raise UserError(what=problem, where=f"{self._path}, line {line}", fix=f"save it as UTF-8 text; {quotes}")


def clean(text: str) -> str:
    """Transcript with white space collapsed and characters composed (NFC), as vocabularies hold them."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _find_layout(path: Path, lines: Iterable[str]) -> _Layout:
    written = filter(str.strip, lines)
    # A line of quotes alone is skipped by `_read_fields`, too.
    first = next((line for line in written if line.strip().strip('"').strip()), None)
    if first is None:
        raise UserError(
            what="the table is empty", where=str(path), fix=f"give it a header {_EXPECTED} and a row a clip"
        )
    first = first.rstrip("\n")
    for separator in _SEPARATORS:
        header = _cells(first, separator)
        if {AUDIO, TEXT} <= set(header):
            return _Layout(separator=separator, header=header)
    cells = _cells(first, "|")
    if len(cells) == 1 or AUDIO in cells or cells[0] in _HEADER_WORDS:
        raise UserError(
            what=f"the table has no columns {AUDIO} and {TEXT}; its first line is {first[:80]!r}",
            where=f"{path}, line 1",
            fix=f"begin the file with the line {_EXPECTED}, or use the LJSpeech layout: id|text|normalized text",
        )
    return _Layout(separator="|", header=None)


def _cells(line: str, separator: str) -> list[str]:
    return [cell.strip().strip('"').lower() for cell in line.split(separator)]


def _read_fields(path: Path, lines: Iterable[str], layout: _Layout, longest: int) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of every row, the header too. Strict: pandas would repair broken rows silently."""
    reader = csv.reader(lines, delimiter=layout.separator, quoting=layout.quoting, strict=True)
    begin = 1
    # Its own limit would stop the whole table for one long text; it holds for the process, so it is put back.
    before = csv.field_size_limit(longest + 1)
    try:
        for fields in reader:
            if any(map(str.strip, fields)) or len(fields) > 1:
                yield begin, fields
            begin = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            what=f"the quoting is broken: {error}",
            where=f"{path}, line {begin}",
            fix='put text that holds quotes or separators in quotes, doubling the quotes inside: "He said ""yes"""',
        ) from error
    finally:
        csv.field_size_limit(before)


def _problem(fields: list[str], layout: _Layout) -> str:
    if any("\0" in field for field in fields):
        return "the row holds NUL characters"
    if len(fields) not in layout.widths:
        return f"the row has {len(fields)} fields instead of {' or '.join(map(str, sorted(layout.widths)))}"
    if layout.header and WORD_TIMES in layout.header:
        return _times_problem(fields[layout.header.index(WORD_TIMES)])
    return ""


def _times_problem(cell: str) -> str:
    try:
        times = _times(cell)
    except ValueError:
        return f"{WORD_TIMES} is {cell[:40]!r}; write seconds with spaces between, such as 0.00 0.31"
    rising = all(math.isfinite(time) for time in times) and list(times) == sorted(times)
    return "" if rising else f"{WORD_TIMES} are not ascending: {cell[:40]!r}"


def _times(cell: str) -> tuple[float, ...]:
    return tuple(map(float, cell.split()))


def _named_row(line: int, fields: list[str], header: list[str]) -> Row:
    """A row by column name; of columns with the same name the first counts."""
    cells = dict(zip(reversed(header), reversed(fields), strict=True))
    return Row(
        line=line,
        audio=cells[AUDIO].strip(),
        text=clean(cells[TEXT]),
        speaker=clean(cells.get(SPEAKER, "")) or DEFAULT_SPEAKER,
        word_times=_times(cells.get(WORD_TIMES, "")),
    )


def _ljspeech_rows(path: Path, rows: list[tuple[int, list[str]]]) -> list[Row]:
    """Rows without a header; the third column counts where it is filled.

    Raises:
        UserError: the third column does not hold what the second says, so it names speakers.
    """
    named = [
        (line, fields[0].strip(), clean(fields[1]), clean(fields[2] if len(fields) > 2 else ""))
        for line, fields in rows
    ]
    if not is_normalized([(second, third) for _, _, second, third in named if third]):
        line, third = next((line, third) for line, _, _, third in named if third)
        raise UserError(
            what=f"the third column, {third[:40]!r} in its first row, does not hold the words of the second: "
            "speakers, not the normalized text of LJSpeech",
            where=f"{path}, line {line}",
            fix=f"begin the file with the line {_EXPECTED}",
        )
    return [Row(line=line, audio=name, text=third or second) for line, name, second, third in named]
