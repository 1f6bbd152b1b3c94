"""Cache finished results on disk by content, so that an interrupted preparation resumes.

The folder `dataset/.work` holds log.jsonl, append-only with one line {"key", "value"} for each result, and wavs/,
finished clips that are not yet in the dataset, named by their content. A torn last line is skipped. The folder can be
deleted; the same results are then computed again.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from utils.dataset.storage.parallel import ProcessDied
from utils.dataset.storage.stamps import is_settled, now_ns, stamp
from utils.errors import UserError
from utils.files import file_hash, write_atomic
from utils.project.paths import Project

FOLDER = ".work"
_GARBAGE = 4
"""The log is rewritten when it has this many times more lines than results."""


class Work:
    """Results of earlier work of one project.

    Args:
        project: whose dataset is prepared.
    """

    def __init__(self, project: Project) -> None:
        self.folder = project.dataset / FOLDER
        self.wavs = self.folder / "wavs"
        self._has_dataset = project.language_file.is_file()
        self.wavs.mkdir(parents=True, exist_ok=True)
        for torn in self.folder.rglob(".*.tmp"):
            # What a kill left half written.
            torn.unlink(missing_ok=True)
        self._log = self.folder / "log.jsonl"
        self._results: dict[str, Any] = {}
        lines = 0
        for key, value in _read(self._log):
            self._results[key] = value
            lines += 1
        if lines > _GARBAGE * len(self._results) + 1_000:
            content = "".join(_line(key, value) for key, value in self._results.items())
            write_atomic(self._log, content)
        self._file = self._log.open("a", encoding="utf-8")
        # Closes a line that a kill left torn.
        self._file.write("\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._file.close()
        cut_short = isinstance(error, OSError | ProcessDied) and any(self.wavs.iterdir())
        if isinstance(error, UserError | OSError) and not self._has_dataset and not cut_short:
            # A new project that came to nothing leaves nothing behind. After a full disk or a kill the clips that were
            # finished are still there, and the next run resumes from them.
            shutil.rmtree(self.folder, ignore_errors=True)

    def get(self, key: str) -> Any:
        """The result kept under a key, or None."""
        return self._results.get(key)

    def put(self, results: dict[str, Any]) -> None:
        """Keep results; once this returns, a killed process has not lost them.

        Raises:
            OSError: the disk is full or not writable.
        """
        self._results |= results
        self._file.write("".join(_line(key, value) for key, value in results.items()))
        self._file.flush()

    def wav(self, digest: str) -> Path:
        """Where a clip lies, or will lie, until it is moved into the dataset."""
        return self.wavs / f"{digest}.wav"

    def file_hash(self, path: Path) -> str:
        """Of a file's bytes, 32 hex digits; a file that has not changed since is not read again.

        Raises:
            OSError: it cannot be read.
        """
        seen = stamp(path)
        kept = self.get(f"file:{path}")
        if kept and kept[:-1] == seen:
            return str(kept[-1])
        now = now_ns(self._log)
        digest = file_hash(path)[:32]
        if is_settled(seen, now):
            self.put({f"file:{path}": [*seen, digest]})
        return digest


def short_hash(*parts: object) -> str:
    """16 hex digits that change with any of the parts."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]


def _line(key: str, value: Any) -> str:
    return json.dumps({"key": key, "value": value}, ensure_ascii=True) + "\n"


def _read(path: Path) -> Iterator[tuple[str, Any]]:
    if not path.is_file():
        return
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    entry = json.loads(line)
                    yield entry["key"], entry["value"]
                except (ValueError, KeyError, TypeError):
                    continue
    except OSError as error:
        raise UserError(what=f"the cache of earlier work cannot be read: {error.strerror}", where=str(path)) from error
