"""Tables of recordings that can be read, by the ending of their name; `cues.PARSERS` is the same for subtitles.

A new format is a module that makes `Row`s or `Cue`s of a file, and its line here or there: inputs, folders, archives
and uploads follow.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from utils.audio.suffixes import AUDIO_SUFFIXES
from utils.dataset.formats.jsonl import read_jsonl
from utils.dataset.formats.listing import Listing
from utils.dataset.formats.locate import files_in, stem
from utils.dataset.formats.table import AUDIO, COLUMNS, Row, read_table
from utils.dataset.formats.textfile import open_text
from utils.errors import UserError

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
_ENDINGS, _NAMES = ("|".join(map(re.escape, names)) for names in (AUDIO_SUFFIXES, COLUMNS[AUDIO]))
_LISTED = re.compile(rf"(?:[^|]*(?:{_ENDINGS})|{_NAMES}) *\|", re.IGNORECASE)
"""Begins a list of recordings: the name of one, or of its column, and after a bar what is said."""
_REFUSED = ("invalidated", "other", "reported", "clip_durations", "validated_sentences", "unvalidated_sentences")
_IN_VALIDATED = ("train", "dev", "test")


def tables_in(folder: Path, files: Listing) -> list[Path]:
    """Tables of a folder and its subfolders, by name.

    A text file is one if its first line names a recording (train.txt and filelist.txt of other programs), and it does
    not lie beside a recording that it would be the text of.
    """
    audio = set(map(stem, files_in(folder, AUDIO_SUFFIXES, files)))
    texts = (path for path in files_in(folder, (".txt",), files) if not {stem(path), stem(Path(stem(path)))} & audio)
    return [*files_in(folder, LISTS, files), *(path for path in texts if _LISTED.match(_first_line(path)))]


def _first_line(path: Path) -> str:
    with suppress(UserError), open_text(path) as lines:
        return lines.readline(4_096)
    return ""


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
