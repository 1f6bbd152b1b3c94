"""Verify bases that list their own files; a changed file is refused.

about.json of such a base holds {"format": 2, "files": {name: sha256}}. In format 1 no weights were in 8 bits. The
starter is one, and each grown base.
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from utils.errors import UserError
from utils.files import file_hash

FORMAT = 2
"""Newest layout of a packed base that this version reads."""
ABOUT_FILE = "about.json"
GROWN = "grown"
"""`kind` of a base that was made from another one; its DVAE is the other's, unless it has one of its own."""
GROWN_NEEDED = {"model.safetensors", "config.json", "vocab.json"}
NEEDED = GROWN_NEEDED | {"dvae.safetensors", "mel_stats.pth"}
"""What a packed base consists of at least."""
REMEDY = "restore it from the repository (git checkout -- assets), or make it again: make starter"
GROWN_REMEDY = (
    "restore it from a copy, or remove the folder and make the base again (docs/languages.md); "
    "one below dataset/ is made again by the next training"
)


def write_about(folder: Path, about: dict[str, Any]) -> None:
    """Write about.json with the hashes of all other files of the folder; it must be written last."""
    files = {path.name: sha256(path) for path in sorted(folder.iterdir()) if path.name != ABOUT_FILE}
    text = json.dumps({**about, "format": FORMAT, "files": files}, indent=2, ensure_ascii=False)
    (folder / ABOUT_FILE).write_text(text + "\n", encoding="utf-8")


def check_files(folder: Path, about: dict[str, Any], *, must_list: bool = False) -> None:
    """Compare the folder's files with the list in its about.json.

    Args:
        folder: of the base.
        about: content of its about.json, empty when there is none.
        must_list: a base that is known to have a list; another one without it is not checked.

    Raises:
        UserError: a file is missing or changed, the list is no list, or the layout is newer than this version.
    """
    where, is_grown = str(folder / ABOUT_FILE), about.get("kind") == GROWN
    needed, remedy = (GROWN_NEEDED, GROWN_REMEDY) if is_grown else (NEEDED, REMEDY)
    if "files" not in about:
        if must_list:
            raise UserError(what="the base's list of its files is missing", where=where, fix=REMEDY)
        return
    if about.get("format") not in range(1, FORMAT + 1):
        raise UserError(
            what=f"this base has layout {about.get('format')!r}; this version reads 1 to {FORMAT}",
            where=where,
            fix="update the studio, or use another base",
        )
    files = about["files"]
    # A name that leads out of the folder would read any file of the machine.
    if not isinstance(files, dict) or not files.keys() >= needed or not all(Path(name).name == name for name in files):
        raise UserError(what="about.json has no usable list of files", where=where, fix=remedy)
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            raise UserError(what=f"{name} is missing from the base", where=str(path), fix=remedy)
        if sha256(path) != expected:
            made = "made" if is_grown else "packed"
            raise UserError(what=f"{name} is not the file that this base was {made} with", where=str(path), fix=remedy)


def sha256(path: Path) -> str:
    """Hash of a file's content, in hex; read again only when the file changed."""
    found = path.stat()
    return _sha256(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@lru_cache(maxsize=64)
def _sha256(path: Path, size: int, mtime_ns: int, ctime_ns: int) -> str:
    """A grown XTTS v2 base has 1.9 GB, and who speaks asks for it with every request."""
    return file_hash(path)
