"""Read a metadata table with one JSON object a line, as NeMo, Hugging Face and Whisper tools write them."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from utils.dataset.formats.table import AUDIO, COLUMNS, DEFAULT_SPEAKER, SPEAKER, TEXT, Row, clean
from utils.dataset.formats.textfile import read_text
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
