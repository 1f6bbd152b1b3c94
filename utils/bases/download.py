"""Download the XTTS v2 bases: license accepted, resumable, verified, and complete or absent.

Files are downloaded to `<folder>/.incoming`, verified against the hub's digests and moved in together. The lock file,
which marks the folder as complete, comes last.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from utils.bases.catalog import DOWNLOADED, LICENSE_ID, has_weights
from utils.bases.find import LOCK_NAME, BaseLock, FileEntry, read_json, read_lock, write_json
from utils.bases.hub import NEEDED_FILES, choose_hub, describe, explained, fetch, is_offline
from utils.callbacks import ProgressFn
from utils.errors import UserError
from utils.project.advice import command
from utils.project.paths import bases_folder

if TYPE_CHECKING:
    from utils.bases.base import Base

logger = logging.getLogger(__name__)

RECORD_NAME = "license.json"
"""Stored next to the bases, so that one acceptance covers all versions of a repository."""
LICENSE_NAME = "Coqui Public Model License (CPML)"
LICENSE_LINK = "https://coqui.ai/cpml"

AGREEMENT_VARIABLE = "COQUI_TOS_AGREED"
"""Set to 1 it agrees to the license, as coqui-tts itself takes it."""
AGREE = f"give --accept-license (from Python: accept_license=True), or set {AGREEMENT_VARIABLE}=1"
"""The ways in which the license is agreed to, for messages."""

Ask = Callable[[str], bool]
"""Shows the license to the user and returns whether they accept it."""


def is_accepted(bases: Path, repository: str) -> bool:
    """Whether the license of `repository` was accepted for the bases in this folder.

    Raises:
        UserError: the record cannot be read.
    """
    return any(record.get("repository") == repository for record in _records(bases))


def is_agreed_by_environment() -> bool:
    """Whether the user's environment agrees to the license."""
    return os.environ.get(AGREEMENT_VARIABLE) == "1"


def require_license(
    bases: Path, *, repository: str, link: str, accept: bool, ask: Ask | None, read_text: Callable[[], str]
) -> None:
    """Return when the license is accepted, now or before; a new acceptance is recorded.

    Args:
        bases: folder of the record, beside the bases.
        repository: whose weights.
        link: address of the repository's own copy of the license, or of the repository when it has none.
        accept: the user gave the flag; the license is then shown in the log, as it is where the environment agrees.
        ask: puts the question to a person who is present.
        read_text: gives the repository's own license text; called only to show it.

    Raises:
        UserError: it was not accepted.
    """
    if is_accepted(bases, repository):
        return
    notice = f"The weights of {repository} are under the {LICENSE_NAME}: {LICENSE_LINK}\nThe repository's copy: {link}"
    if accept:
        logger.info("%s\nAccepted by --accept-license.", notice)
    elif is_agreed_by_environment():
        logger.info("%s\nAccepted by %s=1.", notice, AGREEMENT_VARIABLE)
    elif ask is None:
        raise _refused(f"the license of {repository} has not been accepted: {LICENSE_NAME}, {LICENSE_LINK}", link)
    elif not ask(f"{notice}\n\n{read_text()}".rstrip()):
        raise _refused(f"the license of {repository} was declined, so nothing is downloaded", link)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    record = {"repository": repository, "license": LICENSE_NAME, "link": LICENSE_LINK, "time": time}
    bases.mkdir(parents=True, exist_ok=True)
    write_json(bases / RECORD_NAME, {"accepted": [*_records(bases), record]})


def _refused(what: str, link: str) -> UserError:
    fix = f"read it, then {AGREE}; or run the command in a terminal and answer yes"
    return UserError(what=what, where=link, fix=fix)


def _records(bases: Path) -> list[dict[str, str]]:
    path = bases / RECORD_NAME
    if not path.is_file():
        return []
    records = read_json(path).get("accepted")
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise UserError(
            what="not a record of accepted licenses", where=str(path), fix="delete it and accept the license again"
        )
    return records


INCOMING = ".incoming"
ABOUT_NAME = "about.json"
LICENSE_FILE = "LICENSE.txt"
SPACE_MARGIN_BYTES = 64 * 2**20
"""Left free on the disk beyond the files themselves."""
TRAINING_DEFAULTS = {"learning_rate": 5e-6, "num_epochs": 10, "max_audio_length": 255_995, "max_text_length": 200}
"""What XTTS v2 trains well with; lengths in samples at 22 050 Hz and in tokens."""


def download_base(
    version: str,
    *,
    folder: Path,
    repository: str | None = None,
    accept_license: bool = False,
    ask: Ask | None = None,
    progress: ProgressFn | None = None,
) -> Path:
    """Bring a base to disk, or find it there; a download that was cut is continued.

    HF_ENDPOINT, HF_HUB_OFFLINE and HF_TOKEN are honored. A folder that is whole costs no request.

    Args:
        version: revision of the repository: v2.0.2, v2.0.3 or main.
        folder: the base's own folder; `license.json` is kept beside it.
        repository: owner/name on the hub; $XTTS_STUDIO_REPOSITORY or coqui/XTTS-v2 when not given.
        accept_license: the user accepts the model license.
        ask: shows the license and returns whether the user accepts; used when it was not accepted before.
        progress: called with the bytes as they arrive.

    Returns:
        `folder`, with every file verified.

    Raises:
        UserError: the license is not accepted, the network, the hub or the disk failed, or a file is not what the hub
            says it is. What was received so far is kept, except a file that proved wrong.
    """
    hub = choose_hub(version, repository)
    with explained(hub, folder):
        if _is_here(folder, hub):
            return folder
        if is_offline():
            missing = ", ".join(name for name in (*NEEDED_FILES, LOCK_NAME) if not (folder / name).is_file())
            raise UserError(
                what=f"{hub.revision} is not complete on this disk and HF_HUB_OFFLINE forbids the download"
                + (f"; missing: {missing}" if missing else "; a file has the wrong size"),
                where=str(folder),
                fix="unset HF_HUB_OFFLINE, or run the download on a machine with a network and copy its folder here",
            )
        with _one_process(folder):
            # Another process may have finished it while this one waited.
            if not _is_here(folder, hub):
                _Download(describe(hub), folder, progress).run(accept_license=accept_license, ask=ask)
    return folder


def fetch_base(name: str, *, accept_license: bool = False, progress: ProgressFn | None = None) -> None:
    """Have the base of that name on this computer; do nothing for one that is, or that is not downloaded by name.

    Args:
        name: as given for `base`: v2.0.2, starter, a folder, ...
        accept_license: the user agrees to the license of the weights; so do COQUI_TOS_AGREED=1 and an earlier download.
        progress: called with (what is being done, bytes done, bytes in all).

    Raises:
        UserError: the license was not accepted; or see `download_base`.
    """
    folder = bases_folder() / name
    if name not in DOWNLOADED:
        return
    # A base that was copied here by hand has no lock; one whose download was cut still has the folder of its parts.
    if read_lock(folder) is not None or (has_weights(folder) and not (folder / INCOMING).is_dir()):
        return
    repository = choose_hub(name).repository
    if not (accept_license or is_agreed_by_environment() or is_accepted(bases_folder(), repository)):
        raise UserError(
            what=f"there is no base {name!r} on this computer, and the license of its weights has not been accepted: "
            f"{LICENSE_NAME}, {LICENSE_LINK}",
            where=str(folder),
            fix=f"read it, then download it: {command('base', 'download', name)}; or have it downloaded first: set "
            f"{AGREEMENT_VARIABLE}=1, or give prepare or train --accept-license (from Python: accept_license=True)",
        )

    def received(file: str, done: int, total: int | None) -> None:
        if progress is not None:
            progress(f"downloading {name} (bytes)", done, total)

    download_base(name, folder=folder, accept_license=accept_license, progress=received)


def fetched_base(name: str, *, accept_license: bool = False, progress: ProgressFn | None = None) -> "Base":
    """The base of that name or folder, downloaded first where it is missing: see `fetch_base` and `find_base`."""
    from utils.bases.find import find_base

    fetch_base(name, accept_license=accept_license, progress=progress)
    return find_base(name)


class _Download:
    """One run of a download, by the one process that may write to the folder."""

    def __init__(self, lock: BaseLock, folder: Path, progress: ProgressFn | None) -> None:
        self.lock = lock
        self.folder = folder
        self.incoming = folder / INCOMING
        self.progress = progress

    def run(self, *, accept_license: bool, ask: Ask | None) -> None:
        entries = self.lock.files
        has_text = any(entry.name == LICENSE_FILE for entry in entries)
        link = f"{self.lock.page}/blob/{self.lock.commit}/{LICENSE_FILE}" if has_text else self.lock.page
        missing = [entry for entry in entries if not self._is_received(entry)]
        self.incoming.mkdir(parents=True, exist_ok=True)
        # Parts of files that the revision no longer holds, such as after `main` moved on.
        wanted = {name for entry in entries for name in (entry.name, self._part(entry).name)}
        for path in self.incoming.iterdir():
            if path.name not in wanted:
                path.unlink()
        need = sum(max(0, entry.size - _size(self._part(entry))) for entry in missing)
        free = shutil.disk_usage(self.incoming).free
        if missing and free < need + SPACE_MARGIN_BYTES:
            raise UserError(
                what=f"{_megabytes(need + SPACE_MARGIN_BYTES)} are needed but {_megabytes(free)} are free",
                where=str(self.folder),
                fix="free some space, or set XTTS_STUDIO_BASES to a folder on another disk",
            )
        require_license(
            self.folder.parent,
            repository=self.lock.repository,
            link=link,
            accept=accept_license,
            ask=ask,
            read_text=self._license_text,
        )
        for entry in missing:
            self._receive(entry, report=self.progress)
        # The lock comes last, so nothing before it looks whole.
        for entry in entries:
            if (self.incoming / entry.name).exists():
                (self.incoming / entry.name).replace(self.folder / entry.name)
        about = {"name": self.lock.revision, "kind": "xtts-v2", "license": LICENSE_ID}
        source = {"repository": self.lock.repository, "commit": self.lock.commit}
        write_json(self.folder / ABOUT_NAME, {**about, **source, "training": TRAINING_DEFAULTS})
        self.lock.save(self.folder)
        shutil.rmtree(self.incoming)
        logger.info("%s %s is complete in %s", self.lock.repository, self.lock.revision, self.folder)

    def _is_received(self, entry: FileEntry) -> bool:
        """Whether a verified copy of the file is on disk; a wrong one is removed from `.incoming`.

        Raises:
            UserError: the folder was not made by a download and holds another file of this name.
        """
        if entry.matches(self.folder / entry.name, hashes=True):
            return True
        if (self.folder / entry.name).exists() and read_lock(self.folder) is None:
            raise UserError(
                what=f"{entry.name} already exists and is not the file of {self.lock.repository} {self.lock.revision}",
                where=str(self.folder),
                fix="choose an empty folder, or move these files away",
            )
        if entry.matches(self.incoming / entry.name, hashes=True):
            return True
        (self.incoming / entry.name).unlink(missing_ok=True)
        return False

    def _license_text(self) -> str:
        """The repository's own license text, fetched to be shown; empty when it has none."""
        for entry in self.lock.files:
            if entry.name == LICENSE_FILE:
                if not self._is_received(entry):
                    # Without progress: the question that follows must not stand below a moving bar.
                    self._receive(entry, report=None)
                here = self.folder if (self.folder / entry.name).exists() else self.incoming
                return (here / entry.name).read_text(encoding="utf-8", errors="replace")
        return ""

    def _receive(self, entry: FileEntry, *, report: ProgressFn | None) -> None:
        """Fetch one file, or the rest of it, and check it.

        Raises:
            UserError: it is not what the hub said it is; it has been removed.
        """
        finished, part = self.incoming / entry.name, self._part(entry)
        if finished.exists():
            return
        others = [other.name for other in self.lock.files if other != entry]
        before = sum(_size(self.incoming / name) or _size(self.folder / name) for name in others)
        total = sum(other.size for other in self.lock.files)

        def received(here: int) -> None:
            if report is not None:
                report(entry.name, before + here, total)

        fetch(self.lock, entry, part=part, report=received)
        if not entry.matches(part, hashes=True):
            part.unlink()
            raise UserError(
                what=f"{entry.name} is not the file the hub describes: its {entry.algorithm} or size differs",
                where=self.lock.page,
                fix="it was removed; run the download again, or use another HF_ENDPOINT or network if it recurs",
            )
        with part.open("r+b") as file:
            os.fsync(file.fileno())
        part.replace(finished)

    def _part(self, entry: FileEntry) -> Path:
        """Where a file is received: named by its content, so that only the very same file is continued."""
        return self.incoming / f"{entry.name}.{entry.digest[:16]}.part"


def _is_here(folder: Path, hub: BaseLock) -> bool:
    """Whether the folder holds this base whole, by its lock and its files' sizes.

    Raises:
        UserError: it holds another base.
    """
    lock = read_lock(folder)
    if lock is None:
        return False
    if (lock.repository, lock.revision) != (hub.repository, hub.revision):
        raise UserError(
            what=f"the folder holds {lock.repository} {lock.revision}, not {hub.repository} {hub.revision}",
            where=str(folder),
            fix="choose another folder, or delete this one",
        )
    return not lock.damaged(folder, hashes=False) and (folder / ABOUT_NAME).is_file()


@contextmanager
def _one_process(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; a second process waits here until the first is done or dead."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logger.info("another process is downloading %s; waiting for it", folder)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
