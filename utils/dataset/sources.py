"""What the user gave, as a list of clips to make: tables, recordings with texts or subtitles, archives of all these."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from utils.audio.decode import AUDIO_SUFFIXES, duration
from utils.config import PrepareConfig
from utils.dataset.archive import unpack
from utils.dataset.cues import SUBTITLE_SUFFIXES, cue_file, is_labels, parse_cues
from utils.dataset.cut import Cut, Limits
from utils.dataset.jsonl import JsonRow, parse_jsonl
from utils.dataset.locate import (
    RealPaths,
    broken_links,
    composed,
    files_in,
    find_audio,
    find_text,
    is_file,
    is_inside,
    printable,
    real_path,
)
from utils.dataset.long_audio import LongAudio
from utils.dataset.report import Fault, Span
from utils.dataset.table import DEFAULT_SPEAKER, clean, read_table
from utils.dataset.textfile import read_text
from utils.dataset.transcribe import NEEDS_WEIGHTS, Transcriber, TranscriberSettings
from utils.errors import UserError

_LONGEST_NAME = 4_096
"""Characters; no system has longer paths."""
_TABLE_SUFFIXES = frozenset({".csv", ".tsv", ".txt"})
_TABLE_NAMES = ("metadata.csv", "metadata.jsonl")
_KNOWN = (*AUDIO_SUFFIXES, *SUBTITLE_SUFFIXES, ".txt", ".zip")
_HOW_TO_ALLOW = "copy it in, or put a link to its folder directly into the folder you give"
_LAYOUTS = (
    "give a folder or zip with metadata.csv, or with recordings beside same-named .txt, .srt or .vtt files, "
    "or the path of a CSV or JSONL table"
)


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One clip as the user gave it; its sound has not been looked at."""

    audio: Path
    """Absolute path; need not exist when `fault` says so."""
    text: str = ""
    speaker: str = DEFAULT_SPEAKER
    origin: str = ""
    """What it was made of, for people: which cues of which subtitles, which line of a table."""
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


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How what the user gave is read."""

    long_audio: LongAudio
    encoding: str | None = None
    """Of text files that are neither UTF-8 nor UTF-16."""

    @classmethod
    def of(cls, config: PrepareConfig, kept: Path) -> "Reading":
        """How the settings say it; what need not be found twice is kept in the folder `kept`."""
        transcriber = None
        if config.transcriber is not None:
            settings = TranscriberSettings(
                model=config.transcriber,
                language=None if config.detect_language else config.language.split("-")[0],
                device=config.transcriber_device,
                compute_type=config.compute_type,
                beam_size=config.beam_size,
            )
            transcriber = Transcriber(settings)
        long_audio = LongAudio(
            kept=kept,
            limits=Limits(shortest_s=config.shortest, longest_s=config.longest, padding_s=config.padding),
            transcriber=transcriber,
            language=config.language if config.detect_language else "",
        )
        return cls(long_audio=long_audio, encoding=config.encoding)

    @property
    def no_transcript(self) -> str:
        """What helps a recording without words."""
        return "" if self.long_audio.transcriber else "; --transcriber small would write down what is said"


def read_sources(paths: Sequence[Path], reading: Reading) -> list[Recording]:
    """Every recording, transcript, cue and row of what the user gave, in a fixed order.

    Args:
        paths: folders, zips, tables, recordings and subtitles, in any mixture.
        reading: how to read them.

    Raises:
        UserError: nothing can be read: the inputs are not there, hold no recordings, have a damaged table, or are
            archives that are not safe. Of several inputs one like that is reported, and the others are read.
    """
    found: list[Recording] = []
    refused: list[UserError] = []
    for path in paths:
        try:
            found += _read_one(path, reading)
        except UserError as error:
            if error.where == NEEDS_WEIGHTS:
                raise
            refused.append(error)
            found.append(_refused(path.expanduser().absolute(), error))
    if len(refused) == len(paths):
        raise refused[0]
    return found


def read_source(path: Path, reading: Reading | None = None) -> list[Recording]:
    """As `read_sources`, for one path."""
    return _read_one(path, reading or Reading(long_audio=LongAudio(kept=path / ".kept")))


def _read_one(path: Path, reading: Reading) -> list[Recording]:
    source = path.expanduser()
    if source.is_dir():
        found = _folder(source, reading)
    elif source.is_file() and source.suffix.lower() == ".zip":
        found = _folder(unpack(source.absolute(), reading.long_audio.kept), reading)
    elif source.is_file() and source.suffix.lower() in (*AUDIO_SUFFIXES, *SUBTITLE_SUFFIXES):
        found = _alone(source.absolute(), reading)
    elif source.is_file() and source.suffix.lower() in (*_TABLE_SUFFIXES, ".jsonl"):
        found = _listed(source, source.parent, reading)
    else:
        what = "is neither a folder nor a metadata CSV" if source.exists() else "does not exist"
        raise UserError(what=f"the input {what}", where=str(path), fix=_LAYOUTS)
    if not found:
        raise UserError(what="the input holds no recordings", where=str(path), fix=_LAYOUTS)
    return found


def _refused(path: Path, error: UserError) -> Recording:
    """What stands in the report for an input of which nothing could be read."""
    where = "" if error.where in ("", str(path)) else f" ({error.where})"
    return Recording(audio=path, fault=Fault("unreadable input", f"{error.what}{where}; {error.fix or 'mend it'}"))


def _folder(folder: Path, reading: Reading) -> list[Recording]:
    """Tables of a folder and its subfolders with their rows, then all that no row names."""
    table = _table_of(folder)
    if table:
        return _table_and_rest(table, folder, reading)
    inner = [
        path for name in _TABLE_NAMES for path in files_in(folder, (Path(name).suffix,)) if path.name.lower() == name
    ]
    roots = sorted({path.parent for path in inner})
    # A table speaks for its folder and all below it.
    roots = [root for root in roots if not any(root != other and root.is_relative_to(other) for other in roots)]
    found = []
    for root in roots:
        try:
            table = _table_of(root)
            assert table is not None
            found += _table_and_rest(table, root, reading)
        except UserError as error:
            found.append(_refused(root, error))
    return found + _texts_and_audio(folder, reading, without=roots)


def _table_of(folder: Path) -> Path | None:
    tables = sorted(
        path for name in ("*.csv", "*.jsonl") for path in folder.glob(name) if not path.name.startswith(".")
    )
    preferred = [path for path in tables if path.name.lower() in _TABLE_NAMES] or tables
    if len(preferred) > 1:
        names = ", ".join(path.name for path in preferred)
        raise UserError(what=f"the folder holds several tables: {names}", where=str(folder), fix="give the path of one")
    return preferred[0] if preferred else None


def _listed(table: Path, root: Path, reading: Reading) -> list[Recording]:
    """The rows of a table; one that leads out of `root` is not followed."""
    found, known = [], RealPaths()
    for row in _rows(table, reading):
        place = f"{table.name}, line {row.line}"
        # What no file can be called is not looked for; the row then stands for itself.
        has_name = bool(row.audio) and len(row.audio) <= _LONGEST_NAME
        audio = find_audio(table.parent, row.audio) if has_name else table.absolute()
        fault = None
        if row.problem:
            fault = Fault("unreadable row", f"{place}: {row.problem}")
        elif not row.audio:
            fault = Fault("missing file", f"{place} names no file")
        elif not has_name:
            fault = Fault("missing file", f"{place} names {row.audio[:60]!r}..., {len(row.audio)} characters")
        elif not is_inside(audio, root, known):
            fault = _outside(place, audio, root)
        elif not is_file(audio):
            fault = Fault("missing file", f"{place} names {row.audio[:200]!r}, which is not there")
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


def _rows(table: Path, reading: Reading) -> list[JsonRow]:
    if table.suffix.lower() == ".jsonl":
        return parse_jsonl(read_text(table, other=reading.encoding))
    return [
        JsonRow(line=row.line, audio=row.audio, text=row.text, speaker=row.speaker, problem=row.problem)
        for row in read_table(table, reading.encoding)
    ]


def _table_and_rest(table: Path, root: Path, reading: Reading) -> list[Recording]:
    """The rows of a table, then the recordings in its folder that no row names."""
    listed, known = _listed(table, root, reading), RealPaths()
    named = {known.of(recording.audio) for recording in listed}
    fault = Fault("no transcript", f"{table.name} has no row for it{reading.no_transcript}")
    rest = (path for path in files_in(root, AUDIO_SUFFIXES) if known.of(path) not in named)
    as_written = {recording.audio for recording in listed}
    broken = (path for path in broken_links(root, AUDIO_SUFFIXES) if path not in as_written)
    return [
        *listed,
        *(recording for path in rest for recording in _with_words(path, root, reading, fault)),
        *map(_broken, broken),
    ]


def _outside(what: str, path: Path, root: Path) -> Fault:
    if real_path(path) is None:
        return Fault("missing file", f"{what} names a link that leads to itself")
    return Fault("outside the folder", f"{what} leads out of {root}; {_HOW_TO_ALLOW}")


def _texts_and_audio(folder: Path, reading: Reading, *, without: Sequence[Path]) -> list[Recording]:
    """Recordings with what says their words, then texts, subtitles and archives that no recording goes with."""
    files = [path for path in files_in(folder, _KNOWN) if not any(path.is_relative_to(root) for root in without)]
    audio = [path for path in files if path.suffix.lower() in AUDIO_SUFFIXES]
    broken = [path for path in broken_links(folder, _KNOWN) if not any(path.is_relative_to(root) for root in without)]
    if not audio and not broken and not any(path.suffix.lower() in SUBTITLE_SUFFIXES for path in files):
        return []
    voiced = {composed(path.with_suffix("")) for path in (*audio, *broken)}
    found = [recording for path in audio for recording in _with_words(path, folder, reading, None)]
    fault = Fault("no recording", f"no recording of the same name ({' '.join(AUDIO_SUFFIXES)})")
    for path in files:
        if path in audio or {composed(path.with_suffix("")), composed(path.with_suffix("").with_suffix(""))} & voiced:
            continue
        inner = Fault("no recording", "an archive inside; give its path as well, or unpack it")
        found.append(Recording(audio=path, fault=inner if path.suffix.lower() == ".zip" else fault))
    # A text that is a link like that is told of with its recording.
    return found + [_broken(path) for path in broken if not _has_recording(path, audio)]


def _has_recording(path: Path, audio: Sequence[Path]) -> bool:
    return path.suffix.lower() == ".txt" and composed(path.with_suffix("")) in {
        composed(other.with_suffix("")) for other in audio
    }


def _broken(path: Path) -> Recording:
    return Recording(audio=path, fault=Fault("missing file", "a link to a file that is not there, or to itself"))


def _alone(path: Path, reading: Reading) -> list[Recording]:
    """A recording or a subtitle file that was given by itself, with its companion beside it."""
    if path.suffix.lower() in AUDIO_SUFFIXES:
        return _with_words(path, path.parent, reading, None)
    beside = (other for other in sorted(path.parent.iterdir()) if other.suffix.lower() in AUDIO_SUFFIXES)
    audio = next(
        (other for other in beside if path.stem in (other.stem, f"{other.stem}{Path(path.stem).suffix}")), None
    )
    if audio is None:
        return [Recording(audio=path, fault=Fault("no recording", "no recording of the same name beside it"))]
    return _with_words(audio, path.parent, reading, None)


def _with_words(audio: Path, folder: Path, reading: Reading, missing: Fault | None) -> list[Recording]:
    """The clips of a recording: by its subtitles, its text file, or what a recogniser hears.

    Args:
        audio: absolute path.
        folder: what it must lie in.
        reading: how to read it.
        missing: the fault of a recording without words; says that its text file is missing when None.
    """
    fault = _name_fault(audio)
    if not fault and not is_inside(audio, folder):
        fault = _outside("a link that", audio, folder)
    if fault:
        return [Recording(audio=audio, fault=fault)]
    try:
        return _by_companion(audio, folder, reading, missing)
    except UserError as error:
        if not is_file(audio) or error.where == NEEDS_WEIGHTS:
            raise
        return [Recording(audio=audio, fault=Fault("unreadable audio", error.what))]


def _by_companion(audio: Path, folder: Path, reading: Reading, missing: Fault | None) -> list[Recording]:
    cue_files, text = cue_file(audio), find_text(audio)
    companion = cue_files[0] if cue_files else text if is_file(text) else None
    if companion is None and not text.is_symlink():
        if reading.long_audio.transcriber:
            return _cut(audio, reading.long_audio.by_words(audio), "")
        lacking = Fault("no transcript", f"no file {text.name} beside it{reading.no_transcript}")
        return [Recording(audio=audio, fault=missing or lacking)]
    if companion is None or not is_inside(companion, folder):
        name = text if companion is None else companion
        fault = _outside(f"{name.name} is a link that", name, folder)
        if real_path(name) is None:
            fault = Fault("no transcript", f"{name.name} is a link that leads to itself")
        return [Recording(audio=audio, fault=fault)]
    try:
        content = read_text(companion, other=reading.encoding)
        kind = companion.suffix.lower()
        cues = parse_cues(content, kind) if kind != ".txt" or is_labels(content) else None
    except UserError as error:
        return [Recording(audio=audio, fault=Fault("no transcript", f"{companion.name}: {error.what}"))]
    if cues is not None:
        if not cues:
            return [Recording(audio=audio, fault=Fault("no transcript", f"{companion.name} holds no cues"))]
        return _cut(audio, reading.long_audio.by_cues(audio, cues), companion.name)
    long = reading.long_audio
    if long.transcriber and (seconds := duration(audio)) and seconds > long.limits.longest_s:
        return _cut(audio, long.by_words(audio, clean(content)), companion.name)
    return [Recording(audio=audio, text=clean(content), origin=companion.name)]


def _cut(audio: Path, cuts: Sequence[Cut], file: str) -> list[Recording]:
    """Cuts of a recording as clips to make."""
    return [
        Recording(
            audio=audio,
            text=cut.text,
            speaker=cut.speaker,
            origin=f"{file}, {_places(cut)}" if file else f"recognised, {_places(cut)}",
            fault=cut.fault,
            start_s=cut.start_s,
            # A fault may have no end, and an end of 0 would be one.
            end_s=cut.end_s,
        )
        for cut in cuts
    ]


def _places(cut: Cut) -> str:
    """The units of a cut in words: cue 3, or cue 3 to cue 5."""
    first, last = cut.units[0].place, cut.units[-1].place
    return first if first == last else f"{first} to {last}"


def _name_fault(path: Path) -> Fault | None:
    """Names in another encoding than UTF-8 can be neither opened by libsndfile nor written to the metadata."""
    if printable(path) == str(path):
        return None
    return Fault("unreadable audio", f"{printable(path.name)} is not a UTF-8 name; rename the file")
