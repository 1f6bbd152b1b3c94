"""Corpora as others publish them (WebDataset tars, Hugging Face datasets), to folders with a metadata.jsonl.

A folder is `<project>/sources/<name>-<hash>/`, named by the content, so each corpus is unpacked once; from there on it
is read like any folder.
"""

import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from utils.audio.decode import AUDIO_SUFFIXES
from utils.dataset.formats.archive import MAX_MEMBERS, check_name, check_room, inside, refused
from utils.dataset.formats.jsonl import words_of
from utils.errors import UserError
from utils.files import file_hash

TABLE = "metadata.jsonl"
SAVED_FILE = "dataset_info.json"
"""In a folder that `datasets` saved, or in those of its parts."""
_TEXTS = (".txt", ".text", ".transcript")
_MAX_TEXT_BYTES = 2**20
_HEADS = {b"RIFF": ".wav", b"fLaC": ".flac", b"OggS": ".ogg", b"ID3": ".mp3", b"\xff": ".mp3"}


def is_corpus(path: Path) -> bool:
    """Whether it is a WebDataset tar, a Parquet file, or a folder that Hugging Face `datasets` saved."""
    if path.is_dir():
        return _is_saved(path)
    return path.is_file() and path.suffix.lower() in (".tar", ".parquet")


def corpora_in(folder: Path) -> list[Path]:
    """The tars and Parquet files directly in a folder, by name."""
    return sorted(path for path in folder.iterdir() if path.is_file() and is_corpus(path) and path.name[0] != ".")


def unpack_corpus(path: Path, into: Path) -> Path:
    """The folder with a corpus's recordings and their texts.

    Args:
        path: for which `is_corpus` holds.
        into: folder for what is unpacked; made when needed.

    Raises:
        UserError: it is damaged, unsafe or too large, has no text, or the package that reads it is not installed.
    """
    write = _write_webdataset if path.suffix.lower() == ".tar" else _write_huggingface
    if write is _write_huggingface:
        _require_datasets()
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    content = sha256("".join(map(file_hash, files)).encode()).hexdigest()
    stem = re.sub(r"[^\w-]+", "_", path.stem)[:40]
    target = into / f"{stem}-{content[:16]}"
    if target.is_dir():
        return target
    into.mkdir(parents=True, exist_ok=True)
    check_room(path, into, sum(file.stat().st_size for file in files))
    unfinished = into / f".{target.name}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        rows = write(path, unfinished)
        if not any(row.text for row in rows):
            raise refused(path, "has no recordings with text", fix="give a folder, or a table that names recordings")
        lines = [json.dumps(row.values(), ensure_ascii=False) + "\n" for row in rows]
        (unfinished / TABLE).write_text("".join(lines), encoding="utf-8")
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


@dataclass
class _Row:
    audio: str = ""
    text: str = ""
    speaker: str = ""

    def values(self) -> dict[str, str]:
        found = {"audio_file": self.audio, "text": self.text, "speaker_name": self.speaker}
        return {name: value for name, value in found.items() if value}


def _write_webdataset(path: Path, folder: Path) -> list[_Row]:
    """Unpack the recordings of a tar; the files of a sample share their name up to its first dot.

    Raises:
        UserError: as `unpack_corpus`.
    """
    rows: dict[str, _Row] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for number, member in enumerate(tar):
                if number >= MAX_MEMBERS:
                    raise refused(path, f"holds more than {MAX_MEMBERS} files")
                check_name(path, member.name)
                if member.isdir():
                    continue
                if not member.isfile() or member.issparse():
                    raise refused(path, f"holds a link, a device or a sparse file: {member.name!r}")
                name = PurePosixPath(member.name)
                if name.name.startswith("."):
                    continue
                _add_member(
                    path, tar, member, rows.setdefault(str(name.parent / name.name.split(".")[0]), _Row()), folder
                )
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise refused(path, f"cannot be unpacked: {error}") from error
    return [row for row in rows.values() if row.audio or row.text]


def _add_member(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo, row: _Row, folder: Path) -> None:
    kind = PurePosixPath(member.name).suffix.lower()
    data = tar.extractfile(member)
    assert data is not None, "checked to be a file"
    if kind in AUDIO_SUFFIXES and not row.audio:
        target = folder / inside(member.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("xb") as file:
                shutil.copyfileobj(data, file)
        except FileExistsError as error:
            raise refused(path, f"holds two files of the name {member.name!r}") from error
        row.audio = target.relative_to(folder).as_posix()
    elif kind in (*_TEXTS, ".json") and member.size <= _MAX_TEXT_BYTES:
        try:
            text = data.read().decode("utf-8-sig")
            values = json.loads(text) if kind == ".json" else {"text": text}
        except ValueError:
            return  # a recording without text is reported
        if isinstance(values, dict):
            said, speaker = words_of(values)
            row.text, row.speaker = row.text or said, row.speaker or speaker


def _require_datasets() -> None:
    if find_spec("datasets") is None:
        raise UserError(
            what="reading a Hugging Face dataset needs the package datasets, which is not installed",
            where="input",
            fix="pip install -r requirements-huggingface.txt -c requirements.lock",
        )


def _is_saved(folder: Path) -> bool:
    return (folder / SAVED_FILE).is_file() or (folder / "dataset_dict.json").is_file()


def _write_huggingface(path: Path, folder: Path) -> list[_Row]:
    """Unpack the recordings of a Parquet file or a saved dataset.

    Raises:
        UserError: as `unpack_corpus`.
    """
    rows, taken = list[_Row](), set[str]()
    for values in _samples(path):
        sound = next((value for value in values.values() if isinstance(value, dict) and value.get("bytes")), None)
        text, speaker = words_of({name: value for name, value in values.items() if not isinstance(value, dict)})
        rows.append(_Row(text=text, speaker=speaker))
        if sound is not None:  # a row without a file is reported
            rows[-1].audio = _sound_name(sound, len(rows), taken)
            (folder / rows[-1].audio).write_bytes(sound["bytes"])
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
