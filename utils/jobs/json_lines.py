"""A child process that answers requests: one JSON object a line, over its standard input and output.

A request is an object of the caller's making; a reply is {kind, ...}. The child ends with its input, so that it never
outlives who started it. This is the side of who starts it; replies.py is the child's.
"""

import json
import logging
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

import psutil

from utils.errors import UserError, disk_errors
from utils.runs.process import ProcessId, end_tree

POLL_S = 0.2
"""How often the end of the child is looked for while it says nothing."""
END_TIMEOUT_S = 3.0
"""A child that does not end with its input is killed after this time."""

Message = dict[str, Any]

log = logging.getLogger(__name__)


class JsonChild:
    """A running child, what it says, and its end; any thread may call.

    Args:
        command: program and arguments; no shell reads them.
        env: its environment; None is that of this process.
        stderr: file that takes its standard error; without one, each line comes as a message of the kind `stderr`.
        last_words: kinds after which no message follows; such a one is kept in `last` instead of being given.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None,
        stderr: IO[bytes] | None = None,
        last_words: Collection[str] = (),
    ) -> None:
        self._messages: queue.Queue[Message] = queue.Queue()
        self._last_words = last_words
        self.last: Message | None = None
        """Its last words, kept where no interruption of who waits can lose them."""
        self._writing = threading.Lock()
        self._identity: ProcessId | None = None
        self._readers: list[threading.Thread] = []
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if stderr is None else stderr,
            encoding="utf-8",
            errors="replace",
            env=env,
            # Ctrl-C in a terminal is for the process that starts it, which then ends the child in its own way.
            start_new_session=os.name == "posix",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self.pid = self._process.pid
        try:
            with suppress(psutil.NoSuchProcess):
                self._identity = ProcessId.of(self.pid)
            self._follow(self._process.stdout, parse_line)
            self._follow(self._process.stderr, as_message)
        except BaseException:  # Ctrl-C as well: nothing else would end it.
            self.end(0.0)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(0.0)

    @property
    def returncode(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a request; what JSON does not know, such as a path, is written as text.

        Raises:
            OSError: the child has ended, or its input was closed.
        """
        assert self._process.stdin is not None
        line = json.dumps(message, default=str) + "\n"
        with self._writing:
            if self._process.stdin.closed:
                raise BrokenPipeError("the input is closed")
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def __iter__(self) -> Iterator[Message]:
        """What it says, each as soon as it does, until it has ended and all was given."""
        while self.returncode is None:
            with suppress(queue.Empty):
                yield self._messages.get(timeout=POLL_S)
        yield from self.new()

    def new(self) -> Iterator[Message]:
        """What it has said since the last call; does not wait for more."""
        if self.returncode is not None:
            # What it said last is on its way; a process it left behind may keep the pipe open.
            for reader in self._readers:
                reader.join(timeout=2.0)
        with suppress(queue.Empty):
            while True:
                yield self._messages.get_nowait()

    def close_input(self) -> None:
        """Tell it to end, in its own way and time."""
        assert self._process.stdin is not None
        with self._writing, suppress(OSError):
            self._process.stdin.close()

    def end(self, timeout_s: float | None = None) -> int:
        """Close its input, give it time to end, then kill what is left of it and below it.

        Returns:
            Its exit status.
        """
        self.close_input()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_TIMEOUT_S if timeout_s is None else timeout_s)
        if os.name == "posix":
            # Here, because `end_tree` would take its exit status; what it started is still found by its session.
            self._process.kill()
            self._process.wait()
        # Also where it has ended: a process that it left behind would hold its pipes.
        if self._identity is not None:
            end_tree(self._identity, whole_session=True)
        return self._process.wait()

    def _follow(self, pipe: IO[str] | None, parse: Callable[[str], Message]) -> None:
        def read(pipe: IO[str]) -> None:
            with pipe:
                for line in pipe:
                    message = parse(line)
                    if message["kind"] in self._last_words:
                        self.last = message
                    else:
                        self._messages.put(message)

        if pipe is not None:
            self._readers.append(threading.Thread(target=read, args=(pipe,), daemon=True))
            self._readers[-1].start()


def logged_child(command: Sequence[str], log: Path, *, env: Mapping[str, str], title: str) -> JsonChild:
    """Start a child whose standard error is a new file.

    Args:
        command: program and arguments.
        log: the file.
        env: the child's environment.
        title: what it is, for people.

    Raises:
        UserError: it cannot be started, or the file cannot be written.
    """
    with disk_errors():
        log.parent.mkdir(parents=True, exist_ok=True)
        errors = log.open("wb")
    with errors:
        try:
            return JsonChild(command, env=env, stderr=errors)
        except OSError as error:
            raise UserError(what=f"{title} could not be started: {error}") from error


def parse_line(line: str) -> Message:
    """What a line of the replies says; what is none, such as one that a kill tore, comes as it is."""
    try:
        message = json.loads(line)
        return message if isinstance(message, dict) and "kind" in message else as_message(line)
    except ValueError:
        return as_message(line if line.strip() else "")


def as_message(line: str) -> Message:
    return {"kind": "stderr", "line": line}
