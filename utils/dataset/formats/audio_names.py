"""Find the recording that a table names, by the paths under which it may lie."""

# pathlib takes a minute where a hundred thousand files lie.
# ruff: noqa: PTH118, PTH122

import os
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

from utils.audio.suffixes import AUDIO_SUFFIXES

WAVS = "wavs"
FOLDERS = ("", WAVS, "clips", "audio", "wav")
"""Folders beside a table where its recordings may lie: wavs in LJSpeech, clips in Common Voice."""


def find_audio(folder: Path, name: str, is_file: Callable[[str], bool]) -> Path:
    """The recording a row names: beside the table or in wavs/, with or without its file name ending.

    Args:
        folder: where the table lies.
        name: file name or path as the table writes it; Windows separators are understood, and accents that a Mac
            wrote as characters of their own (NFD) where the table has them composed (NFC), or the other way round.
        is_file: whether there is a file of this path.

    Returns:
        Absolute path of the first candidate that exists; of the name as written when none does. Of a path of another
        computer the last parts are looked up.
    """
    found = next(filter(is_file, _candidates(str(folder.absolute()), name)), None)
    return folder.absolute() / name if found is None else Path(found)


def tried(name: str) -> str:
    """Where `find_audio` looks for a recording, in words."""
    shown = dict.fromkeys(os.path.join(*pair) for pair in _places(name))
    return ", ".join(list(shown)[:6]) + (f" and {len(shown) - 6} more places" if len(shown) > 6 else "")


def spellings(name: str) -> tuple[str, ...]:
    """The name as it is, and with its accents composed and taken apart."""
    if name.isascii():
        return (name,)
    return tuple(dict.fromkeys((name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name))))


def _candidates(folder: str, name: str) -> Iterator[str]:
    for part, written in _places(name):
        path = os.path.join(folder, part, written)
        yield path
        if os.path.splitext(written)[1].lower() not in AUDIO_SUFFIXES:
            yield from (f"{path}{suffix}" for suffix in AUDIO_SUFFIXES)


def _places(name: str) -> Iterator[tuple[str, str]]:
    """Folders below that of the table, and what the recording may be called in them, the likeliest first."""
    plain = name.replace("\\", "/")
    names = dict.fromkeys((*spellings(name), *spellings(plain)))
    yield from ((part, written) for part in FOLDERS[:2] for written in names)
    parts = [part for part in plain.split("/") if part not in ("", ".", "..")]
    for start in range(len(parts)):
        tails = spellings("/".join(parts[start:]))
        yield from ((part, written) for part in FOLDERS for written in tails)
