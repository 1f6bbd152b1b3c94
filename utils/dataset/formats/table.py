"""Read a metadata table in the common layouts, and locate errors exactly.

Layouts: a header that names the columns, separated by `|`, comma, semicolon or tab; LJSpeech, which has no header and
no quoting: `id|text` or `id|text|normalized text`; CSS10, which adds the seconds to it; or GPT-SoVITS:
`path|speaker|LANGUAGE|text`.

A row is a line. A field is quoted only where it begins and ends with the mark and holds it doubled; any other mark is
part of the text. A quoted field may run over several lines only if none of these is a row by itself.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from utils.dataset.formats.textfile import open_text
from utils.errors import UserError
from utils.text.languages import same_case

AUDIO, TEXT, SPEAKER, WORD_TIMES = "audio_file", "text", "speaker_name", "word_times"
DEFAULT_SPEAKER = "speaker"
"""Who speaks when the source does not say."""
COLUMNS: dict[str, tuple[str, ...]] = {
    AUDIO: (AUDIO, "file_name", "filename", "audio_filepath", "audio_path", "audio", "path", "wav", "file", "wav_path"),
    # What a data set says is spoken, before what it says is written.
    TEXT: ("normalized_text", "text_normalized", TEXT, "transcript", "transcription", "sentence"),
    SPEAKER: (SPEAKER, "speaker", "speaker_id", "client_id"),
    WORD_TIMES: (WORD_TIMES,),
    "language": ("language", "locale", "lang"),
}
"""Names of our own, Hugging Face's, NeMo's and Common Voice's columns; of several in a table the first that is filled
counts."""

_SEPARATORS = "|,;\t"
# First cells that show that a table has a header, though not ours.
_HEADER_WORDS = frozenset({*COLUMNS[AUDIO], *COLUMNS[TEXT], "clip", "id"})
_EXPECTED = f"{AUDIO}|{TEXT}|{SPEAKER}"
_LISTS = (
    ([AUDIO, SPEAKER, "language", TEXT], 2, r"(?:all_|auto_)?(zh|en|ja|jp|ko|yue|auto)"),
    ([AUDIO, TEXT, "normalized_text", "seconds"], 3, r"\d+\.\d+"),
)
"""Columns of GPT-SoVITS and CSS10, which write no header, and the cell by which they are known."""
_BEFORE_HEADER = re.compile(r"sep=.|#[^|,;\t]*", re.IGNORECASE)
"""Excel's line of the separator, and remarks."""
_MOST_LINES = 50
"""Of one quoted field."""
_SAME_LETTERS = 0.5
"""Share of the text's letters that a normalization keeps at least; with "1984" and "Dr." in words it is near 1."""
_SHORTEST = 0.75
"""In another script (pinyin for Chinese) letters cannot be compared, but such a text is longer, a name is shorter."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One clip as a table names it."""

    line: int
    """Line of the file, counted from 1."""
    unit: str = "line"
    """What `line` counts, where the table has entries or more than one file."""
    last_line: int = 0
    """Where its quoted text ends, if not in the same line."""
    audio: str = ""
    """File name or path as written."""
    text: str = ""
    """Transcript: normalized text where LJSpeech has it, white space collapsed, composed Unicode (NFC)."""
    speaker: str = DEFAULT_SPEAKER
    language: str = ""
    """Code of its language as written; empty where the table does not say."""
    start_s: float = 0.0
    """Where the clip begins in its recording, in seconds."""
    end_s: float | None = None
    """Where it ends, in seconds; None is the end of the file."""
    word_times: tuple[float, ...] = ()
    """Second at which each word begins; empty where the table does not say."""
    problem: str = ""
    """Why the row cannot be used."""

    @property
    def place(self) -> str:
        """Its line or lines, in words."""
        return f"lines {self.line} to {self.last_line}, joined" if self.last_line else f"{self.unit} {self.line}"


@dataclass(frozen=True, kw_only=True)
class _Layout:
    separator: str
    header: list[str] | None
    """Column names in lower case; None is LJSpeech."""
    first_row: int = 0
    """Line that the header ends before."""

    @property
    def widths(self) -> set[int]:
        """Numbers of fields that a row may have."""
        return {2, 3} if self.header is None else {len(self.header)}

    def fields(self, line: str) -> tuple[list[str], bool]:
        """The fields of a line, and whether the last of them is a quotation that does not end in it."""
        if '"' not in line:
            fields, at, is_open = line.split(self.separator), len(line), False
        else:
            fields, at, is_open = [], 0, False
        while at < len(line) or not fields:
            if quoted := _WHOLE[self.separator].match(line, at):
                fields.append(quoted[1].replace('""', '"'))
                end = quoted.end()
            else:
                is_open = is_open or _BEGUN.match(line, at) is not None
                end = line.find(self.separator, at)
                end = len(line) if end < 0 else end
                fields.append(line[at:end])
            at = end + 1
            if at == len(line):
                fields.append("")
        longest = max(self.widths)
        if len(fields) > longest and not any(map(str.strip, fields[longest:])):
            fields = fields[:longest]  # separators at the end of a row
        return fields, is_open

    def is_row(self, line: str, like: str) -> bool:
        """Whether a line is a row by itself: its first cells are as many as a row has, and name a file as `like`."""
        fields, _ = self.fields(line)
        if len(fields) not in self.widths:
            return False
        audio = fields[self.column(AUDIO)].strip()
        return bool(audio) and (_has_ending(audio) if _has_ending(like) else " " not in audio)

    def column(self, name: str) -> int:
        """Where the column is; in LJSpeech the first names the file."""
        return 0 if self.header is None else next(self.header.index(n) for n in COLUMNS[name] if n in self.header)


_WHOLE = {mark: re.compile(rf' *+"((?:[^"]|"")*+)" *+(?={re.escape(mark)}|\Z)') for mark in _SEPARATORS}
_BEGUN = re.compile(r' *+"(?:[^"]|"")*+\Z')


def read_table(path: Path, encoding: str | None = None) -> list[Row]:
    """All rows of a metadata table, in order.

    Args:
        path: text in one of the layouts above, in UTF-8 or UTF-16.
        encoding: of a table that is neither.

    Raises:
        UserError: the file is missing, empty or not UTF-8, lacks the needed columns, or half of its rows or more are
            damaged; with the line.
    """
    with open_text(path, other=encoding, any_size=False) as lines:
        return list(_rows(path, lines))


def iter_table(path: Path) -> Iterator[Row]:
    """As `read_table`, row by row and whatever the table's size; only one without a header is read whole.

    Raises:
        UserError: as `read_table`; that half of the rows are damaged is known at the end only.
    """
    with open_text(path) as lines:
        yield from _rows(path, lines)


def _rows(path: Path, lines: TextIO) -> Iterator[Row]:
    """The rows of a table; those of one without a header once all are read."""
    layout = _find_layout(path, lines)
    lines.seek(0)
    header = layout.header or []
    places = {column: [header.index(n) for n in names if n in header] for column, names in COLUMNS.items()}
    plain: list[tuple[int, list[str]]] = []
    damaged: list[Row] = []
    num_rows = 0
    for row, fields in _read_fields((line.rstrip("\n") for line in lines), layout):
        num_rows += 1
        if problem := _problem(fields, layout):
            damaged.append(replace(row, problem=problem))
            yield from damaged[-1:] if header else ()
        elif header:
            yield _named_row(row, fields, places)
        else:
            plain.append((row.line, fields))
    if damaged and 2 * len(damaged) >= num_rows:
        # Where half of the rows or more are damaged, the table is meant otherwise than it is read here.
        expected = _EXPECTED.replace("|", layout.separator.replace("\t", "<TAB>"))
        quotes = f"put text that holds {layout.separator!r} in quotes" if header else f"begin with {expected}"
        where = f"{path}, line {damaged[0].line}"
        raise UserError(what=damaged[0].problem, where=where, fix=f"save it as UTF-8 text; {quotes}")
    if not header:
        yield from sorted([*_ljspeech_rows(path, plain), *damaged], key=lambda row: row.line)


def clean(text: str) -> str:
    """Transcript with white space collapsed and characters composed (NFC), as vocabularies hold them."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _find_layout(path: Path, lines: Iterable[str]) -> _Layout:
    # A line of quotes alone is skipped by `_read_fields`, too.
    written = (
        (number, line.rstrip("\n"))
        for number, line in enumerate(lines, 1)
        if line.strip().strip('"').strip() and not _BEFORE_HEADER.fullmatch(line.lstrip("\ufeff").strip())
    )
    number, first = next(written, (0, ""))
    if not number:
        raise UserError(
            what="the table is empty", where=str(path), fix=f"give it a header {_EXPECTED} and a row a clip"
        )
    for separator in _SEPARATORS:
        header = _cells(first, separator)
        if all(any(name in header for name in COLUMNS[column]) for column in (AUDIO, TEXT)):
            return _Layout(separator=separator, header=header, first_row=number + 1)
    cells = _cells(first, "|")
    for names, column, pattern in _LISTS:
        if len(cells) == len(names) and re.fullmatch(pattern, cells[column], re.IGNORECASE):
            return _Layout(separator="|", header=names)
    has_header = any(set(_cells(first, separator)) & _HEADER_WORDS for separator in _SEPARATORS)
    if len(cells) == 1 and first.count("\t") == 1 and not has_header:
        return _Layout(separator="\t", header=None)
    if len(cells) == 1 or has_header:
        raise UserError(
            what=f"the table has no columns {AUDIO} and {TEXT}; its first line is {first[:80]!r}",
            where=f"{path}, line {number}",
            fix=_advice(first, has_header),
        )
    return _Layout(separator="|", header=None)


def _advice(first: str, has_header: bool) -> str:
    """How a table whose layout is not known becomes one that is."""
    if has_header:
        return f"in the first line, call the column of file names {AUDIO} and that of transcripts {TEXT}"
    separator = max(_SEPARATORS, key=first.count)
    width = first.count(separator) + 1
    if width == 1:
        return f"write a file name and its transcript in each row, and begin the file with the line {AUDIO}|{TEXT}"
    more = [SPEAKER, *(f"column_{number}" for number in range(4, width + 1))]
    shown = separator.join([AUDIO, TEXT, *more[: width - 2]]).replace("\t", "<TAB>")
    return f"begin the file with a line that names its columns in their order, such as {shown}"


def _cells(line: str, separator: str) -> list[str]:
    cells = line.lstrip("\ufeff").split(separator)
    return [cell.strip().strip('"').strip().lower().replace(" ", "_") for cell in cells]


def _read_fields(lines: Iterable[str], layout: _Layout) -> Iterator[tuple[Row, list[str]]]:
    """Place and fields of every row. Strict: pandas would repair broken rows silently."""
    source, ahead = iter(enumerate(lines, start=1)), deque[tuple[int, str]]()
    while (taken := ahead.popleft() if ahead else next(source, None)) is not None:
        number, line = taken
        if number < layout.first_row or not line.strip():
            continue
        fields, is_open = layout.fields(line)
        if layout.header is None:
            # In LJSpeech quotes mean nothing unless they are doubled within or hold a separator.
            plain = line.split(layout.separator)
            yield Row(line=number), fields if len(fields) != len(plain) or '""' in line else plain
            continue
        row = Row(line=number)
        if is_open and len(fields) >= layout.column(AUDIO):
            while len(ahead) < _MOST_LINES and (more := next(source, None)) is not None:
                ahead.append(more)
            if joined := _joined(line, [text for _, text in ahead], layout):
                count, fields = joined
                row = Row(line=number, last_line=number + count)
                for _ in range(count):
                    ahead.popleft()
        if any(map(str.strip, fields)) or len(fields) > 1:
            yield row, fields


def _joined(line: str, following: list[str], layout: _Layout) -> tuple[int, list[str]] | None:
    """The fields of a line together with those after it that its quotation runs over, and how many these are."""
    own = layout.fields(line)[0]
    audio = own[layout.column(AUDIO)].strip() if len(own) > layout.column(AUDIO) else ""
    for count, text in enumerate(following, start=1):
        if layout.is_row(text, audio):
            return None
        line += f"\n{text}"
        fields, is_open = layout.fields(line)
        if not is_open:
            return (count, fields) if len(fields) in layout.widths and '"' in text else None
    return None


def _has_ending(name: str) -> bool:
    return re.search(r"\.\w{2,5}$", name) is not None


def _problem(fields: list[str], layout: _Layout) -> str:
    if any("\0" in field for field in fields):
        return "the row holds NUL characters"
    if len(fields) not in layout.widths:
        return f"the row has {len(fields)} fields instead of {' or '.join(map(str, sorted(layout.widths)))}"
    if not layout.header or WORD_TIMES not in layout.header:
        return ""
    cell = fields[layout.header.index(WORD_TIMES)]
    try:
        times = _times(cell)
    except ValueError:
        return f"{WORD_TIMES} is {cell[:40]!r}; write seconds with spaces between, such as 0.00 0.31"
    rising = all(math.isfinite(time) for time in times) and list(times) == sorted(times)
    return "" if rising else f"{WORD_TIMES} are not ascending: {cell[:40]!r}"


def _times(cell: str) -> tuple[float, ...]:
    return tuple(map(float, cell.split()))


def _named_row(row: Row, fields: list[str], places: dict[str, list[int]]) -> Row:
    """A row whose columns are at these places, each with several names; the first that is filled counts."""
    values = {column: next((fields[at] for at in found if fields[at].strip()), "") for column, found in places.items()}
    return replace(
        row,
        audio=values[AUDIO].strip(),
        text=clean(values[TEXT]),
        speaker=clean(values[SPEAKER]) or DEFAULT_SPEAKER,
        language=values["language"].strip(),
        word_times=_times(values[WORD_TIMES]),
    )


def _ljspeech_rows(path: Path, rows: list[tuple[int, list[str]]]) -> list[Row]:
    """Rows without a header; the third column counts where it is filled.

    Raises:
        UserError: the third column does not hold what the second says, so one of them names speakers.
    """
    named = [
        (line, fields[0].strip(), clean(fields[1]), clean(fields[2] if len(fields) > 2 else ""))
        for line, fields in rows
    ]
    pairs = [(second, third) for _, _, second, third in named if third]
    # Two things give speakers away: the same value stands beside texts it has little in common with, or the column as
    # a whole lacks the letters of the texts. Digits do not count, because a normalization writes them as words.
    if _repeats(pairs) or not _keeps_the_letters(pairs):
        line, third = next((line, third) for line, _, _, third in named if third)
        # Speakers are few, and shorter than what they say.
        second, other = ((len(set(column)), sum(map(len, column))) for column in zip(*pairs, strict=True))
        swapped = second < other
        raise UserError(
            what=f"the third column, {third[:40]!r} in its first row, does not hold the words of the second: "
            "speakers, not the normalized text of LJSpeech",
            where=f"{path}, line {line}",
            fix=f"begin the file with the line {f'{AUDIO}|{SPEAKER}|{TEXT}' if swapped else _EXPECTED}",
        )
    return [Row(line=line, audio=name, text=third or second) for line, name, second, third in named]


def _repeats(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether most rows share a value with a row of another text, and it has not the letters of theirs."""
    texts: defaultdict[str, set[str]] = defaultdict(set)
    for text, third in pairs:
        texts[third].add(text)
    shared = [(text, third) for text, third in pairs if len(texts[third]) > 1]
    strange = [pair for pair in shared if min(_kept(*pair), _kept(*reversed(pair))) < _SAME_LETTERS]
    return 2 * len(strange) > len(pairs)


def _kept(text: str, other: str) -> float:
    """Share of the text's letters that the other text has too."""
    letters = _letters(text)
    return (letters & _letters(other)).total() / letters.total() if letters else 1.0


def _keeps_the_letters(pairs: Sequence[tuple[str, str]]) -> bool:
    scripts = {_script(letter) for _, third in pairs for letter in _letters(third)}
    comparable = kept = all_letters = text_length = third_length = 0
    for text, third in pairs:
        letters = _letters(text)
        same_script = Counter({letter: count for letter, count in letters.items() if _script(letter) in scripts})
        comparable += same_script.total()
        kept += (same_script & _letters(third)).total()
        all_letters += letters.total()
        text_length += _length(text)
        third_length += _length(third)
    if 2 * comparable > all_letters:
        return kept >= _SAME_LETTERS * comparable
    return third_length >= _SHORTEST * text_length


def _letters(text: str) -> Counter[str]:
    """Letters without case, accents and presentation forms."""
    return Counter(filter(str.isalpha, unicodedata.normalize("NFKD", same_case(text))))


def _length(text: str) -> int:
    """Letters, digits and combining marks: vowels in Indic scripts are marks."""
    return sum(unicodedata.category(char)[0] in "LNM" for char in text)


@lru_cache(maxsize=4_096)
def _script(letter: str) -> str:
    """LATIN, CYRILLIC, CJK, ...: the first word of the letter's Unicode name."""
    return unicodedata.name(letter, "").split(" ", 1)[0]
