"""The app's own temporary folder for gradio: incoming uploads and outgoing copies."""

import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from utils.errors import disk_errors

VARIABLE = "GRADIO_TEMP_DIR"
"""Where gradio looks for the folder."""
PREFIX = "xtts-studio-web-"
LOOK_S, KEPT_S = 3600, 86_400
"""Hourly, what is older than a day is removed; a page that is open for this long may still play what it was given."""

log = logging.getLogger(__name__)


@contextmanager
def own_folder() -> Iterator[Path]:
    """Give gradio a folder that ends with this block; those of apps that were killed are removed first.

    It does not lie below the output folder: what lies there is shown in the browser, what was only uploaded never.
    Other apps, of this kind or not, have folders of their own.

    Raises:
        UserError: the disk is full or not writable.
    """
    place = Path(tempfile.gettempdir()).resolve()
    remove_left(place)
    folder = place / f"{PREFIX}{secrets.token_hex(4)}"
    # Held while this app lives, also if it is killed: then the system lets go of it.
    lock = FileLock(f"{folder}.lock")
    before = os.environ.get(VARIABLE)
    with disk_errors():
        lock.acquire()
        folder.mkdir(mode=0o700)
    os.environ[VARIABLE] = str(folder)
    try:
        yield folder
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before
        shutil.rmtree(folder, ignore_errors=True)
        _let_go(lock)


def remove_left(place: Path) -> None:
    """Remove the folders of apps that are gone."""
    for file in place.glob(f"{PREFIX}*.lock"):
        lock = FileLock(file)
        try:
            lock.acquire(timeout=0)
        except (Timeout, OSError):
            # It lives, or is another user's.
            continue
        log.info("removing temporary files of an app that has ended: %s", file.stem)
        shutil.rmtree(file.with_suffix(""), ignore_errors=True)
        _let_go(lock)


def discard(files: Sequence[Path]) -> None:
    """Remove uploads that were refused; never anything outside the app's folder."""
    own = os.environ.get(VARIABLE)
    for file in files if own else ():
        if file.resolve().is_relative_to(Path(str(own)).resolve()):
            with suppress(OSError):
                file.unlink()


def _let_go(lock: FileLock) -> None:
    lock.release()
    with suppress(OSError):
        Path(lock.lock_file).unlink()
