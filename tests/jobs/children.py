"""Small programs that stand in for long work: each gets its job's folder and writes events as training does.

The programs import nothing of ours, so that a test waits for what it tests and not for imports.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from utils import jobs
from utils.config import Device, TrainConfig
from utils.runs.log import Event, read_events
from utils.runs.record import JOB_FILE, read_record

HEAD = """
import json, os, signal, subprocess, sys, time
folder = sys.argv[1]
def tell(kind, **fields):
    with open(os.path.join(folder, "events.jsonl"), "a") as log:
        log.write(json.dumps({"time": time.time(), "kind": kind, **fields}) + "\\n")
def rest(seconds=60.0):
    time.sleep(seconds)
"""

POLITE = """
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
tell("started", total_steps=1000)
step = 0
while not stop:
    step += 1
    tell("step", step=step, loss=1 / step)
    rest(0.02)
tell("stopped", step=step)
sys.exit(143)
"""
"""Trains until it is asked to stop, finishes its step and says so."""

STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);" \\
    "print(subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)']).pid, flush=True);" \\
    "time.sleep(60)"
middle = subprocess.Popen([sys.executable, "-S", "-c", child], stdout=subprocess.PIPE, text=True)
# A child of a child that has ended: no child of ours, but of our session.
orphan = subprocess.Popen(
    [sys.executable, "-S", "-c", "import subprocess, sys; print(subprocess.Popen([sys.executable, '-S', '-c', "
     "'import time; time.sleep(60)'], stdout=subprocess.DEVNULL).pid)"], stdout=subprocess.PIPE, text=True)
tell("started", pids=[os.getpid(), middle.pid, int(middle.stdout.readline()), int(orphan.communicate()[0])])
while True:
    rest()
"""
"""Ignores requests to stop, and has a child, a grandchild and an orphan."""

FINISHES = 'tell("started"); tell("step", step=1, loss=0.5); tell("finished", best_loss=0.5)'
FAILS = 'print("Traceback: oh no"); tell("started"); tell("failed", error="ValueError: oh no"); sys.exit(1)'
VANISHES = 'tell("started"); os.kill(os.getpid(), signal.SIGKILL)'
SILENT = "rest()"
"""Says nothing and dies at the first request, as a program does that is still loading."""


def child(body: str) -> Callable[[Path], Sequence[str]]:
    """The command of a job that does this."""
    return lambda folder: [sys.executable, "-S", "-c", HEAD + body, str(folder)]


def eventually(condition: Callable[[], object], *, timeout_s: float = 15.0) -> None:
    """Wait until something is so.

    Raises:
        AssertionError: it did not become so.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def config_of(
    output: Path, *, project: str = "voice", device: Device = "cpu", resume: Path | None = None
) -> TrainConfig:
    return TrainConfig(project=project, output=output, device=device, resume=resume)


def started(output: Path, body: str, **settings: Any) -> jobs.Job:
    """A training job that does this instead."""
    return jobs.start("train", config_of(output, **settings), command=child(body))


def ended(job: jobs.Job) -> jobs.Job:
    """The job once it has ended."""
    return jobs.wait(job.folder, 15)


def begun(job: jobs.Job) -> list[Event]:
    """The events of a job, once it has begun to write them."""
    eventually(lambda: job.events.is_file() and job.events.read_bytes().endswith(b"\n"))
    return list(read_events(job.events))


def edit_record(job: jobs.Job, **changes: object) -> None:
    path = job.folder / JOB_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def await_exit_code(folder: Path) -> None:
    """Return once the end of a job's process was noted in its record."""
    eventually(lambda: (record := read_record(folder)) and record.exit_code is not None)
