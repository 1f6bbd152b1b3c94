"""Tables of recordings that can be read, by the ending of their name; `cues.PARSERS` is the same for subtitles.

A new format is a module that makes `Row`s or `Cue`s of a file, and its line here or there: inputs, folders, archives
and uploads follow.
"""

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from utils.audio.suffixes import AUDIO_SUFFIXES
from utils.dataset.formats.cues import is_transcript
from utils.dataset.formats.listing import Listing
from utils.dataset.formats.locate import files_in, stem, stems
from utils.dataset.formats.table import AUDIO, COLUMNS, DEFAULT_SPEAKER, SPEAKER, TEXT, Row, clean, read_table
from utils.dataset.formats.textfile import open_text, read_text
from utils.errors import UserError


def read_jsonl(path: Path, encoding: str | None = None) -> list[Row]:
    """All rows of a table.

    Raises:
        UserError: it cannot be read, or no line names a recording.
    """
    rows = parse_jsonl(read_text(path, other=encoding))
    # A log or the like: one entry says it better than one a line.
    if rows and all(row.problem for row in rows):
        fix = 'give each line an object such as {"audio_file": "a.wav", "text": "Hello."}, or remove the file'
        raise UserError(what=f"no line names a recording: {rows[0].problem}", where=f"{path}, line 1", fix=fix)
    return rows


def parse_jsonl(content: str) -> list[Row]:
    """A row for every line that is not empty, also for one that cannot be used."""
    return [_row(number, line) for number, line in enumerate(content.split("\n"), start=1) if line.strip()]


def words_of(values: dict[str, Any]) -> tuple[str, str]:
    """What an object says was spoken, and by whom; empty where it does not."""
    return _text(_named(values, COLUMNS[TEXT])), _text(_named(values, COLUMNS[SPEAKER]))


def _row(number: int, line: str) -> Row:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Row(line=number, problem=f"it is not JSON: {error}")
    if not isinstance(values, dict):
        return Row(line=number, problem="it is not a JSON object")
    audio = _named(values, COLUMNS[AUDIO])
    if isinstance(audio, dict):
        audio = audio.get("path")
    text, speaker = words_of(values)
    if not isinstance(audio, str) or not audio:
        return Row(line=number, text=text, problem=f"it has no {AUDIO} with a file name")
    language = _text(_named(values, COLUMNS["language"]))
    row = Row(line=number, audio=audio, text=text, speaker=speaker or DEFAULT_SPEAKER, language=language)
    return _with_times(row, values)


def _with_times(row: Row, values: dict[str, Any]) -> Row:
    start = values.get("offset", values.get("start", 0.0))
    length, end = values.get("duration"), values.get("end")
    times = [time for time in (start, length, end) if time is not None]
    if not all(isinstance(time, (int, float)) and not isinstance(time, bool) and math.isfinite(time) for time in times):
        return replace(row, problem=f"its times are not numbers: {times}")
    has_part = "offset" in values or "start" in values or end is not None
    # A duration alone says how long the file is, not that a part of it is meant.
    stop = float(end) if end is not None else float(start) + float(length) if has_part and length is not None else None
    if start < 0 or (stop is not None and stop <= start):
        return replace(row, problem=f"its times are invalid: {start} to {stop} s")
    return replace(row, start_s=float(start), end_s=stop)


def _named(values: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((values[name] for name in names if values.get(name) not in (None, "")), None)


def _text(value: Any) -> str:
    return clean(str(value)) if isinstance(value, (str, int, float)) else ""


KALDI = ("segments", "text", "utt2spk")
"""Files that are read with the wav.scp beside them."""
_DECODES = re.compile(r"\A(?:\S*/)?flac (?:-[a-z-]+ )*(\S+\.flac) ?\|\Z")
"""A command whose file we decode; others, and options with values, could change the sound, and none is run."""
_PART = re.compile(r"\A(.*?)(?: (\d+\.?\d*) (-1|\d+\.?\d*))?\Z")
"""A recording, and the seconds of its part; -1 is the recording's end."""


def read_kaldi(path: Path, encoding: str | None = None) -> list[Row]:
    """The utterances of a Kaldi folder by its wav.scp, then the lines that belong to none.

    Raises:
        UserError: one of its files cannot be read.
    """
    rows, used, none = list[Row](), set[str](), Row(line=0)
    recordings, segments, texts, speakers = (_by_key(path.with_name(name), encoding) for name in (path.name, *KALDI))
    for key, line in (segments or recordings).items():
        ((name, start, end),) = _PART.findall(line.text if segments else key)
        used.add(name)
        row = replace(
            line,
            audio=_DECODES.sub(r"\1", recordings.get(name, line).text),
            text=texts.pop(key, none).text,
            speaker=speakers.pop(key, none).text or DEFAULT_SPEAKER,
        )
        rows.append(_with_times(row, {"start": float(start or 0), "end": None if end in ("", "-1") else float(end)}))
    unused = [line for name, line in recordings.items() if name not in used]
    rest = (*unused, *texts.values(), *speakers.values())
    return rows + [replace(row, problem="no other line is about it") for row in rest]


def _by_key(path: Path, encoding: str | None) -> dict[str, Row]:
    """Lines by their first word, with the others as their text; another line of a word by the line's number, too."""
    found: dict[str, Row] = {}
    lines = read_text(path, other=encoding).split("\n") if path.is_file() else []
    for number, line in enumerate(map(clean, lines), start=1):
        key, _, text = line.partition(" ")
        if line:
            found[f"{key} {number}" if key in found else key] = Row(line=number, unit=f"{path.name} line", text=text)
    return found


TABLES: dict[str, Callable[[Path, str | None], list[Row]]] = {
    ".csv": read_table,
    ".tsv": read_table,
    ".jsonl": read_jsonl,
    ".list": read_table,
    ".txt": read_table,
    ".scp": read_kaldi,
}
"""Called with the file and the encoding of one that is neither UTF-8 nor UTF-16."""
LISTS = (".csv", ".jsonl", ".tsv", ".list", ".scp")
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
    found = files_in(folder, (*LISTS, ".txt", *AUDIO_SUFFIXES), files)
    audio = {stem(path) for path in found if path.suffix.lower() in AUDIO_SUFFIXES}
    texts = (path for path in found if path.suffix.lower() == ".txt" and not stems(path) & audio)
    lists = {path for path in texts if _LISTED.match(_first_line(path))}
    # What Whisper recognized in a recording is read beside that.
    return [path for path in found if path in lists or (path.suffix.lower() in LISTS and not is_transcript(path))]


def _first_line(path: Path) -> str:
    """Its ASCII letters in any case; others may be wrong."""
    with suppress(UserError), open_text(path, other="latin-1") as lines:
        return lines.readline(4_096)
    return ""


def left_out(table: Path, names: set[str]) -> str:
    """Why a table of Common Voice or Kaldi is not read where it lies in a folder; empty for any other.

    Args:
        table: its path.
        names: of the tables in its folder.
    """
    if table.suffix.lower() == ".scp":
        return "" if table.name == "wav.scp" else "a list of no recordings"
    if table.suffix.lower() != ".tsv":
        return ""
    if table.stem in _REFUSED:
        return "a table of what Common Voice did not accept, or of no clips"
    return "its clips are in validated.tsv" if table.stem in _IN_VALIDATED and "validated.tsv" in names else ""
