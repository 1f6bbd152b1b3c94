"""Clip lists on disk: one that was made is found again, as long as nothing that it was made of has changed.

They lie beside the codes in lists/KEY-NUMBER/, with a folder of columns for each manifest. The key says of which
manifests and settings, about.json of which state of the files. A list is never changed once it has its name.
"""

import hashlib
import importlib.metadata
import json
import logging
import os
import secrets
import shutil
import sys
import time
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from utils import text
from utils.dataset.storage.stamps import is_settled, stamp
from utils.files import file_hash
from utils.training.data.audio_files import file_stamp
from utils.training.data.clip_list import ABOUT_FILE, STAMP, ClipList
from utils.training.data.codes import CodeCache
from utils.training.data.many import in_ranges

log = logging.getLogger(__name__)

PARTS = ("train", "evaluate")
"""Folder of each manifest's columns."""
_FORMAT = 2
_KEPT = 4
"""Lists of other settings that are kept."""
_UNFINISHED = ".making-"
_UNFINISHED_S = 24 * 3_600
"""Age after which what a kill left is removed."""
_PACKAGES = ("tokenizers", "coqui-tts", "num2words", "pypinyin", "cutlet", "unidic-lite", "hangul-romanize", "spacy")
"""Whose versions may change how a text is read."""
_ROWS_A_TASK = 100_000
_WORTH_PROCESSES = 2_000_000
"""Fewer recordings are looked at sooner than processes start."""


def list_key(facts: dict[str, Any], vocab: Path) -> str:
    """16 hex digits of what a list is made of: the settings given, the vocabulary, and this program's way of reading.

    Args:
        facts: JSON values.
        vocab: the tokenizer's file.
    """
    sources = sorted(Path(text.__file__).parent.rglob("*.py"))
    facts = facts | {
        "format": _FORMAT,
        "vocab": file_hash(vocab),
        "code": [file_hash(path) for path in sources],
        "packages": [_version(name) for name in _PACKAGES],
        "python": [*sys.version_info[:3], unicodedata.unidata_version],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def find_list(root: Path, key: str, csvs: Sequence[Path], cache: CodeCache) -> Path | None:
    """The list that was made of these manifests, if they and all their recordings are what they were; None otherwise.

    Args:
        root: where lists are kept.
        key: of `list_key`.
        csvs: manifests, as they are named in the key.
        cache: of the codes.
    """
    for folder in sorted(root.glob(f"{key}-*"), reverse=True):
        try:
            if _is_current(folder, csvs, cache):
                os.utime(folder)
                return folder
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.debug("the clip list %s is made anew: %s", folder, error)
    return None


@contextmanager
def new_list(root: Path, key: str) -> Iterator[Path]:
    """A folder to make a list in; it gets its name when about.json is in it at the end, and others' room is freed.

    Raises:
        OSError: the disk is full or not writable.
    """
    root.mkdir(parents=True, exist_ok=True)
    _tidy(root, key)
    making = root / f"{_UNFINISHED}{secrets.token_hex(4)}"
    making.mkdir()
    try:
        yield making
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def finish_list(making: Path, key: str, about: dict[str, Any]) -> Path:
    """Give a list its name.

    Args:
        making: of `new_list`.
        key: of `list_key`.
        about: JSON values: those of `csv_state`, `cache` (the identity of the code cache), and others.

    Raises:
        OSError: the disk is full or not writable.
    """
    (making / ABOUT_FILE).write_text(json.dumps(about), encoding="ascii")
    return making.rename(making.parent / f"{key}-{time.time_ns():020d}")


def about_list(folder: Path) -> dict[str, Any]:
    """What `finish_list` was given.

    Raises:
        OSError, ValueError: it is not there, or damaged.
    """
    about: dict[str, Any] = json.loads((folder / ABOUT_FILE).read_text(encoding="ascii"))
    return about


def csv_state(csvs: Sequence[Path], now_ns: int) -> dict[str, Any]:
    """Stamps of the manifests, to be taken before they are read; who reads them says what is wrong with them."""
    try:
        stamps = [stamp(csv) for csv in csvs]
    except OSError as error:
        log.debug("a manifest cannot be asked for its state: %s", error)
        return {"stamps": [], "settled": False}
    return {"stamps": stamps, "settled": all(is_settled(one, now_ns) for one in stamps)}


def _is_current(folder: Path, csvs: Sequence[Path], cache: CodeCache) -> bool:
    about = about_list(folder)
    if not about["settled"] or about["stamps"] != [stamp(csv) for csv in csvs] or about["cache"] != cache.identity():
        return False
    parts = ((folder / name, ClipList.open(folder / name, cache.file)) for name in PARTS)
    return all(_is_part_current(clips, place, cache.file) for place, clips in parts)


def _is_part_current(clips: ClipList, folder: Path, codes: Path) -> bool:
    if not clips.is_whole or not clips.columns["settled"].all():
        return False
    num_rows = len(clips.columns["folders"])
    found = in_ranges(
        partial(_are_same, folder, codes),
        num_rows,
        rows_a_task=_ROWS_A_TASK,
        in_processes=num_rows >= _WORTH_PROCESSES,
    )
    return all(is_same for _, is_same in found)


def _are_same(folder: Path, codes: Path, tasks: Sequence[range]) -> list[bool]:
    """Whether the recordings of rows have the stamps they had, in whichever process."""
    clips = ClipList.open(folder, codes)
    stamps = clips.columns["stamps"].reshape(-1, STAMP)
    answers = []
    for rows in tasks:
        now = array("q")
        for path in clips.paths(rows):
            now.extend(file_stamp(path))
        answers.append(bool((np.array(now).reshape(-1, STAMP) == stamps[rows.start : rows.stop]).all()))
    return answers


def _tidy(root: Path, key: str) -> None:
    """Remove what is of no use any more; what another process has mapped stays readable to it."""
    complete = sorted((path for path in root.glob("*-*") if path.name[0] != "."), key=lambda path: path.stat().st_mtime)
    own = [path for path in complete if path.name.startswith(f"{key}-")]
    others = [path for path in complete if path not in own]
    old = time.time() - _UNFINISHED_S
    left = []
    for path in root.glob(f"{_UNFINISHED}*"):
        with suppress(OSError):
            left += [path] if path.stat().st_mtime < old else []
    for path in [*own, *others[:-_KEPT], *left]:
        shutil.rmtree(path, ignore_errors=True)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
