"""Unpack a zip of recordings safely: nothing leaves its folder or fills the disk or memory; and Hugging Face datasets.

Files go to `<project>/sources/<name>-<hash>/`, named by the content, so each is unpacked only once. A dataset (Parquet
files, a saved folder) becomes a folder with a metadata.jsonl, which is read like any other.
"""

import json
import re
import shutil
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from utils.dataset.formats.readers import TABLES, words_of
from utils.errors import UserError
from utils.files import file_hash
from utils.project.paths import unreserved

MAX_MEMBERS = 300_000
MAX_BYTES = 500 * 2**30
MAX_RATIO = 200
"""Sound and text shrink to a tenth, silence to a hundredth; what shrinks more is made to do harm."""
_SMALL = 10 * 2**20
"""Below this an archive may shrink as it likes."""
_KEPT_FREE = 2**30
_BLOCK = 2**20
_UTF8_FLAG = 0x800
_OLD_PAGE = "cp437"
"""IBM's, which zipfile takes names for that do not say what they are in."""
_PAGES = "cp866 cp1251 cp932 gbk big5 cp949 cp850 cp852 cp1252 cp1250 cp1256 cp857"
_CODE_PAGES = _PAGES.split()
"""Of Russian, Japanese, Chinese, Korean and other systems, which write names without saying how."""
_TABLE_BYTES = 64 * 2**20
_BAD_CHARACTERS = re.compile(r'[<>:"|?*\x00-\x1f]')


def unpack(path: Path, into: Path, notes: list[str] | None = None) -> Path:
    """The folder with all files of an archive, under the names that its tables have.

    Args:
        path: a zip.
        into: folder for what is unpacked; made when needed.
        notes: gets a word about names that had to be guessed.

    Raises:
        UserError: it is no zip, is damaged or encrypted, names files outside itself, holds links, is built to fill the
            disk, or there is no room for it.
    """
    target = unpacked_folder(path, into, file_hash(path))
    try:
        with zipfile.ZipFile(path) as archive:
            names = _names(archive, [] if notes is None else notes, path.name)
            # Earlier versions left some files in the archive, or had other names for them.
            members = [m for m in _check(path, archive, names) if not (target / inside(names[m.filename])).is_file()]
            if target.is_dir() and not members:
                return target
            with unfinished(path, target, sum(member.file_size for member in members)) as folder:
                for member in members:
                    _extract(path, archive, member, folder / inside(names[member.filename]))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise refused(path, f"cannot be unpacked: {error}") from error
    return target


def unpacked_folder(path: Path, into: Path, content: str) -> Path:
    """Where the files of an archive or corpus of this content lie, in the folder given."""
    stem = re.sub(r"[^\w-]+", "_", path.stem)[:40]
    return into / f"{stem}-{content[:16]}"


@contextmanager
def unfinished(path: Path, target: Path, needed: int) -> Iterator[Path]:
    """A folder to unpack into: when the block ends well its files are in `target`, else nothing of it stays.

    Raises:
        UserError: the disk has no room for these bytes.
    """
    into = target.parent
    into.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(into).free
    if needed > free - _KEPT_FREE:
        what = f"unpacks to {needed / 2**30:.1f} GB, but the disk has {free / 2**30:.1f} GB left"
        raise refused(path, what, fix="free some space and run again")
    folder = into / f".{target.name}"
    # What a kill left.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
        if target.is_dir():
            shutil.copytree(folder, target, dirs_exist_ok=True)
        else:
            folder.rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _names(archive: zipfile.ZipFile, notes: list[str], shown: str) -> dict[str, str]:
    """What the members are called, by the names that zipfile gives them.

    A name without the UTF-8 flag is in the code page of its system: UTF-8 on Macs, else the one under which most of
    the names stand in the archive's tables.
    """
    members = archive.infolist()
    found = {member.filename: member.filename for member in members}
    strange = [m.filename for m in members if not m.flag_bits & _UTF8_FLAG and not m.filename.isascii()]
    if not strange:
        return found
    tables = [m for m in members if PurePosixPath(m.filename).suffix.lower() in TABLES and m.file_size < _TABLE_BYTES]
    content = b"\n".join(archive.read(member) for member in tables if not member.flag_bits & 1)

    def matching(page: str) -> int:
        """How many names stand in the tables; -1 where one cannot be in this code page."""
        try:
            names = [unicodedata.normalize("NFC", name.encode(_OLD_PAGE).decode(page)) for name in strange]
        except UnicodeDecodeError:
            return -1
        text = unicodedata.normalize("NFC", "\n".join(content.decode(each, "replace") for each in ("utf-8", page)))
        # The names of folders need not stand in a table.
        return sum(PurePosixPath(name).stem in text for name in names if not name.endswith("/"))

    best = "utf-8" if matching("utf-8") >= 0 else max(_CODE_PAGES, key=matching)
    if best != "utf-8" and matching(best) <= 0:
        tried = ", ".join(_CODE_PAGES)
        notes.append(f"{shown}: names such as {strange[0]!r} are not UTF-8; tried {tried}: none fits its tables")
        return found
    notes.append(f"{shown}: {len(strange)} names were read as {best}")
    return found | {name: name.encode(_OLD_PAGE).decode(best) for name in strange}


def _check(path: Path, archive: zipfile.ZipFile, names: dict[str, str]) -> list[zipfile.ZipInfo]:
    """The members to unpack.

    Raises:
        UserError: one of them shows that the archive is not what it should be.
    """
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise refused(path, f"holds {len(members)} files, more than {MAX_MEMBERS}")
    for member in members:
        check_name(path, names[member.filename])
        if stat.S_ISLNK(member.external_attr >> 16):
            raise refused(path, f"holds a link: {member.filename!r}")
        if member.flag_bits & 1:
            raise refused(path, "is encrypted")
    total, packed = sum(member.file_size for member in members), sum(member.compress_size for member in members)
    if total > MAX_BYTES:
        raise refused(path, f"unpacks to {total / 2**30:.0f} GB, more than {MAX_BYTES / 2**30:.0f}")
    if total > _SMALL and total > MAX_RATIO * max(1, packed):
        raise refused(path, f"unpacks to {total / max(1, packed):.0f} times its size, more than {MAX_RATIO}")
    # What a Mac adds to archives: __MACOSX/._take1.wav holds no sound.
    paths = [(member, PurePosixPath(member.filename)) for member in members if not member.is_dir()]
    wanted = [member for member, path in paths if "__MACOSX" not in path.parts and not path.name.startswith("._")]
    if len({inside(names[member.filename]).as_posix().casefold() for member in wanted}) < len(wanted):
        raise refused(path, "holds two files of the same name")
    return wanted


def check_name(path: Path, name: str) -> None:
    """Do nothing where an archive may name a file so.

    Raises:
        UserError: the name leads out of the archive.
    """
    plain = name.replace("\\", "/")
    if plain.startswith("/") or re.match(r"^[a-zA-Z]:", plain) or ".." in PurePosixPath(plain).parts or "\0" in plain:
        raise refused(path, f"names a file outside itself: {name!r}")


def inside(name: str) -> PurePosixPath:
    """A member's path as every system can have it."""
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("", ".")]
    # Windows drops dots and spaces at the end of names, and has a few names that no file can have.
    safe = [_BAD_CHARACTERS.sub("_", unicodedata.normalize("NFC", part)).rstrip(". ") or "_" for part in parts]
    return PurePosixPath(*map(unreserved, safe))


def _extract(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with archive.open(member) as source, target.open("xb") as file:
        # The size that an archive declares may be a lie: what comes out is counted.
        while block := source.read(_BLOCK):
            written += len(block)
            if written > member.file_size:
                raise refused(path, f"holds more than it declares in {member.filename!r}")
            file.write(block)


def refused(path: Path, what: str, *, fix: str = "unpack it yourself and use the folder, or remove it") -> UserError:
    """The error for an archive that is not unpacked; `what` continues the sentence that its name begins."""
    return UserError(what=f"{path.name} {what}", where=str(path), fix=fix)


TABLE = "metadata.jsonl"
SAVED_FILE = "dataset_info.json"
"""In a folder that `datasets` saved, or in those of its parts."""
_HEADS = {b"RIFF": ".wav", b"fLaC": ".flac", b"OggS": ".ogg", b"ID3": ".mp3", b"\xff": ".mp3"}


def is_corpus(path: Path) -> bool:
    """Whether it is a Parquet file or a folder that Hugging Face `datasets` saved."""
    if path.is_dir():
        return (path / SAVED_FILE).is_file() or (path / "dataset_dict.json").is_file()
    return path.is_file() and path.suffix.lower() == ".parquet"


def unpack_corpus(path: Path, into: Path) -> Path:
    """The folder with a corpus's recordings and their texts.

    Args:
        path: for which `is_corpus` holds.
        into: folder for what is unpacked; made when needed.

    Raises:
        UserError: it is damaged or too large, has no text, or the package that reads it is not installed.
    """
    if find_spec("datasets") is None:
        raise UserError(
            what="reading a Hugging Face dataset needs the package datasets, which is not installed",
            where="input",
            fix="pip install -r requirements-huggingface.txt -c requirements.lock",
        )
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    content = sha256("".join(map(file_hash, files)).encode()).hexdigest()
    target = unpacked_folder(path, into, content)
    if target.is_dir():
        return target
    with unfinished(path, target, sum(file.stat().st_size for file in files)) as folder:
        rows = _write_recordings(path, folder)
        if not any(row.get("text") for row in rows):
            raise refused(path, "has no recordings with text", fix="give a folder, or a table that names recordings")
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (folder / TABLE).write_text("".join(lines), encoding="utf-8")
    return target


def _write_recordings(path: Path, folder: Path) -> list[dict[str, str]]:
    """Unpack the recordings of a Parquet file or a saved dataset.

    Raises:
        UserError: as `unpack_corpus`.
    """
    rows, taken = list[dict[str, str]](), set[str]()
    for values in _samples(path):
        sound = next((value for value in values.values() if isinstance(value, dict) and value.get("bytes")), None)
        text, speaker = words_of({name: value for name, value in values.items() if not isinstance(value, dict)})
        name = ""
        if sound is not None:  # a row without a file is reported
            name = _sound_name(sound, len(rows) + 1, taken)
            (folder / name).write_bytes(sound["bytes"])
        row = {"audio_file": name, "text": text, "speaker_name": speaker}
        rows.append({column: value for column, value in row.items() if value})
    return rows


def _samples(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a dataset; sound is not decoded: {"bytes", "path"}.

    Raises:
        UserError: it cannot be read.
    """
    import datasets  # takes seconds

    try:
        if path.is_dir():
            saved = datasets.load_from_disk(str(path))
            parts = list(saved.values()) if isinstance(saved, datasets.DatasetDict) else [saved]
        else:
            parts = [datasets.load_dataset("parquet", data_files=[str(path)], split="train", streaming=True)]
        for part in parts:
            sounds = [name for name, kind in (part.features or {}).items() if isinstance(kind, datasets.Audio)]
            for name in sounds:
                part = part.cast_column(name, datasets.Audio(decode=False))
            yield from part
    except (OSError, ValueError, TypeError, datasets.exceptions.DatasetsError) as error:
        raise refused(path, f"cannot be read by the package datasets: {error}") from error


def _sound_name(sound: dict[str, Any], number: int, taken: set[str]) -> str:
    """A file name for a recording: its own, or its number where there is none or another has it."""
    head: bytes = sound["bytes"][:4]
    given = inside(PurePosixPath(str(sound.get("path") or "").replace("\\", "/")).name).name
    kind = next((kind for start, kind in _HEADS.items() if head.startswith(start)), Path(given).suffix or ".wav")
    name = f"{Path(given).stem}{kind}" if given and Path(given).stem else f"{number:08}{kind}"
    if name.casefold() in taken:
        name = f"{number:08}-{name}"
    taken.add(name.casefold())
    return name
