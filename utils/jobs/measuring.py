"""Have another process measure how models speak: one request, one answer; see `utils.evaluation.by_ear`."""

import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from utils.hardware.environment import child_environment
from utils.jobs.json_lines import JsonChild, Message

COMMAND = (sys.executable, "-m", "utils.evaluation")
ASK_S = 0.05
"""How often the answer is looked for."""

log = logging.getLogger(__name__)


def measure_speech(
    run: Path,
    *,
    seconds: float,
    command: Sequence[str] = COMMAND,
    is_stopped: Callable[[], bool] = lambda: False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    **request: Any,
) -> Message:
    """What the measuring process answers; it has ended when this returns.

    Args:
        run: the run's folder; its base speaks in the voice of its reference.wav.
        seconds: time that it has, from its start.
        command: program and arguments of the process; given for tests.
        is_stopped: whether to end it early.
        on_progress: called with texts spoken, in all.
        request: `language`, `device`, `least_texts`, and either `checkpoints`, the first of which are measured where
            time is short, and `clips` with the {text, audio} that they speak, or `model`, an exported one, and `texts`.

    Returns:
        The answer: `measured` with the figures, or `failed` or `skipped` with the reason.
    """
    environment = speaking_environment()
    if "WORLD_SIZE" in os.environ:
        # A launcher gives each process one thread; the others only wait now.
        environment.pop("OMP_NUM_THREADS", None)
    deadline, said = time.monotonic() + seconds, deque[str](maxlen=20)
    try:
        with JsonChild(command, env=environment) as child:
            child.send({**request, "run": run.absolute(), "seconds": seconds})
            while True:
                has_ended = child.returncode is not None
                for message in child.new():
                    if message["kind"] == "progress":
                        on_progress(message["done"], message["total"])
                    elif message["kind"] != "stderr":
                        return message
                    else:
                        said.append(message["line"].rstrip())
                if is_stopped():
                    return skipped("a stop was requested")
                if has_ended:
                    log.warning("the measuring process said:\n%s", "\n".join(said))
                    return {"kind": "failed", "reason": f"the measuring process ended (status {child.returncode})"}
                if time.monotonic() > deadline:
                    return {"kind": "failed", "reason": f"it took longer than {seconds:.0f} s"}
                time.sleep(ASK_S)
    except OSError as error:
        return {"kind": "failed", "reason": str(error)}


def skipped(reason: str) -> Message:
    """The answer where nothing is measured."""
    return {"kind": "skipped", "reason": reason}


def speaking_environment(**changes: str) -> dict[str, str]:
    """Variables of a process that speaks with a run's checkpoints: the same utils as here; with `changes`."""
    own = child_environment(**changes, OMP_WAIT_POLICY="PASSIVE")
    # A distributed trainer's variables would make the worker wait for other processes.
    return {
        name: value for name, value in own.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")
    }
