"""The one exception that is written for people: what went wrong, where, and how to fix it."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "_ALLOC_FAILED", "ALLOCATION_FAILED")
"""Parts of messages: torch's on a CPU, CUDA's, and those of cuBLAS, cuDNN and cuFFT, which need work space."""


class UserError(Exception):
    """A fault the user can fix. Command lines print it without a traceback and exit with status 2.

    Args:
        what: the fault in one sentence, with the offending value and the limit.
        where: the file, row, option or address it was found at; may be empty.
        fix: what to do about it, in one sentence; may be empty.
    """

    def __init__(self, *, what: str, where: str = "", fix: str = "") -> None:
        self.what = what
        self.where = where
        self.fix = fix
        super().__init__(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        # From a process to another one: pickle passes the arguments of an exception by position.
        return partial(type(self), what=self.what, where=self.where, fix=self.fix), ()

    def __str__(self) -> str:
        place = f"\n  where: {self.where}" if self.where else ""
        advice = f"\n  fix:   {self.fix}" if self.fix else ""
        return f"{self.what}{place}{advice}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: torch has a class for it on CUDA only, and not for all libraries."""
    if isinstance(error, RuntimeError):
        return any(sign in str(error) for sign in OUT_OF_MEMORY)
    return isinstance(error, MemoryError)


def raise_problems(problems: list[str], *, where: str) -> None:
    """Raise all faults of a configuration as one UserError; do nothing when there are none.

    Args:
        problems: sentences that each name the value, its limit and the fix.
        where: the command or file the values came from.

    Raises:
        UserError: `problems` is not empty.
    """
    if not problems:
        return
    count = "1 setting is" if len(problems) == 1 else f"{len(problems)} settings are"
    raise UserError(what=f"{count} not usable:\n  - " + "\n  - ".join(problems), where=where)


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turn what the operating system refuses into words for people; also usable as a decorator.

    Raises:
        UserError: the disk is full, or a file or folder may not be read, written or made.
    """
    try:
        yield
    except OSError as error:
        where = str(error.filename or "")
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(what="the disk is full", where=where, fix="free some space and run again") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            fix = "choose another folder, or change its permissions"
            raise UserError(what=f"not permitted: {error.strerror}", where=where, fix=fix) from error
        if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.EEXIST):
            raise UserError(
                what=f"not usable as it is: {error.strerror}", where=where, fix="name another path"
            ) from error
        raise
