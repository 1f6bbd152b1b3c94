"""Measure how long code takes, as a context manager and as a decorator."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from utils.console import say

log = logging.getLogger(__name__)


@contextmanager
def timing(name: str, *, device: str | torch.device | None = None, level: int = logging.INFO) -> Iterator[None]:
    """Log how long the block takes, also one that an error ends; where logging is not set up, print it.

    Args:
        name: what is being done, for the log.
        device: a CUDA device whose work is waited for; without it only the launching of its work is timed.
        level: of the log line.
    """
    on_gpu = device is not None and torch.device(device).type == "cuda"
    if on_gpu:
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    try:
        yield
        if on_gpu:
            torch.cuda.synchronize(device)
    finally:
        say(log, f"{name}: {time.perf_counter() - started:.3f} s", level=level)


def timed(name: Any = "", **options: Any) -> Callable[..., Any]:
    """Decorator, with or without arguments: log how long each call takes.

    Args:
        name: what is being done; the function's name when not given.
        options: as of `timing`.
    """
    if callable(name):
        return timing(name.__qualname__)(name)
    return lambda function: timing(name or function.__qualname__, **options)(function)
