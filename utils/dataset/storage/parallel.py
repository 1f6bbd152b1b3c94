"""Run tasks in several processes and yield results as they finish; no process outlives its parent."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import TypeVar

from utils.errors import UserError

Task = TypeVar("Task")
Result = TypeVar("Result")

_CHUNK = 8
"""Tasks handed over at a time: their results are what a kill may cost."""
_QUEUED = 2
"""Chunks a process has waiting, so that it never waits for the parent."""
_WORTH_IT = 48
"""Fewer tasks are done sooner than processes start: each loads torch first."""
_MOST = 8
"""Processes that are started by themselves: each takes about 0.3 GB."""


class ProcessDied(UserError):
    """A process that worked on clips is gone, as when memory runs out; what was done is kept."""


def num_processes(tasks: int, wanted: int | None, cpus: int) -> int:
    """How many processes the tasks are worth; 1 is this one."""
    if wanted is not None:
        return max(1, min(wanted, tasks))
    return 1 if tasks < _WORTH_IT else min(cpus, _MOST)


def run_tasks(
    function: Callable[[Sequence[Task]], list[Result]], tasks: Sequence[Task], *, processes: int
) -> Iterator[tuple[list[Task], list[Result]]]:
    """Chunks of tasks with their results, in the order in which they are done.

    Args:
        function: gives the results of a chunk; picklable, a method of an object takes the object along, once a chunk.
        tasks: picklable.
        processes: 1 does everything here.

    Raises:
        ProcessDied: one of them is gone.
    """
    chunks = [tasks[start : start + _CHUNK] for start in range(0, len(tasks), _CHUNK)]
    if processes <= 1:
        for chunk in chunks:
            yield list(chunk), function(chunk)
        return
    context = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
    if sys.platform != "win32":
        # Loaded once and shared by all: less memory than a copy in each.
        context.set_forkserver_preload(["utils.dataset.clips.sound"])
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin_worker) as pool:
        yield from _in_pool(pool, function, chunks, processes)


def _in_pool(
    pool: ProcessPoolExecutor,
    function: Callable[[Sequence[Task]], list[Result]],
    chunks: list[Sequence[Task]],
    processes: int,
) -> Iterator[tuple[list[Task], list[Result]]]:
    waiting = list(reversed(chunks))
    running: dict[Future[list[Result]], Sequence[Task]] = {}
    try:
        while waiting or running:
            # A few at a time: the parent's memory does not grow with the number of tasks.
            while waiting and len(running) < _QUEUED * processes:
                chunk = waiting.pop()
                running[pool.submit(function, chunk)] = chunk
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield list(running.pop(future)), future.result()
    except BrokenProcessPool as error:
        raise ProcessDied(
            what="a worker process ended unexpectedly, perhaps because memory ran out",
            fix="run the same command again: it resumes where it stopped; --workers 1 needs the least memory",
        ) from error
    finally:
        for future in running:
            future.cancel()


def _begin_worker() -> None:
    """Ctrl-C is the parent's to handle; and when the parent is killed, nothing else would end this process."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The processes share the processor already.
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def end_with_parent() -> None:
        wait_for([sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
