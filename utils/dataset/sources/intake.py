"""Store uploaded recordings and transcripts under safe names in <project>/uploads/dataset/."""

import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from utils.audio.container import has_sound
from utils.audio.suffixes import AUDIO_SUFFIXES
from utils.dataset.formats import readers
from utils.dataset.formats.cues import SUBTITLE_SUFFIXES
from utils.errors import UserError, disk_errors
from utils.project.paths import Project, unreserved
from utils.project.uploads import DEFAULT_QUOTA_BYTES, UPLOADS_FOLDER, check_room

_FILMS = ".mp4 .webm .mkv .mov .3gp .3g2 .avi .flv .m4v .mpg .mpeg .m2ts .mts .wmv"
VIDEOS = tuple(_FILMS.split())
SOUNDS = tuple(suffix for suffix in AUDIO_SUFFIXES if suffix not in VIDEOS)
TRANSCRIPTS = (".txt", ".lab", *SUBTITLE_SUFFIXES, ".json")
TABLES = tuple(suffix for suffix in readers.TABLES if suffix != ".txt")
ARCHIVES = (".zip",)
ACCEPTED = SOUNDS + VIDEOS + TRANSCRIPTS + TABLES + ARCHIVES
KINDS = {"recordings": SOUNDS + VIDEOS, "transcripts": TRANSCRIPTS, "tables": TABLES, "archives": ARCHIVES}
CORPORA = (".txt", ".csv", ".json", ".jsonl")
"""Texts of a language."""
RECORDINGS_FOLDER = "wavs"
"""Recordings lie in it, where tables look for them whether or not they write `wavs/` before the name."""
MAX_STEM_BYTES = 150
_UNSAFE = re.compile(r"[^\w .()+,'-]")
_TABLE_STEMS = ("metadata", "train", "eval", "transcript", "transcripts")


def uploads_folder(project: Project) -> Path:
    """Where a project's uploaded recordings, transcripts and tables lie; it need not exist."""
    return project.folder / UPLOADS_FOLDER / "dataset"


def archives_folder(project: Project) -> Path:
    """Where a project's uploaded archives lie; beside the others, because an archive is an input of its own."""
    return project.folder / UPLOADS_FOLDER / "archives"


def count_kinds(files: Iterable[Path]) -> list[int]:
    """How many files there are of each of `KINDS`; any other ending is a recording's, known by its content."""
    kinds = {suffix: kind for kind, suffixes in KINDS.items() for suffix in suffixes}
    counts = Counter(kinds.get(path.suffix.lower(), "recordings") for path in files)
    return [counts[kind] for kind in KINDS]


def upload_sources(project: Project) -> list[Path]:
    """What a dataset is made from: the folder of plain files, if it holds any, and each archive."""
    folder, archives = uploads_folder(project), archives_folder(project)
    has_files = any(path.is_file() for path in folder.rglob("*")) if folder.is_dir() else False
    zips = sorted(archives.glob("*.zip")) if archives.is_dir() else []
    return [*([folder] if has_files else []), *zips]


@disk_errors()
def add_uploads(project: Project, files: Sequence[Path], *, quota_bytes: int = DEFAULT_QUOTA_BYTES) -> list[Path]:
    """Move files into the project; a file of the same name that was uploaded before is replaced.

    Args:
        project: whose uploads.
        files: uploaded files under the names that the user gave them.
        quota_bytes: all uploads of the project together may take so much.

    Returns:
        Where they lie now, in order.

    Raises:
        UserError: a kind of file that is not used here, one that is gone or no plain file, two that would be one, or
            more than the quota or the disk has room for; before any was moved.
    """
    refused = [path.name for path in files if path.suffix.lower() not in ACCEPTED and not has_sound(path)]
    if refused:
        raise UserError(
            what=f"{len(refused)} of {len(files)} files cannot be used, the first is {refused[0]!r}",
            where="upload",
            fix=f"upload recordings, transcripts, tables or a zip: {' '.join(ACCEPTED)}",
        )
    _check_plain(files)
    _check_apart(project, files)
    check_room(project, sum(path.stat().st_size for path in files), quota_bytes)
    placed = []
    for path in files:
        placed.append(_place(project, path.name))
        placed[-1].parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, placed[-1])
    return placed


def to_be_replaced(project: Project, files: Sequence[Path]) -> list[str]:
    """Names of the files that `add_uploads` of these would replace."""
    places = [_place(project, path.name) for path in files]
    return [place.name for place in places if place.is_file()]


def uploaded_files(project: Project) -> dict[Path, int]:
    """What was uploaded so far with its bytes, by name; each name is there once, whatever the folder."""
    folders = [place for place in (uploads_folder(project), archives_folder(project)) if place.is_dir()]
    files = [path for place in folders for path in place.rglob("*") if path.is_file()]
    return {path: path.stat().st_size for path in sorted(files, key=lambda path: path.name)}


@disk_errors()
def keep_corpus(project: Project, file: Path, *, quota_bytes: int = DEFAULT_QUOTA_BYTES) -> Path:
    """Copy an uploaded text of the project's language into the project, in place of the one before.

    Args:
        project: whose.
        file: the upload, under the name that the user gave it.
        quota_bytes: all uploads of the project together may take so much.

    Raises:
        UserError: no kind of text, gone or no plain file, or too large.
    """
    if file.suffix.lower() not in CORPORA:
        raise UserError(what=f"{file.name!r} cannot be read as text", where="upload", fix=f"use {' '.join(CORPORA)}")
    _check_plain([file])
    check_room(project, file.stat().st_size, quota_bytes)
    folder = project.folder / UPLOADS_FOLDER / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"corpus{file.suffix.lower()}"
    # The browser's form still holds the upload: it may be looked at again.
    shutil.copyfile(file, target)
    return target


@disk_errors()
def remove_uploads(project: Project, names: Sequence[str] | None = None) -> int:
    """Remove uploads; the dataset made from them stays.

    Args:
        project: whose.
        names: of the files; all when not given. What is not there is passed over.

    Returns:
        Bytes that were freed.

    Raises:
        UserError: the system does not allow it.
    """
    files = uploaded_files(project)
    if names is not None:
        wanted = set(names)
        files = {path: size for path, size in files.items() if path.name in wanted}
        for path in files:
            path.unlink(missing_ok=True)
        return sum(files.values())
    for folder in (uploads_folder(project), archives_folder(project)):
        if folder.is_dir():
            shutil.rmtree(folder)
    return sum(files.values())


def safe_name(name: str) -> str:
    """A file name that every system takes and that leads nowhere else, as near to the given one as that allows."""
    composed = unicodedata.normalize("NFC", name.replace("\\", "/").rsplit("/", 1)[-1])
    stem, dot, suffix = composed.rpartition(".")
    stem, suffix = (stem, dot + suffix.lower()) if dot else (composed, "")
    stem = _UNSAFE.sub("_", stem).strip(" .") or "file"
    while len(stem.encode()) > MAX_STEM_BYTES:
        stem = stem[:-1]
    return unreserved(stem.rstrip(" .") + _UNSAFE.sub("_", suffix))


def _check_plain(files: Sequence[Path]) -> None:
    """Of uploads, none may be gone; a link could bring in any file of this computer."""
    for path in files:
        if path.is_symlink() or not path.is_file():
            raise UserError(what=f"an uploaded file is missing: {path.name!r}", where="upload", fix="upload it again")


def _check_apart(project: Project, files: Sequence[Path]) -> None:
    """Of two files of one upload that would be one, neither may be lost.

    Raises:
        UserError: there are such files: of one name, or of names that are the same to some systems.
    """
    taken: dict[str, Path] = {}
    for path in files:
        place = str(_place(project, path.name)).casefold()
        if place in taken:
            raise UserError(
                what=f"two of the files would have the same name: {taken[place].name!r} and {path.name!r}",
                where="upload",
                fix="rename one of them; tables may have any name, and all of them are read",
            )
        taken[place] = path


def _place(project: Project, name: str) -> Path:
    """Recordings and the transcripts beside them in one folder, tables above it, archives apart."""
    safe, folder = Path(safe_name(name)), uploads_folder(project)
    if safe.suffix in ARCHIVES:
        return archives_folder(project) / safe
    is_table = safe.suffix in TABLES or (safe.suffix == ".txt" and safe.stem.lower() in _TABLE_STEMS)
    # A folder's table is looked for by its ending; what separates the columns, its reader sees.
    table = safe if safe.suffix in readers.LISTS else safe.with_suffix(".csv")
    return folder / table if is_table else folder / RECORDINGS_FOLDER / safe
