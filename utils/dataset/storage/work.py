"""Cache finished results on disk by content, so that an interrupted preparation resumes, and stage new files.

The folder `dataset/.work` holds log.jsonl, append-only with one line {"key", "value"} for each result, and wavs/,
finished clips that are not yet in the dataset, named by their content. A torn last line is skipped. The folder can be
deleted; the same results are then computed again.

The dataset itself changes atomically: new files stay in `dataset/.new` until all of them are complete. A marker then
commits the change, and the move can be repeated: after a kill during the move, the next preparation finishes it. Each
intermediate state is a valid dataset. Existing files (wavs, a code cache) are never moved, so a running training is not
affected.
"""

import hashlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

from utils.dataset.formats.audio_names import WAVS
from utils.dataset.storage.parallel import ProcessDied
from utils.dataset.storage.stamps import is_settled, now_ns, stamp
from utils.errors import UserError, disk_errors
from utils.files import file_hash, parsed_lines, write_atomic
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
        self.results: dict[str, Any] = {}
        """By the keys that they are kept under; see `put`."""
        lines = 0
        try:
            for key, value in parsed_lines(self._log, itemgetter("key", "value")):
                self.results[key] = value
                lines += 1
        except OSError as error:
            what = f"the cache of earlier work cannot be read: {error.strerror}"
            raise UserError(what=what, where=str(self._log)) from error
        if lines > _GARBAGE * len(self.results) + 1_000:
            content = "".join(_line(key, value) for key, value in self.results.items())
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
            # A new project without a dataset leaves nothing behind. After a full disk or a kill the clips that were
            # finished are still there, and the next run resumes from them.
            shutil.rmtree(self.folder, ignore_errors=True)

    def put(self, results: dict[str, Any]) -> None:
        """Keep results; once this returns, a killed process has not lost them.

        Raises:
            OSError: the disk is full or not writable.
        """
        self.results |= results
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
        kept = self.results.get(f"file:{path}")
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


log = logging.getLogger(__name__)

_FOLDER = ".new"
_COMPLETE = "complete"


class Staging:
    """The files of a change that is being prepared.

    Args:
        project: whose dataset will change.
    """

    def __init__(self, project: Project) -> None:
        self.folder = project.dataset / _FOLDER
        self.wavs = self.folder / WAVS
        self._dataset = project.dataset
        # The language file comes last: a dataset without it does not count as prepared.
        in_order = (project.eval_csv, project.train_csv, project.report, project.page, project.language_file)
        self._metadata = [path.name for path in in_order]

    def file(self, final: Path) -> Path:
        """Where to write what will lie at `final`, one of the project's dataset files."""
        assert final.name in self._metadata, final
        return self.folder / final.name

    def commit(self) -> None:
        """Make the change final and move the files in.

        Raises:
            OSError: the disk fails; the next preparation finishes the move.
        """
        (self.folder / _COMPLETE).touch()
        self.finish()

    def begin(self) -> None:
        """Finish or discard what an interrupted preparation left, and start empty."""
        self.finish()
        self.discard()
        self.wavs.mkdir(parents=True)

    def finish(self) -> None:
        """Move a complete change in; do nothing when there is none."""
        if not (self.folder / _COMPLETE).exists():
            return
        (self._dataset / WAVS).mkdir(exist_ok=True)
        for wav in sorted(self.wavs.iterdir()):
            wav.replace(self._dataset / WAVS / wav.name)
        for name in self._metadata:
            with suppress(FileNotFoundError):
                (self.folder / name).replace(self._dataset / name)
        shutil.rmtree(self.folder)

    def discard(self) -> None:
        """Remove an incomplete change, and the folders that exist only for it."""
        if (self.folder / _COMPLETE).exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        for folder in (self._dataset, self._dataset.parent):
            # Only empty folders go: rmdir refuses all others.
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def staged(project: Project) -> Iterator[Staging]:
    """A change to a project's dataset; without `commit`, or after any error, the dataset stays as it was.

    Raises:
        UserError: the disk is full or not writable, or this project is already being prepared.
    """
    staging = Staging(project)
    try:
        project.dataset.mkdir(parents=True, exist_ok=True)
        with _only_one(project):
            try:
                staging.begin()
                yield staging
            finally:
                staging.discard()
    except OSError as error:
        try:
            with disk_errors():
                raise
        except UserError as fault:
            where = fault.where or str(project.dataset)
            raise UserError(what=f"{fault.what}; the dataset is unchanged", where=where, fix=fault.fix) from error


@contextmanager
def _only_one(project: Project) -> Iterator[None]:
    """Refuse a second preparation of the project; the lock goes with the process, even when it is killed."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    folder = os.open(project.folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                what="this project is already being prepared",
                where=str(project.folder),
                fix="wait until it is finished",
            ) from error
        except OSError as error:
            # Some network drives have no locks; preparing without one is better than not preparing.
            log.debug("no lock on %s: %s", project.folder, error)
        yield
    finally:
        os.close(folder)
