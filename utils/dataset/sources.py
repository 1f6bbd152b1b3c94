"""What the user gave, as a list of recordings with transcripts: a table, or audio with text files of the same name."""

from dataclasses import dataclass
from pathlib import Path

from utils.audio.decode import AUDIO_SUFFIXES
from utils.dataset.locate import composed, files_in, find_audio, find_text, is_file, is_inside, printable, real_path
from utils.dataset.report import Fault, Span
from utils.dataset.table import DEFAULT_SPEAKER, clean, read_table, read_utf8
from utils.errors import UserError

_TABLE_SUFFIXES = frozenset({".csv", ".tsv", ".txt"})
_HOW_TO_ALLOW = "copy it in, or put a link to its folder directly into the folder you give"
_LAYOUTS = "give a folder with metadata.csv, a folder of recordings with same-named .txt files, or the path of a CSV"


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One clip as the user gave it; its sound has not been looked at."""

    audio: Path
    """Absolute path; need not exist when `fault` says so."""
    text: str = ""
    speaker: str = DEFAULT_SPEAKER
    fault: Fault | None = None
    """Why it cannot be used, when that is already known."""
    start_s: float = 0.0
    """Where the clip begins in the recording, in seconds."""
    end_s: float | None = None
    """Where it ends, in seconds; None is the end of the file."""
    joined: tuple[Span, ...] = ()
    """Further parts that follow it without a pause, when clips were merged."""
    made_from: tuple[str, ...] = ()
    """Ids of the clips that a fix made it from; empty for a clip of the source."""


def read_source(path: Path) -> list[Recording]:
    """Every recording, transcript and row of what the user gave, in a fixed order.

    Args:
        path: a folder or a metadata table.

    Raises:
        UserError: nothing there, no recordings in it, or a table that cannot be read.
    """
    source = path.expanduser()
    if source.is_dir():
        table = _table_of(source)
        found = _table_and_rest(table, source) if table else _pairs(source)
    elif source.is_file() and source.suffix.lower() in _TABLE_SUFFIXES:
        found = _listed(source, source.parent)
    else:
        what = "is neither a folder nor a metadata CSV" if source.exists() else "does not exist"
        raise UserError(what=f"the input {what}", where=str(path), fix=_LAYOUTS)
    if not found:
        raise UserError(what="the input holds no recordings", where=str(path), fix=_LAYOUTS)
    return found


def _table_of(folder: Path) -> Path | None:
    tables = sorted(path for path in folder.glob("*.csv") if not path.name.startswith("."))
    preferred = [path for path in tables if path.name.lower() == "metadata.csv"] or tables
    if len(preferred) > 1:
        names = ", ".join(path.name for path in preferred)
        raise UserError(what=f"the folder holds several tables: {names}", where=str(folder), fix="give the path of one")
    return preferred[0] if preferred else None


def _listed(table: Path, root: Path) -> list[Recording]:
    """The rows of a table; one that leads out of `root` is not followed."""
    found = []
    for row in read_table(table):
        audio = find_audio(table.parent, row.audio)
        fault = None
        if not row.audio:
            fault = Fault("missing file", f"{table.name}, line {row.line} names no file")
        elif not is_inside(audio, root):
            fault = _outside(f"{table.name}, line {row.line}", audio, root)
        elif not is_file(audio):
            fault = Fault("missing file", f"{table.name}, line {row.line} names {row.audio!r}, which is not there")
        found.append(Recording(audio=audio, text=row.text, speaker=row.speaker, fault=fault))
    return found


def _table_and_rest(table: Path, root: Path) -> list[Recording]:
    """The rows of a table, then the recordings in its folder that no row names."""
    listed = _listed(table, root)
    named = {real_path(recording.audio) for recording in listed}
    fault = Fault("no transcript", f"{table.name} has no row for it")
    rest = (path for path in files_in(root, AUDIO_SUFFIXES) if real_path(path) not in named)
    return listed + [Recording(audio=path, fault=_name_fault(path) or fault) for path in rest]


def _outside(what: str, path: Path, root: Path) -> Fault:
    if real_path(path) is None:
        return Fault("missing file", f"{what} names a link that leads to itself")
    return Fault("outside the folder", f"{what} leads out of {root}; {_HOW_TO_ALLOW}")


def _pairs(folder: Path) -> list[Recording]:
    """Recordings with a text file of the same name, then the text files whose recording is missing."""
    audio = files_in(folder, AUDIO_SUFFIXES)
    if not audio:
        return []
    voiced = {composed(path.with_suffix("")) for path in audio}
    fault = Fault("no recording", f"no recording of the same name ({' '.join(AUDIO_SUFFIXES)})")
    lonely = (path for path in files_in(folder, (".txt",)) if composed(path.with_suffix("")) not in voiced)
    paired = [_with_transcript(path, folder) for path in audio]
    return paired + [Recording(audio=path, fault=fault) for path in lonely]


def _with_transcript(audio: Path, folder: Path) -> Recording:
    text = find_text(audio)
    fault = _name_fault(audio)
    if not fault and not is_inside(audio, folder):
        fault = _outside("a link that", audio, folder)
    if not fault and not is_file(text):
        fault = Fault("no transcript", f"no file {text.name} beside it")
    if not fault and not is_inside(text, folder):
        fault = _outside(f"{text.name} is a link that", text, folder)
    if fault:
        return Recording(audio=audio, fault=fault)
    try:
        return Recording(audio=audio, text=clean(read_utf8(text)))
    except UserError as error:
        return Recording(audio=audio, fault=Fault("no transcript", f"{text.name}: {error.what}"))


def _name_fault(path: Path) -> Fault | None:
    """Names in another encoding than UTF-8 can be neither opened by libsndfile nor written to the metadata."""
    if printable(path) == str(path):
        return None
    return Fault("unreadable audio", f"{printable(path.name)} is not a UTF-8 name; rename the file")
