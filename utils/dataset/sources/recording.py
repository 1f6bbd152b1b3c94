"""One source clip as the user gave it, the settings for reading inputs, and the recordings of a table's rows."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from utils.audio.recognizer import Transcriber, TranscriberSettings
from utils.dataset.formats.audio_names import find_audio, tried
from utils.dataset.formats.code_pages import guess_encoding
from utils.dataset.formats.faults import Fault
from utils.dataset.formats.listing import Listing, real_path
from utils.dataset.formats.locate import is_inside, renamed
from utils.dataset.formats.readers import TABLES
from utils.dataset.formats.table import DEFAULT_SPEAKER, Row
from utils.dataset.segmentation.cut import CutLengths
from utils.dataset.segmentation.long_audio import LongAudio
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.report import Span
from utils.text.languages import plain_code


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


def transcriber_of(config: PrepareConfig, *, detect_language: bool) -> Transcriber | None:
    """The recognizer that the settings name; it listens in the dataset's language unless it is to detect one."""
    if config.transcriber is None:
        return None
    settings = TranscriberSettings(
        model=config.transcriber,
        language=None if detect_language else config.language.split("-")[0].lower(),
        device=config.transcriber_device,
        compute_type=config.compute_type,
        beam_size=config.beam_size,
    )
    return Transcriber(settings)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How what the user gave is read."""

    long_audio: LongAudio
    encoding: str | None = None
    """Of text files that are neither UTF-8 nor UTF-16; None finds it where their letters show it."""
    clean_subtitles: bool = True
    """Remove what is not spoken from subtitles."""
    language: str = ""
    """Code of the dataset's language; rows of another are reported. Empty takes any."""
    files: Listing = field(default_factory=Listing)
    """What lies in the folders of one input."""
    notes: list[str] = field(default_factory=list)
    """What was read otherwise than written, each thing once."""
    ignored: dict[str, str] = field(default_factory=dict)
    """Files that are no part of the dataset, by path; see `Report.ignored`."""

    @classmethod
    def of(cls, config: PrepareConfig, kept: Path) -> "ReadOptions":
        """How the settings say it; what need not be found twice is kept in the folder `kept`."""
        long_audio = LongAudio(
            kept=kept,
            limits=CutLengths(shortest_s=config.shortest, longest_s=config.longest, padding_s=config.padding),
            transcriber=transcriber_of(config, detect_language=config.detect_language),
            language=config.language if config.detect_language else "",
        )
        return cls(
            long_audio=long_audio,
            encoding=config.encoding,
            language=config.language,
            clean_subtitles=config.clean_subtitles,
        )

    def encoding_of(self, path: Path) -> str | None:
        """The encoding of a text file if it is not Unicode; one that was found is noted."""
        if self.encoding:
            return self.encoding
        found = guess_encoding(path, plain_code(self.language))
        note = f"texts that are not Unicode were read as {found}; --encoding names another"
        self.notes.extend([note] if found and note not in self.notes else [])
        return found

    @property
    def no_transcript(self) -> str:
        """What helps a recording without words."""
        return "" if self.long_audio.transcriber else "; --transcriber small would transcribe it"


_ABSOLUTE = re.compile(r"[/\\]|.:[/\\]")
"""Begins a path of this system or of another."""
_LONGEST_NAME = 4_096
"""Characters; no system has longer paths."""
_LANGUAGES = {"jp": "ja", "all_zh": "zh", "all_ja": "ja", "all_ko": "ko", "all_yue": "yue", "auto": "auto_"}
"""GPT-SoVITS' names of languages."""
_HOW_TO_ALLOW = "copy the file into the folder, or add a link to its folder directly below the input folder"


def read_rows(table: Path, root: Path, reading: ReadOptions) -> list[Recording]:
    """The rows of a table, which lies in `root` or below; one that leads out of it is not followed."""
    found, files = [], reading.files
    root, wanted = root.absolute(), plain_code(reading.language)
    rows = TABLES[table.suffix.lower()](table, reading.encoding_of(table))
    paths = _find_rows(table, root, rows, reading)
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
        elif not is_inside(audio, table.parent, files) and not is_inside(audio, root, files):
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


def _find_rows(table: Path, root: Path, rows: Sequence[Row], reading: ReadOptions) -> list[Path]:
    """The recording of every row; notes which were found under other names than their rows have."""
    folder, files = table.parent.absolute(), reading.files
    paths = [find_audio(folder, row.audio, files.is_file) if _can_be_named(row) else table.absolute() for row in rows]
    # Lists of some programs lie in a folder of their own, and name recordings as the folder above has them. Where only
    # the last parts of a name agree, it may be another recording: but for absolute paths, which a note names.
    for number, path in enumerate(paths):
        if root != folder and not files.is_file(str(path)) and _can_be_named(row := rows[number]):
            above = find_audio(root, row.audio, files.is_file)
            is_named = above.parent == (root / row.audio.replace("\\", "/")).parent or _ABSOLUTE.match(row.audio)
            paths[number] = above if is_named and files.is_file(str(above)) else path
    named = zip(rows, paths, strict=True)
    # An absolute path that exists is taken as it is.
    moved = [r.audio for r, p in named if _ABSOLUTE.match(r.audio) and p != folder / r.audio and files.is_file(str(p))]
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


def outside(what: str, path: Path, root: Path) -> Fault:
    if real_path(path) is None:
        return Fault("missing file", f"{what} names a link to itself")
    return Fault("outside the folder", f"{what} points outside {root}; {_HOW_TO_ALLOW}")
