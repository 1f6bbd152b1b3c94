"""Read a corpus row by row: CSV, JSON, JSONL or plain text. Extracting a table to a text file can resume.

Memory is constant: no file is read as a whole.
"""

import csv
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from utils.errors import UserError
from utils.files import write_atomic

TEXT_KEYS = ("text", "sentence", "transcript", "transcription", "normalized_text")
"""Columns and keys that hold the text, in the order they are looked for."""
LONGEST_LINE = 10_000
"""Characters of a row that are read at once; a longer line comes in parts, cut between words."""
SAVE_EVERY = 5_000
"""Rows between notes of how far an extraction is."""
_CHUNK = 1 << 16


def iter_texts(path: Path) -> Iterator[str]:
    """The texts of a corpus, in order, none longer than `LONGEST_LINE`.

    Args:
        path: .csv, .tsv, .json (a list), .jsonl, or plain text with a sentence a line.

    Raises:
        UserError: missing, not such a file, or a table without a text column.
    """
    readers = {".csv": _csv_rows, ".tsv": _csv_rows, ".json": _json_rows, ".jsonl": _jsonl_rows}
    read = readers.get(path.suffix.lower(), _lines)
    try:
        with path.open(encoding="utf-8-sig", newline="" if read is _csv_rows else None) as file:
            for text in read(file, path):
                yield from _parts(text)
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise UserError(what=f"the corpus cannot be read: {error}", where=str(path)) from error


@contextmanager
def work_folder(work: Path) -> Iterator[Path]:
    """A folder for what is made of a corpus; when the block ends well it is removed.

    When the block is cut it stays, and the next attempt resumes from it; a fault of the corpus itself (UserError)
    leaves nothing to resume from.
    """
    work.mkdir(parents=True, exist_ok=True)
    try:
        yield work
    except UserError:
        shutil.rmtree(work, ignore_errors=True)
        raise
    shutil.rmtree(work, ignore_errors=True)


def extract(path: Path, work: Path) -> Path:
    """A plain-text file of the corpus, a text a line: plain text itself, or an extraction in `work`.

    An interrupted extraction resumes after its last note.

    Args:
        path: the corpus.
        work: from `work_folder`.

    Raises:
        UserError: as `iter_texts`.
    """
    if path.suffix.lower() not in (".csv", ".tsv", ".json", ".jsonl"):
        return path
    texts, note = work / "texts.txt", work / "progress.json"
    source = fingerprint(path)
    saved = read_note(note, source) if texts.is_file() else {}
    rows, position = saved.get("rows", 0), saved.get("position", 0)
    if saved.get("done"):
        return texts
    with texts.open("r+b" if position else "wb") as out:
        # What came after the last note may be torn.
        out.seek(position)
        out.truncate()
        number = 0
        for number, text in enumerate(iter_texts(path), start=1):
            if number > rows:
                out.write(text.replace("\n", " ").encode() + b"\n")
                if number % SAVE_EVERY == 0:
                    out.flush()
                    save_note(note, source=source, rows=number, position=out.tell(), done=False)
        out.flush()
        save_note(note, source=source, rows=number, position=out.tell(), done=True)
    return texts


def fingerprint(path: Path) -> list[str | int]:
    """What changes with a file.

    Raises:
        UserError: there is no such file.
    """
    try:
        facts = path.stat()
    except OSError as error:
        raise UserError(what=f"the corpus cannot be read: {error}", where=str(path)) from error
    return [str(path.absolute()), facts.st_size, facts.st_mtime_ns]


def read_note(note: Path, source: object) -> dict[str, Any]:
    """How far a work on the same source was; empty where there is no note of it."""
    saved = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
    return saved if saved.get("source") == source else {}


def save_note(note: Path, **progress: object) -> None:
    """Write how far a work is, whole or not at all."""
    write_atomic(note, json.dumps(progress, ensure_ascii=False))


def _parts(text: str) -> Iterator[str]:
    while len(text) > LONGEST_LINE:
        cut = text.rfind(" ", 1, LONGEST_LINE)
        cut = cut if cut > 0 else LONGEST_LINE
        yield text[:cut].strip()
        text = text[cut:]
    if text.strip():
        yield text.strip()


def _lines(file: IO[str], path: Path) -> Iterator[str]:
    # In parts: a file of one line of a gigabyte must not be held either.
    rest = ""
    while part := file.readline(LONGEST_LINE):
        rest += part
        if part.endswith("\n"):
            yield rest
            rest = ""
        elif len(rest) >= LONGEST_LINE:
            head, _, rest = rest.rpartition(" ")
            if head:
                yield head
            else:
                yield rest
                rest = ""
    yield rest


def _csv_rows(file: IO[str], path: Path) -> Iterator[str]:
    csv.field_size_limit(1 << 27)
    header_line = file.readline()
    delimiter = max("|\t,;", key=header_line.count)
    header = next(csv.reader([header_line], delimiter=delimiter), [])
    names = [name.strip().lower() for name in header]
    column = next((names.index(key) for key in TEXT_KEYS if key in names), None)
    if column is None:
        raise ValueError(f"no column named {', '.join(TEXT_KEYS)}")
    for row in csv.reader(file, delimiter=delimiter):
        if len(row) > column:
            yield row[column]


def _jsonl_rows(file: IO[str], path: Path) -> Iterator[str]:
    for line in file:
        if line.strip():
            yield _text_of(json.loads(line))


def _json_rows(file: IO[str], path: Path) -> Iterator[str]:
    decoder, buffer, opened = json.JSONDecoder(), "", False
    while True:
        chunk = file.read(_CHUNK)
        buffer += chunk
        if not opened and buffer.strip():
            buffer = buffer.lstrip()
            if buffer[0] != "[":
                raise ValueError("a JSON corpus is a list; use .jsonl for one object a line")
            buffer, opened = buffer[1:], True
        while item := buffer.lstrip(" \t\r\n,"):
            if item[0] == "]":
                return
            try:
                value, end = decoder.raw_decode(item)
            except ValueError:
                if not chunk:
                    raise
                break
            buffer = item[end:]
            yield _text_of(value)
        if not chunk:
            raise ValueError("the list is not closed")


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return value
    found = [value[key] for key in TEXT_KEYS if key in value] if isinstance(value, dict) else []
    if not found:
        raise ValueError(f"an entry has none of {', '.join(TEXT_KEYS)}")
    return str(found[0])
