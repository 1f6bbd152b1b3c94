"""Checkpoints: written aside, synced, renamed, and marked complete, so that a kill never leaves a half-written one.

checkpoints/step-00000012/ holds model.safetensors (the GPT), optimizer.safetensors (or optimizer/, a part from each
process), state.json and complete.json;
checkpoints/best-00000012/ holds the weights only, of the step with the lowest evaluation loss, or of the one that
speaks best once that was measured: the same file by another name where the file system has hard links. left-* are those
that a resume from an earlier one went past.
"""

import errno
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from utils.errors import UserError
from utils.files import file_hash, share_file
from utils.model.weights import State, read_weights, write_weights
from utils.runs.layout import (
    ADAPTER_FILE,
    ASIDE,
    BEST,
    CHECKPOINTS,
    COMPLETE_FILE,
    LAST,
    LEFT,
    MODEL_FILE,
    REMOVING,
    STATE_FILE,
    Resume,
    checkpoints_of,
    discard,
    is_complete,
    newest_of,
    strays_of,
)

log = logging.getLogger(__name__)

SMALL_FILES_BYTES = 2**20
"""Space for everything of a checkpoint but its tensors."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
Tensors = Mapping[str, Tensor]


def num_bytes(files: Mapping[str, Tensors]) -> int:
    """What the tensors of a checkpoint's files take, in memory and on disk."""
    return sum(tensor.nbytes for tensors in files.values() for tensor in tensors.values())


class NotSaved(UserError):
    """A checkpoint could not be written; those before it are as they were."""

    source = "disk"
    """What the run's log names as the cause."""


class Checkpoints:
    """The checkpoints of one run.

    Args:
        run: the run's folder, which has them in checkpoints/; created when absent.
        keep: number of older checkpoints that are kept beside the last one.
    """

    def __init__(self, run: Path, *, keep: int = 0) -> None:
        self.run, self.folder, self.keep = run, run / CHECKPOINTS, keep
        self.folder.mkdir(parents=True, exist_ok=True)

    def write_last(self, step: int, files: Mapping[str, Tensors], state: dict[str, Any]) -> Path:
        """Write a checkpoint to resume from; what exceeds the number to keep is removed after it is complete.

        Args:
            step: optimizer steps done.
            files: tensors by file, from `utils.training.checkpointing.files_of`.
            state: JSON values: where the run is.

        Raises:
            NotSaved: the disk is full or fails; earlier checkpoints stay.
        """
        parts = {name: partial(write_weights, state=tensors) for name, tensors in files.items()}
        return self._publish(LAST, {**state, "step": step}, parts, size=num_bytes(files))

    def link_best(self, last: Path, *, loss_to_beat: float | None = None) -> Path:
        """Keep the weights of a checkpoint as the best so far, without a second copy where that is possible.

        Args:
            last: a checkpoint to resume from.
            loss_to_beat: evaluation loss of the former best, where these weights took its place for another reason: a
                resumed run replaces them when it gets below that. Their own loss when not given.

        Raises:
            NotSaved: the disk is full or fails; the former best stays.
        """
        state, marks = read_state(last), marks_of(last)
        if loss_to_beat is not None:
            state["loss_to_beat"] = loss_to_beat
        parts = {name: partial(share_file, last / name) for name in (MODEL_FILE, ADAPTER_FILE) if name in marks}
        return self._publish(BEST, state, parts, known={name: marks[name]["sha256"] for name in parts})

    def tidy(self) -> list[str]:
        """Remove what a kill left half-written, and give whole checkpoints that lie aside their place.

        Only for who runs the run: another process's save would be taken for a leftover.

        Returns:
            Names of unfinished saves that were removed.
        """
        for stray in strays_of(self.run):
            log.warning("%s among the checkpoints is none: it is never read nor removed", stray.name)
        removed = list[str]()
        self._clear()
        for aside in sorted(self.folder.glob(f"{ASIDE}*")):
            final = aside.with_name(aside.name.removeprefix(ASIDE))
            if is_complete(aside) and not is_complete(final):
                _discard(final)
                aside.rename(final)
            else:
                shutil.rmtree(aside, ignore_errors=True)
                removed.append(aside.name)
        return removed

    def set_aside_after(self, step: int) -> list[str]:
        """Rename checkpoints of later steps, so that a run that resumes from an earlier one does not mix with them.

        Returns:
            Their new names; nothing is removed.
        """
        names = []
        for folder in (one.path for one in checkpoints_of(self.run) if one.step > step):
            left, number = folder.with_name(f"{LEFT}{folder.name}"), 2
            while left.exists():
                left, number = folder.with_name(f"{LEFT}{folder.name}-{number}"), number + 1
            folder.rename(left)
            names.append(left.name)
        return names

    def last(self) -> Path | None:
        """The newest complete checkpoint to resume from."""
        return one.path if (one := newest_of(self.run).get("last")) else None

    def best(self) -> Path | None:
        """The complete checkpoint with the lowest evaluation loss, or the one that speaks best."""
        return one.path if (one := newest_of(self.run).get("best")) else None

    def _publish(
        self,
        prefix: str,
        state: dict[str, Any],
        parts: Mapping[str, Callable[[Path], None]],
        *,
        size: int = 0,
        known: Mapping[str, str] | None = None,
    ) -> Path:
        """Write a checkpoint aside and give it its place.

        Args:
            prefix: LAST or BEST.
            state: JSON values.
            parts: what writes each file.
            size: bytes of tensors.
            known: SHA-256 by file.
        """
        step = state["step"]
        aside, final = self.folder / f"{ASIDE}{prefix}{step:08d}", self.folder / f"{prefix}{step:08d}"
        try:
            self._clear()
            # A checkpoint that cannot end is not begun.
            if shutil.disk_usage(self.folder).free < size + SMALL_FILES_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir()
            (aside / STATE_FILE).write_text(json.dumps(state), encoding="utf-8")
            for name, write in parts.items():
                write(aside / name)
            _mark_complete(aside, known or {})
            _discard(final)
            aside.rename(final)
            sync(self.folder)
        except OSError as error:
            # A complete one counts where it is: the folder whose place it was to take may be gone already.
            if not is_complete(aside):
                shutil.rmtree(aside, ignore_errors=True)
            is_full = error.errno in DISK_FULL
            raise NotSaved(
                what=f"{'the disk is full' if is_full else f'the disk fails ({error.strerror or error})'}: the "
                f"checkpoint of step {step} was not written; earlier ones are kept",
                where=str(self.folder),
                fix="free some space" if is_full else "check the disk or its connection",
            ) from error
        others = [one for one in reversed(checkpoints_of(self.run)) if one.path != final]
        others = [one for one in others if one.is_best == (prefix == BEST)]
        whole = [one for one in others if one.is_complete]
        # Kills of earlier versions left such: what is not whole and behind the newest is of no use any more.
        broken = [one for one in others if not one.is_complete and one.step < step]
        for old in [*whole[self.keep if prefix == LAST else 0 :], *broken]:
            _discard(old.path)
        return final

    def _clear(self) -> None:
        """Finish removals that were cut."""
        for path in self.folder.glob(f"{REMOVING}*"):
            _discard(path)


def _discard(folder: Path) -> None:
    # What cannot be removed now is no reason to fail a save that is complete: it is tried again at the next one.
    with suppress(OSError):
        discard(folder)


def whole_checkpoint(wanted: Resume) -> tuple[Path, list[str]]:
    """The newest checkpoint that can be resumed from, read through; and what is wrong with newer ones.

    Raises:
        UserError: there is none; or the one that was named is damaged.
    """
    if wanted.checkpoint is not None:
        verify(wanted.checkpoint)
        return wanted.checkpoint, []
    # Also those that are not complete, so that the user learns of them.
    skipped, found = [], checkpoints_of(wanted.run)
    newest = [one for one in reversed(found) if not one.is_best] if wanted.which == "last" else []
    if not newest:
        # A run that went back to its best and was cut before its first save has nothing newer than that.
        best = next((one for one in reversed(found) if one.is_best and one.is_complete), None)
        # A checkpoint of the same step that was kept has the moments, too.
        newest = [one for one in found if best is not None and one.step == best.step]
    for folder in (one.path for one in newest):
        try:
            verify(folder)
        except UserError as error:
            skipped.append(f"{folder.name}: {error.what}")
        else:
            return folder, skipped
    damaged = f"; damaged: {'; '.join(skipped)}" if skipped else ""
    raise UserError(
        what=f"there is no complete checkpoint to resume from{damaged}",
        where=str(wanted.run),
        fix="name another run, or train again",
    )


def read_state(folder: Path) -> dict[str, Any]:
    """Where the run was at this checkpoint."""
    state: dict[str, Any] = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
    return state


def _mark_complete(folder: Path, known: Mapping[str, str]) -> None:
    """Sync every file, then write their sizes and hashes as the last one."""
    marks = {}
    for file in sorted(folder.rglob("*")):
        sync(file)
        if file.is_file():
            name = file.relative_to(folder).as_posix()
            marks[name] = {"size": file.stat().st_size, "sha256": known.get(name) or file_hash(file)}
    (folder / COMPLETE_FILE).write_text(json.dumps(marks), encoding="utf-8")
    sync(folder / COMPLETE_FILE)
    sync(folder)


def sync(path: Path) -> None:
    """Have what was written to a file, or which files a folder holds, on the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows has no handle for folders.
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def load_checkpoint(folder: Path) -> State:
    """The GPT weights of a checkpoint, checked against its marks.

    Raises:
        UserError: incomplete, or changed since it was written.
    """
    verify(folder, [MODEL_FILE])
    return read_weights(folder / MODEL_FILE)


def verify(folder: Path, names: Iterable[str] | None = None) -> None:
    """Read files of a checkpoint through, all when none is named, and find them as they were written.

    Raises:
        UserError: incomplete, or changed since it was written; says which file.
    """
    marks = marks_of(folder) if is_complete(folder) else {}
    for name in names or marks or [COMPLETE_FILE]:
        mark = marks.get(name)
        if mark is None:
            raise UserError(what="this is not a complete checkpoint", where=str(folder), fix="name another checkpoint")
        if file_hash(folder / name) != mark.get("sha256"):
            what, where = f"the checkpoint's {Path(name).name} is damaged", str(folder / name)
            raise UserError(what=what, where=where, fix="name another checkpoint")


def marks_of(folder: Path) -> dict[str, Any]:
    """Size and hash of each file of a complete checkpoint, as they were when it was written."""
    marks: dict[str, Any] = json.loads((folder / COMPLETE_FILE).read_text(encoding="utf-8"))
    return marks
