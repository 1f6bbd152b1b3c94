"""Find the files in a folder, and what recordings that a table names may be called now."""

# pathlib takes a minute where a hundred thousand files lie.
# ruff: noqa: PTH118, PTH122

import os
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from utils.audio.suffixes import AUDIO_SUFFIXES
from utils.dataset.formats.audio_names import FOLDERS
from utils.dataset.formats.listing import Listing, composed, real_path

TEXTS = (".txt", ".normalized.txt", ".original.txt", ".lab")
"""What is put after a recording's name for its text file; the second is LibriTTS's."""
_LONG_STEM = 140
"""Bytes from which a browser or a page may have cut a name."""


def renamed(folder: Path, name: str, files: Listing, taken: set[Path]) -> list[Path]:
    """The recordings that may be what a row names, though they have lost signs, case, their end or their ending.

    Browsers and pages clean the names of uploads; other systems change them, and recordings are converted. Only letters
    and digits are compared; a recording with the row's own ending is preferred.

    Args:
        folder: where the table lies.
        name: as the table writes it.
        files: what lies there.
        taken: recordings that rows name as they are.
    """
    written, ending = _key(name.replace("\\", "/").rsplit("/", 1)[-1])
    if not written:
        return []
    found, converted = list[Path](), list[Path]()
    for part in FOLDERS:
        for path in (folder.absolute() / part / other for other in files.names(os.path.join(folder.absolute(), part))):
            stem, other_ending = _key(path.name)
            is_cut = len(os.fsencode(path.stem)) >= _LONG_STEM and written.startswith(stem)
            if (stem == written or is_cut) and other_ending and path not in taken:
                (found if ending in ("", other_ending) else converted).append(path)
    return by_name(found or converted)


def find_text(audio: Path, files: Listing) -> Path:
    """The text file beside a recording, whichever way its name writes accents and its ending; need not exist."""
    names = files.by_stem(str(audio.parent), (".txt", ".lab")).get(composed(audio.stem), [])
    endings = {composed(name).removeprefix(composed(audio.stem)).lower(): name for name in names}
    found = (audio.with_name(endings[ending]) for ending in TEXTS if ending in endings)
    return next((path for path in found if files.is_file(str(path))), audio.with_suffix(TEXTS[0]))


def is_inside(path: Path, folder: Path, files: Listing) -> bool:
    """Whether the file really lies below the folder: `..` and symbolic links are followed.

    A link to another folder counts as a part of this one when it lies in it directly: the user who gives the folder put
    it there, often because the recordings are on another disk. What lies behind it must not lead out of it again.
    """
    given = folder.absolute()
    real, top = files.real(path), files.real_folder(str(given))
    if real is None or top is None:
        return False
    if real == top or real.startswith(os.path.join(top, "")):
        return True
    if ".." in path.parts or not path.is_relative_to(given) or path == given:
        return False
    link = given / path.relative_to(given).parts[0]
    return _is_linked_folder(link, given) and Path(real).is_relative_to(link.resolve())


def files_in(folder: Path, suffixes: tuple[str, ...] | None, files: Listing) -> list[Path]:
    """Absolute paths of a folder's files with these endings or any, by name, with subfolders, without hidden files.

    Links to folders are followed only where `is_inside` trusts them.
    """
    return by_name(Path(path) for path in _named(folder.absolute(), suffixes, files) if files.is_file(path))


def no_files_in(folder: Path, files: Listing) -> list[Path]:
    """What in a folder is neither a file nor a folder, by name: broken links, pipes, devices; see `files_in`."""
    named = (path for path in _named(folder.absolute(), None, files) if not files.is_file(path))
    return by_name(path for path in map(Path, named) if not path.is_dir())


def stem(path: Path) -> str:
    """The path without its ending, its accents composed (NFC): the same for files that belong together."""
    return composed(os.path.splitext(str(path))[0])


def stems(path: Path) -> set[str]:
    """What a recording of the same name may be called: film.en.srt goes with film.mp4."""
    return {stem(path), stem(Path(stem(path)))}


def printable(name: Path | str) -> str:
    """A name as text that any file can hold: bytes that are not UTF-8 become \\xe9."""
    return str(name).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _named(given: Path, suffixes: tuple[str, ...] | None, files: Listing) -> Iterator[str]:
    """Paths of all that has one of these endings and is no folder."""
    top = str(given)
    linked = [os.path.join(top, name) for name in files.links(top) if _is_linked_folder(given / name, given)]
    waiting = [top, *linked]
    while waiting:
        folder = waiting.pop()
        for name in files.names(folder):
            if suffixes is None or os.path.splitext(name)[1].lower() in suffixes:
                yield os.path.join(folder, name)
        waiting += [os.path.join(folder, name) for name in files.folders(folder)]


def by_name(paths: Iterable[Path]) -> list[Path]:
    """Paths in their order, folder by folder, as they compare but without a comparison in Python for each pair."""
    return sorted(paths, key=lambda path: path.parts)


def _is_linked_folder(link: Path, folder: Path) -> bool:
    """Whether it is a link to a folder elsewhere: one to a parent would make everything a part of this folder."""
    target = real_path(link)
    if target is None or not link.is_symlink() or not target.is_dir():
        return False
    return not target.is_relative_to(folder.resolve()) and not folder.resolve().is_relative_to(target)


def _key(name: str) -> tuple[str, str]:
    """Letters and digits of a file's name, and its ending; both in one case."""
    root, ending = os.path.splitext(name)
    if ending.lower() not in AUDIO_SUFFIXES:
        root, ending = name, ""
    plain = unicodedata.normalize("NFKC", root).casefold()
    return "".join(filter(str.isalnum, plain)), ending.lower()
