"""Hugging Face datasets (Parquet files, saved folders), unpacked to folders with a metadata.jsonl.

A folder is `<project>/sources/<name>-<hash>/`, named by the content, so each corpus is unpacked once; from there on it
is read like any folder.
"""

import json
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from utils.dataset.formats.archive import inside, refused, unfinished, unpacked_folder
from utils.dataset.formats.jsonl import words_of
from utils.errors import UserError
from utils.files import file_hash

TABLE = "metadata.jsonl"
SAVED_FILE = "dataset_info.json"
"""In a folder that `datasets` saved, or in those of its parts."""
_HEADS = {b"RIFF": ".wav", b"fLaC": ".flac", b"OggS": ".ogg", b"ID3": ".mp3", b"\xff": ".mp3"}


def is_corpus(path: Path) -> bool:
    """Whether it is a Parquet file or a folder that Hugging Face `datasets` saved."""
    if path.is_dir():
        return (path / SAVED_FILE).is_file() or (path / "dataset_dict.json").is_file()
    return path.is_file() and path.suffix.lower() == ".parquet"


def corpora_in(folder: Path) -> list[Path]:
    """The Parquet files directly in a folder, by name."""
    return sorted(path for path in folder.iterdir() if path.is_file() and is_corpus(path) and path.name[0] != ".")


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
