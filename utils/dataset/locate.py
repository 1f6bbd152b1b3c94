"""Find the recordings that a table names, and the files that lie in a folder."""

from collections.abc import Iterator
from pathlib import Path

from utils.audio.decode import AUDIO_SUFFIXES

WAVS = "wavs"
"""Folder beside a table where its recordings may lie, as in LJSpeech."""


def find_audio(folder: Path, name: str) -> Path:
    """The recording a row names: beside the table or in wavs/, with or without its file name ending.

    Args:
        folder: where the table lies.
        name: file name or path as the table writes it; Windows separators are understood.

    Returns:
        Absolute path of the first candidate that exists; of the name as written when none does.
    """
    written = folder.absolute() / name
    return next((path for path in _candidates(folder.absolute(), name) if is_file(path)), written)


def is_inside(path: Path, folder: Path) -> bool:
    """Whether the file really lies below the folder: `..` and symbolic links are followed."""
    return path.resolve().is_relative_to(folder.resolve())


def is_file(path: Path) -> bool:
    """As `Path.is_file`, also for names that no file can have."""
    try:
        return path.is_file()
    except OSError:
        return False


def files_in(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Absolute paths of a folder's files with these endings, by name, subfolders included and hidden files left out."""
    found = (path for path in folder.absolute().rglob("*") if path.suffix.lower() in suffixes)
    return sorted(path for path in found if not _is_hidden(path.relative_to(folder.absolute())) and is_file(path))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _candidates(folder: Path, name: str) -> Iterator[Path]:
    for base in (folder, folder / WAVS):
        for written in dict.fromkeys((name, name.replace("\\", "/"))):
            yield base / written
            if Path(written).suffix.lower() not in AUDIO_SUFFIXES:
                yield from (base / f"{written}{suffix}" for suffix in AUDIO_SUFFIXES)
