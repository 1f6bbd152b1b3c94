"""The side of a child process that answers requests; see `utils.jobs.json_lines`."""

import json
import os
import queue
import threading
from collections.abc import Iterator
from typing import IO, Any

from utils.jobs.json_lines import Message


class Replies:
    """The child's output; there may be no reader any more.

    Args:
        pipe: what `utils.console.take_output` gives, so that no library prints in between.
    """

    def __init__(self, pipe: IO[str]) -> None:
        self._pipe: IO[str] | None = pipe
        self._writing = threading.RLock()

    def send(self, kind: str, **fields: Any) -> None:
        """Send one reply; any thread may call."""
        with self._writing:
            if self._pipe is None:
                return
            try:
                # An interruption may have torn the line before this one.
                self._pipe.write("\n" + json.dumps({"kind": kind, **fields}, default=str) + "\n")
                self._pipe.flush()
            except OSError:
                self._pipe = None


class Requests:
    """The child's input: requests in their order, which a cancelling overtakes; its end ends this process.

    Args:
        source: standard input. It is read by a thread, so that its end is noticed during long work.
    """

    def __init__(self, source: IO[str]) -> None:
        self._waiting: queue.Queue[Message] = queue.Queue()
        self.cancelled: set[int] = set()
        """Ids of requests that are no longer wanted, also of those whose turn has not come."""
        threading.Thread(target=self._read, args=(source,), daemon=True).start()

    def __iter__(self) -> Iterator[Message]:
        while True:
            yield self._waiting.get()

    def _read(self, source: IO[str]) -> None:
        for line in source:
            request = json.loads(line)
            if request.get("do") == "cancel":
                self.cancelled.add(request["id"])
            else:
                self._waiting.put(request)
        # Who asked closed the pipe, or died: files appear whole or not at all, so nothing needs to be tidied up.
        os._exit(0)
