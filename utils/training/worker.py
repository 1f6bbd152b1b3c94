"""The process that trains for `train_gpt`: python -m utils.training.worker; see `utils.training.child`.

Its input is one line of JSON, what to train, and then stays open as long as a caller waits for the run: at its end this
process finishes the step, saves and leaves. Its replies follow `utils.jobs.json_lines`.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from typing import Any

from utils.callbacks import Progresses
from utils.config import TrainConfig
from utils.console import SAID, take_input, take_output
from utils.errors import UserError, disk_errors
from utils.jobs.replies import Replies
from utils.jobs.stop import STOP_TIMEOUT_S
from utils.project.paths import Project
from utils.runs.layout import BASE_FOLDER, REFERENCE_FILE

ORPHANED_S = 0.2
"""A process that ends closes its pipes a moment before its children are another's."""


class LogReplies(logging.Handler):
    """Sends log records to the process that waits."""

    def __init__(self, replies: Replies) -> None:
        super().__init__()
        self._replies = replies
        self._owner = os.getpid()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a log record; a forked process has no part in the pipe, and writes to standard error."""
        if os.getpid() != self._owner:
            sys.stderr.write(f"{self.format(record)}\n")
            return
        self._replies.send(
            "log",
            name=record.name,
            level=record.levelno,
            message=self.format(record),
            said=hasattr(record, SAID),
        )


def main() -> None:
    """Train what the input says; the last object is the result, a fault, or `interrupted`."""
    replies, pipe = Replies(take_output()), take_input()
    line = b""  # Read without a buffer that would hold what follows.
    while not line.endswith(b"\n") and (part := os.read(pipe, 1)):
        line += part
    request = json.loads(line)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[LogReplies(replies)])
    logging.getLogger("utils").setLevel(logging.INFO)
    try:
        threading.Thread(target=_heed_input, args=(pipe, os.getppid()), name="input", daemon=True).start()
        with disk_errors():
            config = TrainConfig.from_values(request["config"], where="train_gpt")
            # Each by its name in `Progresses`, with what it is called with.
            reports: dict[str, Any] = {
                name: lambda *args, name=name: replies.send(name, args=args) for name in ("data", "steps", "events")
            }
            result = train(config, accept_license=request["accept_license"], progress=Progresses(**reports))
        # It is saved: who presses Ctrl-C now gets the result.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        replies.send("result", **result)
    except UserError as error:
        replies.send("user_error", what=error.what, where=error.where, fix=error.fix)
    except (KeyboardInterrupt, SystemExit):
        replies.send("interrupted")
    except Exception:  # noqa: BLE001 - the process's edge.
        # Who waits raises it again.
        replies.send("error", traceback=traceback.format_exc())


def train(config: TrainConfig, *, accept_license: bool, progress: Progresses) -> dict[str, Any]:
    """Train in this process.

    Args:
        config: checked settings.
        accept_license: see `utils.bases.download`.
        progress: who is informed.

    Returns:
        The fields of `utils.gpt_train.TrainedModel`, and `stop_signal`, as JSON values.

    Raises:
        UserError: a fault of settings, base, data or disk.
    """
    # Imported late: loading torch takes seconds, in which the end of the input must be noticed.
    from utils.bases.download import fetch_base

    # The folder is the caller's own choice: it need not obey the rules for project names.
    project = Project(name=config.project, output=config.output)
    if config.resume is None:
        project.require_dataset(config.train_csv, config.eval_csv)
    fetch_base(config.base, accept_license=accept_license, progress=progress.data)
    from utils.training.train import fine_tune

    result = fine_tune(config, project=project, progress=progress)
    names = {"speaker_path": "speakers_xtts.pth", "config": "config.json", "vocab": "vocab.json"}
    paths = {name: result.folder / BASE_FOLDER / file for name, file in names.items()}
    paths |= {"exp_path": result.folder, "checkpoint": result.checkpoint, "ref_audio": result.folder / REFERENCE_FILE}
    return {name: str(path) for name, path in paths.items()} | {"stop_signal": result.stop_signal}


def _heed_input(pipe: int, parent: int) -> None:
    """At the end of the input do what Ctrl-C does: it was pressed, or no caller waits for this run any more."""
    while os.read(pipe, 4096):
        pass
    deadline = time.monotonic() + ORPHANED_S
    while os.getppid() == parent and time.monotonic() < deadline:
        time.sleep(0.01)
    if os.getppid() != parent:
        # No process reads what libraries print: a broken pipe must not keep the run from saving.
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nothing, stream.fileno())
    if os.name == "posix":
        # To the main thread itself, so that a call it waits in is interrupted.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)
    time.sleep(STOP_TIMEOUT_S)
    os._exit(1)


if __name__ == "__main__":
    main()
