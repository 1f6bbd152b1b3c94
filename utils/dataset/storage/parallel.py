"""Run tasks in several processes, here or on a Ray cluster, and yield results as they finish.

No process outlives its parent; a Ray cluster's processes are Ray's own.
"""

import importlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, TypeVar

from utils.dataset.settings import Engine
from utils.errors import UserError
from utils.hardware.processor import usable_cpus

Task = TypeVar("Task")
Result = TypeVar("Result")

_CHUNK = 8
"""Tasks handed over at a time: their results are what a kill may cost."""
_QUEUED = 2
"""Chunks a process has waiting, so that it never waits for the parent."""
_WORTH_PROCESSES = 48
"""Fewer tasks are done sooner than processes start: each loads torch first."""
_MOST = 8
"""Processes that are started by themselves: each takes about 0.3 GB."""


class ProcessDied(UserError):
    """A process that worked on clips is gone, as when memory runs out; what was done is kept."""


def run_tasks(
    function: Callable[[Sequence[Task]], list[Result]],
    tasks: Sequence[Task],
    *,
    workers: int | None,
    engine: Engine = "local",
    chunk_size: int = _CHUNK,
) -> Iterator[tuple[list[Task], list[Result]]]:
    """Chunks of tasks with their results, in the order in which they are done.

    Args:
        function: gives the results of a chunk; picklable, a method of an object takes the object along, once a chunk.
            It may be called again for a chunk whose process died.
        tasks: picklable.
        workers: processes; None decides by the number of tasks (local) or takes the whole cluster (ray).
        engine: where they run.
        chunk_size: tasks handed over at a time.

    Raises:
        ProcessDied: one of them is gone.
        UserError: Ray is not installed or cannot be reached, or the function's own.
    """
    chunks = [tasks[start : start + chunk_size] for start in range(0, len(tasks), chunk_size)]
    if engine == "ray" and chunks:
        yield from _on_ray(function, chunks, workers)
        return
    most = min(usable_cpus(), _MOST) if workers is None and len(tasks) >= _WORTH_PROCESSES else workers or 1
    processes = min(most, len(tasks))
    if processes <= 1:
        for chunk in chunks:
            yield list(chunk), function(chunk)
        return
    with ProcessPoolExecutor(processes, mp_context=_context(), initializer=_begin_worker) as pool:
        try:
            for chunk, future in _in_flight(
                chunks,
                submit=lambda chunk: pool.submit(function, chunk),
                first_done=lambda running: wait(running, return_when=FIRST_COMPLETED).done,
                most=_QUEUED * processes,
            ):
                yield chunk, future.result()
        except BrokenProcessPool as error:
            raise ProcessDied(
                what="a worker process ended unexpectedly, perhaps because memory ran out",
                fix="run the same command again: it resumes where it stopped; --workers 1 needs the least memory",
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _in_flight(
    chunks: list[Sequence[Task]],
    *,
    submit: Callable[[Sequence[Task]], Any],
    first_done: Callable[[list[Any]], Iterable[Any]],
    most: int,
) -> Iterator[tuple[list[Task], Any]]:
    """Chunks with what was submitted for each, once it is done.

    A few at a time: the parent's memory does not grow with the number of tasks.
    """
    waiting, running = list(reversed(chunks)), dict[Any, Sequence[Task]]()
    while waiting or running:
        while waiting and len(running) < most:
            chunk = waiting.pop()
            running[submit(chunk)] = chunk
        for done in first_done(list(running)):
            yield list(running.pop(done)), done


def _context() -> BaseContext:
    context = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
    if sys.platform != "win32":
        # Loaded once and shared by all: less memory than a copy in each.
        context.set_forkserver_preload(["utils.dataset.clips.sound"])
    return context


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


def require_ray() -> Any:
    """The package, which only `engine` ray needs.

    Raises:
        UserError: it is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UserError(
            what="engine ray needs a package: ray is not installed",
            fix="pip install -r requirements-scale.txt -c requirements.lock (on every machine), or use engine local",
        ) from error


def _on_ray(
    function: Callable[[Sequence[Task]], list[Result]], chunks: list[Sequence[Task]], workers: int | None
) -> Iterator[tuple[list[Task], list[Result]]]:
    ray = require_ray()
    # Nothing is reported to anybody.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = os.environ.get("RAY_ADDRESS", "local")
    ours = {"num_cpus": workers or usable_cpus(), "include_dashboard": False} if address == "local" else {}
    # All machines see the same checkout, as they see the same recordings and the same output folder.
    root = str(Path(__file__).resolve().parents[3])
    env = {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]), "OMP_NUM_THREADS": "1"}
    begins = not ray.is_initialized()
    try:
        if begins:
            quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
            ray.init(address=address, runtime_env={"env_vars": env}, **quiet, **ours)
        # A task whose process dies is given to another one; the tasks of other processes are not touched.
        work = ray.remote(num_cpus=1, max_retries=3)(_do_remotely)
        shared = ray.put(function)
        for chunk, done in _in_flight(
            chunks,
            submit=lambda chunk: work.remote(shared, chunk),
            first_done=lambda running: ray.wait(running, num_returns=1)[0],
            most=workers or _QUEUED * max(1, round(ray.cluster_resources().get("CPU", 1))),
        ):
            results = ray.get(done)
            if isinstance(results, Exception):
                raise results
            yield chunk, results
    except ConnectionError as error:
        raise UserError(
            what="no Ray cluster answers", where=f"RAY_ADDRESS {address}", fix="start one: ray start --head"
        ) from error
    except ray.exceptions.RayError as error:
        if isinstance(error, ray.exceptions.RayTaskError):
            raise
        raise ProcessDied(
            what=f"a Ray worker ended unexpectedly, four times at the same clips ({type(error).__name__})",
            fix="run the same command again: it resumes where it stopped; fewer --workers need less memory",
        ) from error
    finally:
        if begins:
            ray.shutdown()


def _do_remotely(function: Callable[[Sequence[Any]], list[Any]], chunk: Sequence[Any]) -> list[Any] | Exception:
    """In a process of Ray's: errors for people are handed back, which Ray would wrap in its own."""
    import torch

    torch.set_num_threads(1)
    try:
        return function(chunk)
    except (UserError, OSError) as error:
        return error
