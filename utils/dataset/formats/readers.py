"""Tables of recordings that can be read, by the ending of their name; `cues.PARSERS` is the same for subtitles.

A new format is a module that makes `Row`s or `Cue`s of a file, and its line here or there: inputs, folders, archives
and uploads follow.
"""

from collections.abc import Callable
from pathlib import Path

from utils.dataset.formats.jsonl import read_jsonl
from utils.dataset.formats.table import Row, read_table

TABLES: dict[str, Callable[[Path, str | None], list[Row]]] = {
    ".csv": read_table,
    ".tsv": read_table,
    ".jsonl": read_jsonl,
    ".txt": read_table,
}
"""Called with the file and the encoding of one that is neither UTF-8 nor UTF-16."""
LISTS = (".csv", ".jsonl")
"""Tables that are read where they lie in a folder; not .tsv: Common Voice has one of its refused clips."""
