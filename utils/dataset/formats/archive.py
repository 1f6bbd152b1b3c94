"""Unpack a zip of recordings safely: nothing leaves its folder or fills the disk or memory.

Files go to `<project>/sources/<zip's name>-<hash>/`, named by the archive's content, so each is unpacked only once.
"""

import re
import shutil
import stat
import unicodedata
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from utils.audio.suffixes import AUDIO_SUFFIXES
from utils.dataset.formats.cues import SUBTITLE_SUFFIXES
from utils.dataset.formats.readers import TABLES
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
_WANTED = (*AUDIO_SUFFIXES, *SUBTITLE_SUFFIXES, *TABLES, ".zip")
_BAD_CHARACTERS = re.compile(r'[<>:"|?*\x00-\x1f]')


def unpack(path: Path, into: Path) -> Path:
    """The folder with an archive's recordings, texts and tables; other members are left in it.

    Args:
        path: a zip.
        into: folder for what is unpacked; made when needed.

    Raises:
        UserError: it is no zip, is damaged or encrypted, names files outside itself, holds links, is built to fill the
            disk, or there is no room for it.
    """
    stem = re.sub(r"[^\w-]+", "_", path.stem)[:40]
    target = into / f"{stem}-{file_hash(path)[:16]}"
    if target.is_dir():
        return target
    try:
        with zipfile.ZipFile(path) as archive:
            members = _check(path, archive)
            into.mkdir(parents=True, exist_ok=True)
            check_room(path, into, sum(member.file_size for member in members))
            unfinished = into / f".{target.name}"
            shutil.rmtree(unfinished, ignore_errors=True)
            try:
                for member in members:
                    _extract(path, archive, member, unfinished)
                unfinished.mkdir(exist_ok=True)
                unfinished.rename(target)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise refused(path, f"cannot be unpacked: {error}") from error
    return target


def _check(path: Path, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The members to unpack.

    Raises:
        UserError: one of them shows that the archive is not what it should be.
    """
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise refused(path, f"holds {len(members)} files, more than {MAX_MEMBERS}")
    for member in members:
        check_name(path, member.filename)
        if stat.S_ISLNK(member.external_attr >> 16):
            raise refused(path, f"holds a link: {member.filename!r}")
        if member.flag_bits & 1:
            raise refused(path, "is encrypted")
    total, packed = sum(member.file_size for member in members), sum(member.compress_size for member in members)
    if total > MAX_BYTES:
        raise refused(path, f"unpacks to {total / 2**30:.0f} GB, more than {MAX_BYTES / 2**30:.0f}")
    if total > _SMALL and total > MAX_RATIO * max(1, packed):
        raise refused(path, f"unpacks to {total / max(1, packed):.0f} times its size, more than {MAX_RATIO}")
    wanted = [m for m in members if not m.is_dir() and PurePosixPath(m.filename).suffix.lower() in _WANTED]
    names = {inside(member.filename).as_posix().casefold() for member in wanted}
    if len(names) < len(wanted):
        raise refused(path, "holds two files of the same name")
    # What a Mac adds to archives: __MACOSX/._take1.wav holds no sound.
    paths = [(member, PurePosixPath(member.filename)) for member in wanted]
    return [member for member, path in paths if "__MACOSX" not in path.parts and not path.name.startswith("._")]


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


def _extract(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> None:
    target = folder / inside(member.filename)
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with archive.open(member) as source, target.open("xb") as file:
        # The size that an archive declares may be a lie: what comes out is counted.
        while block := source.read(_BLOCK):
            written += len(block)
            if written > member.file_size:
                raise refused(path, f"holds more than it declares in {member.filename!r}")
            file.write(block)


def check_room(path: Path, folder: Path, needed: int) -> None:
    """Do nothing where a folder's disk has room for so many bytes.

    Raises:
        UserError: it has not.
    """
    free = shutil.disk_usage(folder).free
    if needed > free - _KEPT_FREE:
        what = f"unpacks to {needed / 2**30:.1f} GB, but the disk has {free / 2**30:.1f} GB left"
        raise refused(path, what, fix="free some space and run again")


def refused(path: Path, what: str, *, fix: str = "unpack it yourself and use the folder, or remove it") -> UserError:
    """The error for an archive that is not unpacked; `what` continues the sentence that its name begins."""
    return UserError(what=f"{path.name} {what}", where=str(path), fix=fix)
