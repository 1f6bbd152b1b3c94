"""Standard output: messages for users of the library, and a separate pipe for a worker's replies."""

import logging
import os
import sys
from typing import IO

SAID = "said"
"""Attribute of log records that `say` made: another process that passes them on prints them likewise."""


def say(log: logging.Logger, message: str, *, level: int = logging.INFO) -> None:
    """Log a message if anybody would see it there, otherwise print it.

    In a script or notebook logging is not set up, and a call whose purpose is to show something would show nothing.
    A level that was set on one of our own loggers is a choice, and is respected: it is the way to silence us.

    Args:
        log: logger of the module that speaks.
        message: one line or several.
        level: of the log record; below INFO nothing is printed.
    """
    # Handlers alone do not show it: notebook services install one, and the root logger's default level hides INFO.
    if log.hasHandlers() and (log.isEnabledFor(level) or _has_own_level(log)):
        log.log(level, "%s", message, extra={SAID: True})
    elif level >= logging.INFO and sys.stdout is not None:
        sys.stdout.write(f"{message}\n")
        sys.stdout.flush()


def _has_own_level(log: logging.Logger) -> bool:
    """Whether a level was set on this logger or one above it, the root logger apart."""
    current: logging.Logger | None = log
    while current is not None and current.parent is not None:
        if current.level != logging.NOTSET:
            return True
        current = current.parent
    return False


def take_input() -> int:
    """Descriptor of this process's standard input, for itself alone; `sys.stdin` is empty from now on.

    A thread that waits in `sys.stdin` holds its lock: a forked process, such as a DataLoader's, would wait for that
    lock permanently when it closes what it inherited.
    """
    taken = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")
    return taken


def take_output() -> IO[str]:
    """This process's standard output, for itself alone: what libraries print goes to standard error instead."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers
