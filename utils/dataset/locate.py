"""Find the recordings that a table names, and the files that lie in a folder."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path

from utils.audio.decode import AUDIO_SUFFIXES

WAVS = "wavs"
"""Folder beside a table where its recordings may lie, as in LJSpeech."""


def find_audio(folder: Path, name: str) -> Path:
    """The recording a row names: beside the table or in wavs/, with or without its file name ending.

    Args:
        folder: where the table lies.
        name: file name or path as the table writes it; Windows separators are understood, and accents that a Mac
            wrote as characters of their own (NFD) where the table has them composed (NFC), or the other way round.

    Returns:
        Absolute path of the first candidate that exists; of the name as written when none does.
    """
    written = folder.absolute() / name
    return next((path for path in _candidates(folder.absolute(), name) if is_file(path)), written)


def find_text(audio: Path) -> Path:
    """The text file beside a recording, whichever way its name writes accents; need not exist."""
    text = audio.with_suffix(".txt")
    return next((path for name in _spellings(text.name) if is_file(path := text.with_name(name))), text)


def is_inside(path: Path, folder: Path) -> bool:
    """Whether the file really lies below the folder: `..` and symbolic links are followed.

    A link to another folder counts as a part of this one when it lies in it directly: whoever gives the folder has put
    it there, often because the recordings are on another disk. What lies behind it must not lead out of it again.
    """
    real = real_path(path)
    if real is None:
        return False
    if real.is_relative_to(folder.resolve()):
        return True
    given = folder.absolute()
    if ".." in path.parts or not path.is_relative_to(given) or path == given:
        return False
    link = given / path.relative_to(given).parts[0]
    return _is_linked_folder(link, given) and real.is_relative_to(link.resolve())


def real_path(path: Path) -> Path | None:
    """The path with links followed; None when they lead nowhere, such as a link to itself."""
    try:
        return path.resolve()
    # A loop of links is a RuntimeError up to Python 3.12.
    except (OSError, RuntimeError):
        return None


def is_file(path: Path) -> bool:
    """As `Path.is_file`, also for names that no file can have."""
    try:
        return path.is_file()
    except OSError:
        return False


def files_in(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Absolute paths of a folder's files with these endings, by name, subfolders included and hidden files left out.

    Links to folders are followed only where `is_inside` trusts them.
    """
    given = folder.absolute()
    linked = [link for link in given.iterdir() if link.is_symlink() and _is_linked_folder(link, given)]
    found = (path for top in (given, *linked) for path in top.rglob("*") if path.suffix.lower() in suffixes)
    return sorted(path for path in found if not _is_hidden(path.relative_to(given)) and is_file(path))


def composed(path: Path) -> Path:
    """The path with accents composed (NFC), to compare names that different systems wrote."""
    return Path(unicodedata.normalize("NFC", str(path)))


def printable(name: Path | str) -> str:
    """A name as text that any file can hold: bytes that are not UTF-8 become \\xe9."""
    return str(name).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _is_linked_folder(link: Path, folder: Path) -> bool:
    """Whether it is a link to a folder elsewhere: one to a parent would make everything a part of this folder."""
    target = real_path(link)
    if target is None or not link.is_symlink() or not target.is_dir():
        return False
    return not target.is_relative_to(folder.resolve()) and not folder.resolve().is_relative_to(target)


def _spellings(name: str) -> list[str]:
    """The name as it is, and with its accents composed and taken apart."""
    return list(dict.fromkeys((name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name))))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _candidates(folder: Path, name: str) -> Iterator[Path]:
    for base in (folder, folder / WAVS):
        for written in dict.fromkeys((*_spellings(name), *_spellings(name.replace("\\", "/")))):
            yield base / written
            if Path(written).suffix.lower() not in AUDIO_SUFFIXES:
                yield from (base / f"{written}{suffix}" for suffix in AUDIO_SUFFIXES)
