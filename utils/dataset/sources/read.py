"""Read the user's inputs as a list of source clips: tables, recordings with texts or subtitles, archives."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from utils.audio.decode import duration
from utils.audio.recognizer import NEEDS_WEIGHTS
from utils.audio.suffixes import AUDIO_SUFFIXES
from utils.dataset.formats.archive import is_corpus, unpack, unpack_corpus
from utils.dataset.formats.cues import (
    SUBTITLE_SUFFIXES,
    cue_files,
    is_labels,
    is_transcript,
    parse_cues,
    spoken_once,
    without_descriptions,
)
from utils.dataset.formats.faults import Fault
from utils.dataset.formats.listing import SOUND, Listing, kind_of, real_path
from utils.dataset.formats.locate import (
    by_name,
    files_in,
    find_text,
    is_inside,
    no_files_in,
    printable,
    stem,
    stems,
)
from utils.dataset.formats.readers import KALDI, LISTS, TABLES, left_out, tables_in
from utils.dataset.formats.table import clean
from utils.dataset.formats.textfile import read_text
from utils.dataset.segmentation.cut import Cut
from utils.dataset.sources.recording import ReadOptions, Recording, outside, read_rows
from utils.errors import UserError

_TABLE_NAMES = ("metadata.csv", "metadata.jsonl")
_KNOWN = (*AUDIO_SUFFIXES, *SUBTITLE_SUFFIXES, *TABLES.keys() - LISTS, ".lab", ".zip")
_LAYOUTS = (
    "give a folder or zip with metadata.csv, or with recordings beside same-named .txt, .srt or .vtt files, "
    "or the path of a CSV or JSONL table"
)


def read_sources(paths: Sequence[Path], reading: ReadOptions) -> list[Recording]:
    """Every recording, transcript, cue and row of what the user gave, in a fixed order.

    Args:
        paths: folders, zips, tables, recordings and subtitles, in any mixture.
        reading: how to read them.

    Raises:
        UserError: nothing can be read: the inputs are not there, hold no recordings, have a damaged table, or are
            archives that are not safe. Of several inputs one like that is reported, and the others are read.
    """
    return _read_each(paths, partial(_read_one, reading=reading))


def _read_each(paths: Sequence[Path], read: Callable[[Path], list[Recording]]) -> list[Recording]:
    """What all paths hold; one that cannot be read is reported, unless none can."""
    found: list[Recording] = []
    refused: list[UserError] = []
    for path in paths:
        try:
            found += read(path)
        except UserError as error:
            if error.where == NEEDS_WEIGHTS:
                raise
            refused.append(error)
            found.append(_refused(path.expanduser().absolute(), error))
    if refused and len(refused) == len(paths):
        raise refused[0]
    return found


def require_inputs(paths: Iterable[Path]) -> None:
    """Do nothing where every input is there.

    Raises:
        UserError: one does not exist.
    """
    for path in paths:
        if not path.expanduser().exists():
            raise UserError(what="the input does not exist", where=str(path), fix=_LAYOUTS)


def _read_one(path: Path, reading: ReadOptions) -> list[Recording]:
    # Of this moment: an archive may have been unpacked since, and folders change between two calls.
    source, reading = path.expanduser(), replace(reading, files=Listing())
    if is_corpus(source):
        found = _archive(source.absolute(), reading, unpack_corpus)
    elif source.is_dir():
        corpora = (path for path in by_name(source.absolute().iterdir()) if path.is_file() and path.name[0] != ".")
        found = _folder(source, reading) or _read_each(
            [path for path in corpora if is_corpus(path)], partial(_archive, reading=reading, unpack=unpack_corpus)
        )
    elif source.is_file() and source.suffix.lower() == ".zip":
        found = _archive(source.absolute(), reading, partial(unpack, notes=reading.notes))
    elif source.is_file() and source.suffix.lower() in (*AUDIO_SUFFIXES, *SUBTITLE_SUFFIXES):
        found = _alone(source.absolute(), reading)
    elif source.is_file() and source.suffix.lower() in TABLES:
        found = read_rows(source, source.parent, reading)
    else:
        what = "is neither a folder nor a metadata CSV" if source.exists() else "does not exist"
        raise UserError(what=f"the input {what}", where=str(path), fix=_LAYOUTS)
    if not found:
        raise UserError(what="the input holds no recordings", where=str(path), fix=_LAYOUTS)
    return found


def _archive(path: Path, reading: ReadOptions, unpack: Callable[[Path, Path], Path]) -> list[Recording]:
    """What an archive holds; of one in which nothing can be used, nothing stays unpacked."""
    folder, found = unpack(path, reading.long_audio.kept), list[Recording]()
    try:
        found = _folder(folder, reading)
    finally:
        if all(recording.fault for recording in found):
            shutil.rmtree(folder, ignore_errors=True)
    return found


def _refused(path: Path, error: UserError) -> Recording:
    """What stands in the report for an input of which nothing could be read."""
    where = "" if error.where in ("", str(path)) else f" ({error.where})"
    return Recording(
        audio=path, fault=Fault("unreadable input", f"{error.what}{where}; {error.fix or 'repair the file'}")
    )


def _folder(folder: Path, reading: ReadOptions) -> list[Recording]:
    """The rows of all tables of a folder and its subfolders, then all files that no row names."""
    found: list[Recording] = []
    read: list[Path] = []
    refused: dict[Path, UserError] = {}
    tables = []
    for path in tables_in(folder, reading.files):
        if reason := left_out(path, set(reading.files.names(str(path.parent)))):
            reading.ignored[printable(path)] = reason
        else:
            tables.append(path)
    # Those called metadata first: of two rows for one recording the first counts.
    for table in sorted(tables, key=lambda path: (path.name.lower() not in _TABLE_NAMES, path)):
        try:
            # A table directly in the folder may be a link, as the user who gives the folder put it there.
            if table.parent != folder.absolute() and not is_inside(table, folder, reading.files):
                what = f"a link to a place outside {folder}"
                raise UserError(what=what, where=str(table), fix="copy the table in")
            found += read_rows(table, folder, reading)
            read.append(table)
        except UserError as error:
            refused[table] = error
    # Its rows were meant to be all there is: better fixed first than reported after hours of recognition.
    if not read and any(table.parent == folder.absolute() for table in refused):
        raise next(iter(refused.values()))
    found += [_refused(table, error) for table, error in refused.items()]
    return found + _unnamed(folder, reading, found, read)


def _unnamed(
    folder: Path, reading: ReadOptions, listed: Sequence[Recording], tables: Sequence[Path]
) -> list[Recording]:
    """What no row names: recordings with what says their words, then texts, subtitles, archives and other tables.

    Args:
        folder: what was given.
        reading: how to read it.
        listed: what the rows of its tables name.
        tables: those that could be read; each speaks for its folder and all below it.
    """
    files = reading.files
    named, as_written = {files.real(recording.audio) for recording in listed}, {row.audio for row in listed}
    # A table's own folder may hold a link to its recordings, which counts as part of that folder alone.
    roots = dict.fromkeys((folder.absolute(), *(table.parent for table in tables)))
    home = {path: root for root in roots for path in files_in(root, None, files)}
    known = by_name(path for path in home if path.suffix.lower() in _KNOWN or is_transcript(path))
    parts = {table.with_name(name) for table in tables if table.suffix.lower() == ".scp" for name in KALDI}
    unknown = [path for path in by_name(home.keys() - known - parts) if path.suffix.lower() not in LISTS]
    kinds = {path: kind_of(path) for path in unknown if files.real(path) not in named}
    audio = by_name(path for path in home if path.suffix.lower() in AUDIO_SUFFIXES or kinds.get(path) == SOUND)
    others = by_name({path for root in roots for path in no_files_in(root, files)})
    broken = [path for path in others if not path.exists() and path.suffix.lower() in _KNOWN and path not in as_written]
    if not listed and not audio and not broken and not any(path.suffix.lower() in SUBTITLE_SUFFIXES for path in known):
        return []
    languages = {table.with_name("lang.txt") for table in tables}.intersection(known)
    ignored = [(path, kind) for path, kind in kinds.items() if kind != SOUND]
    ignored += [(path, "the language of a prepared dataset") for path in languages]
    ignored += [(path, "not a regular file") for path in others if path.exists()]
    reading.ignored.update({printable(path): kind for path, kind in ignored})
    found = [
        recording
        for path in audio
        if files.real(path) not in named
        for recording in _with_words(path, home[path], reading, _no_row(path, tables, reading))
    ]
    with_sound = set(map(stem, audio))
    voiced = with_sound | set(map(stem, broken))
    silent = (path for path in known if path.suffix.lower() not in AUDIO_SUFFIXES)
    read = languages.union(tables)
    found += [_without_recording(path) for path in silent if path not in read and not stems(path) & voiced]
    # A text that is a link like that is reported with its recording.
    fault = Fault("missing file", "a link to a missing file, or to itself")
    lone = [path for path in broken if path.suffix.lower() != ".txt" or stem(path) not in with_sound]
    return found + [Recording(audio=path, fault=fault) for path in lone]


def _no_row(audio: Path, tables: Sequence[Path], reading: ReadOptions) -> Fault | None:
    """What is wrong with a recording that should stand in a table; None where there is no table for it."""
    names = [table.name for table in tables if audio.is_relative_to(table.parent)]
    if not names:
        return None
    has_no_row = f"{names[0]} has no row for it" if len(names) == 1 else f"none of {', '.join(names)} has a row for it"
    return Fault("no transcript", has_no_row + reading.no_transcript)


def _without_recording(path: Path) -> Recording:
    kind = path.suffix.lower()
    if kind == ".zip":
        fault = Fault("no recording", "an archive within the input; add its path as another input, or unpack it")
    else:
        fault = Fault("no recording", f"no recording of the same name ({' '.join(AUDIO_SUFFIXES)})")
    return Recording(audio=path, fault=fault)


def _alone(path: Path, reading: ReadOptions) -> list[Recording]:
    """A recording or a subtitle file that was given by itself, with its companion beside it."""
    if path.suffix.lower() in AUDIO_SUFFIXES:
        return _with_words(path, path.parent, reading, None)
    beside = (other for other in by_name(path.parent.iterdir()) if other.suffix.lower() in AUDIO_SUFFIXES)
    audio = next((other for other in beside if stem(other) in stems(path)), None)
    if audio is None:
        return [Recording(audio=path, fault=Fault("no recording", "no recording of the same name beside it"))]
    return _with_words(audio, path.parent, reading, None)


def _with_words(audio: Path, folder: Path, reading: ReadOptions, missing: Fault | None) -> list[Recording]:
    """The clips of a recording: by its subtitles, its text file, or its recognized text.

    Args:
        audio: absolute path.
        folder: what it must lie in.
        reading: how to read it.
        missing: the fault of a recording without words; says that its text file is missing when None.
    """
    found: list[Recording] | Fault
    if printable(audio) != str(audio):
        # Such names can be neither opened by libsndfile nor written to the metadata.
        found = Fault("unreadable audio", f"{printable(audio.name)} is not a UTF-8 name; rename the file")
    elif not is_inside(audio, folder, reading.files):
        found = outside("a link that", audio, folder)
    else:
        try:
            found = _by_companion(audio, folder, reading, missing)
        except UserError as error:
            if not reading.files.is_file(str(audio)) or error.where == NEEDS_WEIGHTS:
                raise
            found = Fault("unreadable audio", error.what)
    return [Recording(audio=audio, fault=found)] if isinstance(found, Fault) else found


def _by_companion(audio: Path, folder: Path, reading: ReadOptions, missing: Fault | None) -> list[Recording] | Fault:
    files = reading.files
    cues_beside, text = cue_files(audio, files), find_text(audio, files)
    is_recognized = bool(cues_beside) and cues_beside[0].suffix.lower() not in SUBTITLE_SUFFIXES
    if is_recognized and files.is_file(str(text)) and (duration(audio) or 0.0) <= reading.long_audio.limits.longest_s:
        # The text may have been corrected by hand, and a short recording needs no times.
        cues_beside = []
    companion = cues_beside[0] if cues_beside else text if files.is_file(str(text)) else None
    if companion is None and not files.is_link(str(text)):
        if audio.is_file() and not audio.stat().st_size:
            # A transcript would not help.
            return Fault("unreadable audio", f"{audio.name} is empty (0 bytes)")
        if reading.long_audio.transcriber:
            return _cut(audio, reading.long_audio.by_words(audio), "")
        return missing or Fault("no transcript", f"no file {text.name} beside it{reading.no_transcript}")
    if companion is None or not is_inside(companion, folder, files):
        name = text if companion is None else companion
        if real_path(name) is None:
            return Fault("no transcript", f"{name.name} is a link to itself")
        return outside(f"{name.name} is a link that", name, folder)
    try:
        content = read_text(companion, other=reading.encoding_of(companion))
        kind = companion.suffix.lower()
        cues = parse_cues(content, kind) if companion in cues_beside or is_labels(content) else None
    except UserError as error:
        return Fault("no transcript", f"{companion.name}: {error.what}")
    if cues is not None:
        if not cues:
            return Fault("no transcript", f"{companion.name} holds no cues")
        removed: list[str] = []
        if reading.clean_subtitles and companion in cues_beside:
            cues, removed = without_descriptions(cues)
        if removed:
            more = f" and {len(removed) - 8} more" if len(removed) > 8 else ""
            reading.notes.append(f"{companion.name}: removed from the subtitles: {', '.join(removed[:8])}{more}")
        return _cut(audio, reading.long_audio.by_cues(audio, spoken_once(cues)), companion.name)
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
            origin=f"{file}, {_places(cut)}" if file else f"recognized, {_places(cut)}",
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
