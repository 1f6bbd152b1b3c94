"""Small programs that stand in for the worker: they answer at once, and import nothing of ours."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from utils.options import SpeechSettings
from utils.project.paths import Project
from utils.speech.take_queue import GenerationQueue
from utils.speech.takes import Take, read_take
from utils.speech.worker_client import SpeechWorker

HEAD = """
import json, os, queue, signal, sys, threading, time, wave
def reply(request, kind, **fields):
    print(json.dumps({"kind": kind, "id": request["id"], **fields}), flush=True)
def write(path):
    with wave.open(path, "wb") as out:
        out.setnchannels(1); out.setsampwidth(2); out.setframerate(24000); out.writeframes(b"\\0\\0" * 2400)
lines, cancelled, unwanted = queue.Queue(), threading.Event(), set()
def read():
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "cancel":
            unwanted.add(request["id"])
            cancelled.set()
        else:
            lines.put(request)
    os._exit(0)
threading.Thread(target=read, daemon=True).start()
def say(request, line, number=1):
    name = f"{line['number']:04}-{number:03}.wav"
    write(os.path.join(request["folder"], name))
    reply(request, "sentence", line=line["number"], text=line["text"], file=name,
          audio_s=0.1, took_s=0.0, finished=True)
def end_line(request, line):
    name = f"{line['number']:04}.wav"
    write(os.path.join(request["folder"], name))
    reply(request, "line", line=line["number"], file=name)
"""

QUICK = """
while True:
    request = lines.get()
    cancelled.clear()
    if request["id"] in unwanted:
        cancelled.set()
    reply(request, "loaded", device="cpu", checkpoint="step-00000007", precision="fp32", speakers=[])
    for line in request["lines"]:
        say(request, line)
        if "slow" in line["text"] and cancelled.wait():
            break
        if "crash" in line["text"]:
            print("MemoryError: no room for the weights", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if "unreadable" in line["text"]:
            reply(request, "line_failed", line=line["number"], error="cannot read this")
        else:
            end_line(request, line)
    reply(request, "cancelled" if cancelled.is_set() else "done")
"""
"""Speaks each line as one sentence; a line with `slow` in it waits to be cancelled, and `crash` kills it."""

SILENT = "time.sleep(60)"


def worker(output: Path, body: str = QUICK, **options: float) -> SpeechWorker:
    """A worker that does this instead of speaking."""
    return SpeechWorker(output, command=[sys.executable, "-S", "-c", HEAD + body], **options)


def submit(queue: GenerationQueue, project: Project, *texts: str) -> Take:
    """A take of the tiny base."""
    return queue.submit(project, texts, model="base/tiny", settings=SpeechSettings())


def until(take: Take, condition: Callable[[Take], bool], *, timeout_s: float = 20.0) -> Take:
    """The take once something is so.

    Raises:
        AssertionError: it did not become so.
    """
    deadline = time.monotonic() + timeout_s
    while not condition(now := read_take(take.folder)):
        assert time.monotonic() < deadline, now
        time.sleep(0.02)
    return now


def ended(take: Take, *, timeout_s: float = 20.0) -> Take:
    """The take once it is no longer spoken."""
    return until(take, lambda now: not now.is_live, timeout_s=timeout_s)
