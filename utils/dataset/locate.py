"""Find the recordings that a table names, and the files that lie in a folder."""

# os.path takes seconds where a hundred thousand files lie, pathlib a minute.
# ruff: noqa: PTH110, PTH113, PTH114, PTH118, PTH122

import os
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
    given = folder.absolute()
    return next((Path(path) for path in _candidates(str(given), name) if os.path.isfile(path)), given / name)


def find_text(audio: Path) -> Path:
    """The text file beside a recording, whichever way its name writes accents; need not exist."""
    text = audio.with_suffix(".txt")
    return next((path for name in _spellings(text.name) if is_file(path := text.with_name(name))), text)


class RealPaths:
    """`real_path` for many files of few folders, each of which is looked up once."""

    def __init__(self) -> None:
        self._folders: dict[str, str | None] = {}

    def of(self, path: Path) -> str | None:
        """The path with links followed; None when they lead nowhere."""
        whole = str(path)
        folder, name = os.path.split(whole)
        if name in ("", ".", "..") or os.path.islink(whole):
            return _text(real_path(path))
        if folder not in self._folders:
            self._folders[folder] = _text(real_path(Path(folder)))
        real = self._folders[folder]
        return None if real is None else os.path.join(real, name)


def is_inside(path: Path, folder: Path, known: RealPaths | None = None) -> bool:
    """Whether the file really lies below the folder: `..` and symbolic links are followed.

    A link to another folder counts as a part of this one when it lies in it directly: whoever gives the folder has put
    it there, often because the recordings are on another disk. What lies behind it must not lead out of it again.
    """
    known = known or RealPaths()
    real, top = known.of(path), known.of(folder.absolute())
    if real is None or top is None:
        return False
    if real == top or real.startswith(os.path.join(top, "")):
        return True
    given = folder.absolute()
    if ".." in path.parts or not path.is_relative_to(given) or path == given:
        return False
    link = given / path.relative_to(given).parts[0]
    return _is_linked_folder(link, given) and Path(real).is_relative_to(link.resolve())


def real_path(path: Path) -> Path | None:
    """The path with links followed; None when they lead nowhere, such as a link to itself."""
    try:
        return path.resolve()
    # A loop of links is a RuntimeError up to Python 3.12.
    except (OSError, RuntimeError):
        return None


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


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
    return sorted(Path(path) for path in _named(folder.absolute(), suffixes) if os.path.isfile(path))


def broken_links(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Links with these endings in a folder that lead to no file, by name; see `files_in`."""
    # What is a folder or anything else that is no file is not named a recording either.
    return sorted(Path(path) for path in _named(folder.absolute(), suffixes) if not os.path.exists(path))


def composed(path: Path) -> Path:
    """The path with accents composed (NFC), to compare names that different systems wrote."""
    return Path(unicodedata.normalize("NFC", str(path)))


def printable(name: Path | str) -> str:
    """A name as text that any file can hold: bytes that are not UTF-8 become \\xe9."""
    return str(name).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _named(given: Path, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Paths of all that has one of these endings and is no folder."""
    linked = [link for link in given.iterdir() if link.is_symlink() and _is_linked_folder(link, given)]
    for top in (given, *(link for link in linked if not link.name.startswith("."))):
        # os.walk, because Path.rglob takes minutes where a hundred thousand files lie.
        for folder, inner, names in os.walk(top):
            inner[:] = [name for name in inner if not name.startswith(".")]
            for name in names:
                if not name.startswith(".") and os.path.splitext(name)[1].lower() in suffixes:
                    yield os.path.join(folder, name)


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


def _candidates(folder: str, name: str) -> Iterator[str]:
    for base in (folder, os.path.join(folder, WAVS)):
        for written in dict.fromkeys((*_spellings(name), *_spellings(name.replace("\\", "/")))):
            yield os.path.join(base, written)
            if os.path.splitext(written)[1].lower() not in AUDIO_SUFFIXES:
                yield from (os.path.join(base, f"{written}{suffix}") for suffix in AUDIO_SUFFIXES)
