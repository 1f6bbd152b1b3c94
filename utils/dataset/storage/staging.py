"""Change a dataset atomically: new files are staged, then moved in.

New files stay in `dataset/.new` until all of them are complete. A marker then commits the change, and the move can be
repeated: after a kill during the move, the next preparation finishes it. Each intermediate state is a valid dataset.
Existing files (wavs, a code cache) are never moved, so a running training is not affected.
"""

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from utils.dataset.formats.locate import WAVS
from utils.errors import UserError, disk_errors
from utils.project.paths import Project

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
