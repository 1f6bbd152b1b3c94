"""Read the rows of a table as clips, and find the recording of each."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from utils.dataset.formats.listing import real_path
from utils.dataset.formats.locate import find_audio, is_inside, renamed, tried
from utils.dataset.formats.readers import TABLES
from utils.dataset.formats.table import Row
from utils.dataset.sources.recording import ReadOptions, Recording
from utils.dataset.storage.report import Fault
from utils.text.languages import plain_code

_LONGEST_NAME = 4_096
"""Characters; no system has longer paths."""
_LANGUAGES = {"jp": "ja", "all_zh": "zh", "all_ja": "ja", "all_ko": "ko", "all_yue": "yue", "auto": "auto_"}
"""GPT-SoVITS' names of languages."""
_HOW_TO_ALLOW = "copy the file into the folder, or add a link to its folder directly below the input folder"


def read_rows(table: Path, root: Path, reading: ReadOptions) -> list[Recording]:
    """The rows of a table; one that leads out of `root` is not followed."""
    found, files = [], reading.files
    root, wanted = root.absolute(), plain_code(reading.language)
    rows = TABLES[table.suffix.lower()](table, reading.encoding)
    paths = _find_rows(table, rows, reading)
    for row, audio in zip(rows, paths, strict=True):
        place = f"{table.name}, {row.place}"
        has_name = _can_be_named(row)
        language = plain_code(_LANGUAGES.get(row.language.lower(), row.language))
        fault = None
        if row.problem:
            fault = Fault("unreadable row", f"{place}: {row.problem}")
        elif not row.audio:
            fault = Fault("missing file", f"{place} names no file")
        elif not has_name:
            fault = Fault("missing file", f"{place} names {row.audio[:60]!r}..., {len(row.audio)} characters")
        elif not is_inside(audio, root, files):
            fault = outside(place, audio, root)
        elif not files.is_file(str(audio)):
            fault = Fault(
                "missing file", f"{place} names {row.audio[:200]!r}, which is missing; tried {tried(row.audio)[:400]}"
            )
        # Names such as English are not compared.
        elif wanted and language.isalpha() and len(language) <= 3 and language != wanted:
            detail = f"{place} is in {row.language!r}, but the dataset is in {reading.language!r}"
            fault = Fault("other language", detail)
        found.append(
            Recording(
                audio=audio,
                text=row.text,
                speaker=row.speaker,
                origin=place,
                fault=fault,
                start_s=row.start_s,
                end_s=row.end_s,
            )
        )
    return found


def _can_be_named(row: Row) -> bool:
    """What no file can be called is not looked for; the row then stands for itself."""
    return bool(row.audio) and len(row.audio) <= _LONGEST_NAME


def _find_rows(table: Path, rows: Sequence[Row], reading: ReadOptions) -> list[Path]:
    """The recording of every row; notes which were found under other names than their rows have."""
    folder, files = table.parent.absolute(), reading.files
    paths = [find_audio(folder, row.audio, files.is_file) if _can_be_named(row) else table.absolute() for row in rows]
    named = zip(rows, paths, strict=True)
    # An absolute path that exists is taken as it is.
    moved = [r.audio for r, p in named if _is_elsewhere(r.audio) and p != folder / r.audio and files.is_file(str(p))]
    if moved:
        reading.notes.append(
            f"{table.name}: {len(moved)} rows have a path of another computer, such as {moved[0]!r}; the recordings "
            "were found by its last parts"
        )
    taken = {path for path in paths if files.is_file(str(path))}
    lost = {
        index: renamed(folder, row.audio, files, taken)
        for index, (row, path) in enumerate(zip(rows, paths, strict=True))
        if path not in taken and _can_be_named(row) and not row.problem
    }
    wanted = Counter(path for found in lost.values() for path in found)
    alike = {index: found[0] for index, found in lost.items() if len(found) == 1 and wanted[found[0]] == 1}
    if alike:
        index, path = next(iter(alike.items()))
        reading.notes.append(
            f"{table.name}: {len(alike)} recordings have other names than their rows, such as {path.name!r} for "
            f"{rows[index].audio!r}"
        )
    return [alike.get(index, path) for index, path in enumerate(paths)]


def _is_elsewhere(name: str) -> bool:
    """Whether a name is an absolute path, of this system or of another."""
    return name.startswith(("/", "\\")) or name[1:3] in (":\\", ":/")


def outside(what: str, path: Path, root: Path) -> Fault:
    if real_path(path) is None:
        return Fault("missing file", f"{what} names a link to itself")
    return Fault("outside the folder", f"{what} points outside {root}; {_HOW_TO_ALLOW}")
