"""Training in a child process, for callers in Python: as fast as the command line, and Ctrl-C still saves.

OpenMP reads its variables when torch is loaded: a process that has loaded it without them cannot be made as fast. The
child is `utils.training.worker`. It is no `multiprocessing` process, so that scripts without a main guard,
prompts and notebooks can start it.
"""

import json
import logging
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, Any

import psutil

from utils.config import TrainConfig
from utils.errors import UserError
from utils.events.console import say
from utils.events.progress import Progresses
from utils.jobs.environment import child_environment
from utils.jobs.process import ProcessId, end_tree

POLL_S = 0.2
"""How often the end of the child is looked for while it says nothing."""

log = logging.getLogger(__name__)

Message = dict[str, Any]
LAST_WORDS = ("result", "user_error", "error", "interrupted")
"""Kinds of messages after which none follows."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed and the child has ended; `result` is what it had saved by then, if anything."""

    def __init__(self, result: Message | None) -> None:
        super().__init__()
        self.result = result


def train_in_child(config: TrainConfig, *, accept_license: bool, progress: Progresses) -> Message:
    """Train in a child process and wait for it.

    Ctrl-C asks the child to finish its step, save and end; pressed once more, it ends the child at once. When this
    process dies, the child does what the first Ctrl-C does.

    Args:
        config: checked settings.
        accept_license: see `utils.bases.fetch`.
        progress: who is informed, from the thread that waits.

    Returns:
        As `utils.training.worker.train`.

    Raises:
        UserError: what the child found wrong with settings, base, data or disk; or it ended without a word.
        Interrupted: Ctrl-C was pressed.
        RuntimeError: another fault of the child, with its traceback.
    """
    with _Child({"config": vars(config), "accept_license": accept_license}) as child:
        return _follow(child, progress)


def _follow(child: "_Child", progress: Progresses) -> Message:
    is_stopping = False
    while True:
        try:
            while (message := child.next()) is not None:
                _pass_on(message, progress)
            break
        except KeyboardInterrupt:
            if is_stopping:
                raise Interrupted(None) from None
            is_stopping = True
            child.ask_to_stop()
            say(log, "stopping: this step is finished and saved; press Ctrl-C once more to end without saving")
    end = child.end
    if is_stopping and (end is None or end["kind"] in ("interrupted", "result")):
        raise Interrupted(end if end and end["kind"] == "result" else None)
    return _result(end, child.exit_code)


def _pass_on(message: Message, progress: Progresses) -> None:
    """Hand a message on to whom it is for."""
    kind = message["kind"]
    if kind == "phase" and progress.data is not None:
        progress.data(message["what"], message["done"], message["total"])
    elif kind == "step" and progress.steps is not None:
        progress.steps(message["done"], message["total"], message["loss"])
    elif kind == "event" and progress.events is not None:
        progress.events(message["event"], message["fields"])
    elif kind == "log":
        _log(message)
    elif kind == "stderr" and sys.stderr is not None:
        sys.stderr.write(message["line"])


def _log(message: Message) -> None:
    """Log as the child's module would have done here."""
    logger, level = logging.getLogger(message["name"]), message["level"]
    if message["said"]:
        say(logger, message["message"], level=level)
    else:
        logger.log(level, "%s", message["message"])


def _result(end: Message | None, exit_code: int) -> Message:
    """The child's last word.

    Raises:
        UserError, RuntimeError: it is none of success.
    """
    if end is None or end["kind"] == "interrupted":
        how = f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with status {exit_code}"
        advice = "if memory ran out, use a smaller batch_size or enable_grad_checkpoint=True; "
        raise UserError(
            what=f"the process that trains {how}",
            where="train_gpt",
            fix=f'{advice if exit_code == -9 else ""}call train_gpt again with resume="last" to continue from the last '
            "checkpoint, if there is one",
        )
    if end["kind"] == "user_error":
        raise UserError(what=end["what"], where=end["where"], fix=end["fix"])
    if end["kind"] == "error":
        raise RuntimeError(f"training failed in its process:\n{end['traceback']}")
    return end


class _Child:
    """The process, what it says, and its end: it never outlives the block by more than its last step.

    Args:
        request: what it is to do, as JSON values; paths are written as text.
    """

    def __init__(self, request: Message) -> None:
        self._line = json.dumps(request, default=str) + "\n"
        self._messages: queue.Queue[Message] = queue.Queue()
        self.end: Message | None = None
        """Its last word, kept where no interruption of who waits can lose it."""
        self._identity: ProcessId | None = None

    def __enter__(self) -> "_Child":
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "utils.training.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env=child_environment(),
                # Ctrl-C in a terminal is for this process, which then asks the child.
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        except OSError as error:
            raise UserError(what=f"the process that trains could not be started: {error}", where="train_gpt") from error
        try:
            self._begin()
        except BaseException:  # Ctrl-C as well: nobody would end it.
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        with suppress(psutil.NoSuchProcess):
            self._identity = ProcessId.of(self._process.pid)
        pipes = ((self._process.stdout, _parsed), (self._process.stderr, _as_message))
        self._readers = [threading.Thread(target=self._read, args=pipe, daemon=True) for pipe in pipes]
        for reader in self._readers:
            reader.start()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # It has ended already; its last words say why.
            self._process.stdin.write(self._line)
            self._process.stdin.flush()

    def __exit__(self, *_: object) -> None:
        """End what still runs: after a second Ctrl-C, or an error of a caller's own function."""
        # Also where it has ended: processes that it left hold its pipes, and closing those here would wait for them.
        if self._identity is not None:
            end_tree(self._identity, whole_session=True)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()

    @property
    def exit_code(self) -> int:
        return self._process.wait()

    def ask_to_stop(self) -> None:
        """Have it finish its step, save and end."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def next(self) -> Message | None:
        """What it says next; None once it has ended and all was given."""
        while True:
            try:
                return self._messages.get(timeout=POLL_S)
            except queue.Empty:
                if self._process.poll() is None:
                    continue
            # What it said last is on its way; a process it left behind may keep the pipe open for good.
            for reader in self._readers:
                reader.join(timeout=2.0)
            with suppress(queue.Empty):
                return self._messages.get_nowait()
            return None

    def _read(self, pipe: IO[str], parse: Any) -> None:
        with suppress(ValueError):  # The pipe was closed.
            for line in pipe:
                message = parse(line)
                if message["kind"] in LAST_WORDS:
                    self.end = message
                else:
                    self._messages.put(message)


def _parsed(line: str) -> Message:
    """What a line of the answers says; what is none, such as one that a kill tore, is shown as it is."""
    try:
        message = json.loads(line)
        return message if isinstance(message, dict) and "kind" in message else _as_message(line)
    except ValueError:
        return _as_message(line if line.strip() else "")


def _as_message(line: str) -> Message:
    return {"kind": "stderr", "line": line}
