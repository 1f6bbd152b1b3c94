"""List folders, each read once, because a hundred thousand separate file checks take longer; say what files are."""

# os.path takes seconds where a hundred thousand files lie, pathlib a minute.
# ruff: noqa: PTH112, PTH113, PTH114, PTH118, PTH122

import codecs
import mimetypes
import os
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from utils.audio.container import has_sound

_FILE, _FOLDER, _LINK = 1, 2, 4


class Listing:
    """Answers about many files of few folders; what changes after a folder was read is not noticed."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, int] | None] = {}
        self._alike: dict[str, frozenset[str]] = {}
        self._real: dict[str, str | None] = {}
        self._stems: dict[tuple[str, tuple[str, ...]], dict[str, list[str]]] = {}

    def is_file(self, path: str) -> bool:
        """As `os.path.isfile`: links are followed, and a name that no file can have is none."""
        return bool(self._kind(path) & _FILE)

    def is_link(self, path: str) -> bool:
        """As `os.path.islink`."""
        return bool(self._kind(path) & _LINK)

    def entries(self, folder: str) -> dict[str, int]:
        """What lies in a folder, by name, in no order; nothing where it cannot be read."""
        return self._read(folder) or {}

    def names(self, folder: str) -> Iterator[str]:
        """Names of what lies in a folder and is no folder, without hidden ones."""
        return (name for name, kind in self.entries(folder).items() if not kind & _FOLDER and name[0] != ".")

    def folders(self, folder: str) -> Iterator[str]:
        """Names of the folders in a folder that are no links, without hidden ones."""
        return (name for name, kind in self.entries(folder).items() if kind == _FOLDER and name[0] != ".")

    def links(self, folder: str) -> Iterator[str]:
        """Names of the links in a folder, wherever they lead, without hidden ones."""
        return (name for name, kind in self.entries(folder).items() if kind & _LINK and name[0] != ".")

    def real(self, path: Path) -> str | None:
        """The path with links followed; None when they lead nowhere."""
        folder, name = os.path.split(str(path))
        if name in ("", ".", "..") or self._kind_in(folder, name) & _LINK:
            return _text(real_path(path))
        real = self.real_folder(folder)
        return None if real is None else os.path.join(real, name)

    def real_folder(self, folder: str) -> str | None:
        """The same of a folder, which is looked up once."""
        if folder not in self._real:
            self._real[folder] = _text(real_path(Path(folder)))
        return self._real[folder]

    def by_stem(self, folder: str, suffixes: tuple[str, ...]) -> dict[str, list[str]]:
        """Names with these endings in a folder, by their stem and by what is left of it without another ending."""
        key = (folder, suffixes)
        if key not in self._stems:
            found: defaultdict[str, list[str]] = defaultdict(list)
            for name in sorted(self.names(folder)):
                root, ending = os.path.splitext(name)
                if ending.lower() in suffixes:
                    for one in {root, os.path.splitext(root)[0]}:
                        found[composed(one)].append(name)
            self._stems[key] = dict(found)
        return self._stems[key]

    def _kind(self, path: str) -> int:
        return self._kind_in(*os.path.split(path))

    def _kind_in(self, folder: str, name: str) -> int:
        entries = self._read(folder)
        if entries is None or name in ("", ".", ".."):
            return _ask(os.path.join(folder, name))
        if name in entries:
            return entries[name]
        # Some systems take names for the same that differ in capitals or in how accents are written: they are asked.
        if folder not in self._alike:
            self._alike[folder] = frozenset(map(_folded, entries))
        is_alike = os.name == "nt" or _folded(name) in self._alike[folder]
        return _ask(os.path.join(folder, name)) if is_alike else 0

    def _read(self, folder: str) -> dict[str, int] | None:
        if folder not in self._folders:
            self._folders[folder] = _entries(folder)
        return self._folders[folder]


def real_path(path: Path) -> Path | None:
    """The path with links followed; None when they lead nowhere, such as a link to itself."""
    try:
        return path.resolve()
    # A loop of links is a RuntimeError up to Python 3.12.
    except (OSError, RuntimeError):
        return None


def composed(name: str) -> str:
    """The name with accents composed (NFC), to compare names that different systems wrote."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _entries(folder: str) -> dict[str, int] | None:
    """Kinds of all that lies in a folder, by name; None where it cannot be listed, though its files may be readable."""
    try:
        with os.scandir(folder or os.curdir) as found:
            return {entry.name: _kind_of(entry) for entry in found}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    # ValueError: a name with a NUL.
    except (OSError, ValueError):
        return None


def _kind_of(entry: "os.DirEntry[str]") -> int:
    try:
        kind = _FILE if entry.is_file() else _FOLDER if entry.is_dir() else 0
    except OSError:
        # A link to itself.
        kind = 0
    return kind | (_LINK if entry.is_symlink() else 0)


def _ask(path: str) -> int:
    kind = _FILE if os.path.isfile(path) else _FOLDER if os.path.isdir(path) else 0
    return kind | (_LINK if os.path.islink(path) else 0)


def _folded(name: str) -> str:
    return composed(name).casefold()


_MAGIC = {
    b"\xff\xd8\xff": "image",
    b"\x89PNG": "image",
    b"GIF8": "image",
    b"%PDF": "PDF",
    b"PK\x03\x04": "archive or document",
    b"Rar!": "archive",
    b"7z\xbc\xaf": "archive",
    b"\x1f\x8b": "archive",
    b"\x7fELF": "program",
    b"MZ": "program",
}
SOUND = "recording"


def kind_of(path: Path) -> str:
    """`SOUND`, or another kind of file in words."""
    try:
        with path.open("rb") as file:
            head = file.read(4_096)
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    if not head:
        return "empty"
    known = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")
    if known:
        return known
    if _is_text(head):
        return "text"
    if has_sound(path):
        return SOUND
    guessed = (mimetypes.guess_type(path.name)[0] or "").split("/")[0]
    return "film without sound" if guessed == "video" else guessed if guessed in ("image", "font") else "unknown"


def _is_text(head: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char in "\t\r\n\f\ufeff" for char in text)
