"""Measure how long code takes, as a context manager and as a decorator."""

import functools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, overload

import torch

from utils.console import say

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(kw_only=True)
class Timing:
    """What a timed block took."""

    name: str
    seconds: float = 0.0
    """Set when the block ends, by an error too."""


@contextmanager
def timing(name: str, *, device: str | torch.device | None = None, level: int = logging.INFO) -> Iterator[Timing]:
    """Log how long the block takes; where logging is not set up, print it.

    Args:
        name: what is being done, for the log.
        device: a CUDA device whose work is waited for; without it only the launching of its work is timed.
        level: of the log line.

    Yields:
        The timing, whose `seconds` are set when the block ends.
    """
    result = Timing(name=name)
    _wait(device)
    started = time.perf_counter()
    try:
        yield result
        _wait(device)
    finally:
        result.seconds = time.perf_counter() - started
        say(log, f"{name}: {result.seconds:.3f} s", level=level)


@overload
def timed(name: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def timed(
    name: str = "", *, device: str | torch.device | None = None, level: int = logging.INFO
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def timed(name: Any = "", *, device: str | torch.device | None = None, level: int = logging.INFO) -> Any:
    """Decorator, with or without arguments: log how long each call takes.

    Args:
        name: what is being done; the function's name when not given.
        device, level: as `timing`.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        title = name if isinstance(name, str) and name else function.__qualname__

        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            with timing(title, device=device, level=level):
                return function(*args, **kwargs)

        return wrapped

    return decorate(name) if callable(name) else decorate


def _wait(device: str | torch.device | None) -> None:
    if device is not None and torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
