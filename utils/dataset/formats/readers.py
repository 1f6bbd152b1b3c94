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
    ".list": read_table,
    ".txt": read_table,
}
"""Called with the file and the encoding of one that is neither UTF-8 nor UTF-16."""
LISTS = (".csv", ".jsonl", ".tsv", ".list")
"""Tables that are read where they lie in a folder."""
_REFUSED = ("invalidated", "other", "reported", "clip_durations", "validated_sentences", "unvalidated_sentences")
_IN_VALIDATED = ("train", "dev", "test")


def left_out(table: Path, names: set[str]) -> str:
    """Why a table of Common Voice is not read where it lies in a folder; empty for any other.

    Args:
        table: its path.
        names: of the tables in its folder.
    """
    if table.suffix.lower() != ".tsv":
        return ""
    if table.stem in _REFUSED:
        return "a table of what Common Voice did not accept, or of no clips"
    return "its clips are in validated.tsv" if table.stem in _IN_VALIDATED and "validated.tsv" in names else ""
