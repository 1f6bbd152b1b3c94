"""Client of the speaking worker, and of others like it: one request at a time, replies as they come.

Requests are JSON objects, one a line, on the worker's standard input: {do: "speak" | "cancel", id, ...}.
Replies are {kind, id, ...} with the kinds loaded, chunk, sentence, line, line_failed, done, cancelled, failed. A chunk
is sound of a sentence that is being spoken. The first request starts the worker. It keeps its model, and ends when it
is released, after a long idle time, or when training takes its device.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from utils.errors import UserError
from utils.hardware.environment import child_environment
from utils.jobs.device import CPU, device_holder, free_device
from utils.jobs.json_lines import JsonChild, Message, logged_child
from utils.options import Device
from utils.runs.log import last_lines
from utils.runs.record import Job

IDLE_S = 600.0
"""A worker without requests for this long releases its memory."""
POLL_S = 0.5
FINAL = ("done", "cancelled", "failed")

WorkerState = Literal["off", "starting", "ready", "busy"]

log = logging.getLogger(__name__)


class ReleasedError(UserError):
    """The worker was released while it was speaking."""


class SpeechWorker:
    """Starts the process that speaks and talks to it; any thread may call.

    Args:
        output: the folder that holds all projects; the worker's log lies there.
        command: program and arguments of the worker; given for tests.
        idle_s: release it after this time without a request.
        module: what the worker runs otherwise.
        log: name of its log.
    """

    def __init__(
        self,
        output: Path,
        *,
        command: Sequence[str] | None = None,
        idle_s: float = IDLE_S,
        module: str = "utils.inference.worker",
        log: str = "speech.log",
    ) -> None:
        self._output = output
        self._log = output / ".jobs" / log
        self._command = list(command) if command else [sys.executable, "-m", module]
        self._idle_s = idle_s
        self._changing = threading.RLock()
        """Held while the process is started or ended."""
        self._process: JsonChild | None = None
        self._device = ""
        self._released = ""
        self._last_used = time.monotonic()
        self._number = 0
        """Of the request that is being answered, or was last."""
        self._is_asking = False

    @property
    def state(self) -> WorkerState:
        """Whether it is there, and whether it works."""
        process = self._process
        if process is None or process.returncode is not None:
            return "off"
        return "busy" if self._is_asking else "ready"

    @property
    def device(self) -> str:
        """What it computes on, cpu or cuda:N; empty when it is off."""
        return self._device if self.state != "off" else ""

    def ask(
        self, request: Message, *, device: Device = "auto", is_unwanted: Callable[[], bool] = bool
    ) -> Iterator[Message]:
        """Send a request and give each answer as it comes; for one thread.

        Args:
            request: `do` and what belongs to it; the id is added here.
            device: where to compute; auto takes the CPU while training has the GPU.
            is_unwanted: whether it was cancelled before it was sent; afterwards `cancel` does that.

        Raises:
            ReleasedError: the worker was released meanwhile.
            UserError: the worker could not be started or died.
        """
        process = self._started(device)
        self._number, self._is_asking = self._number + 1, True
        try:
            self._send(process, {**request, "id": self._number})
            if is_unwanted():
                self.cancel()
            for reply in process:
                self._last_used = time.monotonic()
                if reply.get("id") == self._number:
                    yield reply
                    if reply["kind"] in FINAL:
                        self._last_used = time.monotonic()
                        return
            raise self._end_of(process)
        finally:
            self._is_asking = False

    def cancel(self) -> None:
        """Have the request that is being answered end with `cancelled`; nothing happens when there is none."""
        process = self._process
        if process is not None and self._is_asking:
            with suppress(OSError, UserError):
                self._send(process, {"do": "cancel", "id": self._number})

    def release(self, reason: str) -> bool:
        """End the worker and give its device and memory back; returns when it is gone.

        Args:
            reason: what a request in progress says to its user.

        Returns:
            Whether there was a worker.
        """
        with self._changing:
            process, self._process = self._process, None
            if process is None or process.returncode is not None:
                return False
            self._released = reason
            log.info("inference process unloaded: %s", reason)
            process.end()
            return True

    def _started(self, device: Device) -> JsonChild:
        """The running worker on the wanted device.

        Raises:
            UserError: it cannot be started.
        """
        with self._changing:
            self._last_used = time.monotonic()
            wanted = free_device(device, self._output)
            if self._process is not None and (self._process.returncode is not None or wanted != self._device):
                self.release("another device was selected")
                self._process = None
            if self._process is None:
                self._released, self._device = "", wanted
                # A GPU was free when it was chosen; beside a training on the CPU it speaks on purpose.
                before = device_holder(CPU, self._output) if wanted == CPU else None
                kind = CPU if wanted == CPU else "cuda"
                command, title = [*self._command, "--device", kind], "the process that speaks"
                hidden = {"CUDA_VISIBLE_DEVICES": ""} if kind == CPU else {}
                self._process = logged_child(command, self._log, env=child_environment(**hidden), title=title)
                watched = (self._process, wanted, before)
                threading.Thread(target=self._watch, args=watched, name="speech", daemon=True).start()
            return self._process

    def _send(self, process: JsonChild, message: Message) -> None:
        try:
            process.send(message)
        except OSError as error:
            raise self._end_of(process) from error

    def _end_of(self, process: JsonChild) -> UserError:
        """Why there will be no more answers."""
        code = process.end()
        with self._changing:
            if self._process is process:
                self._process = None
            if self._released:
                return ReleasedError(what=self._released)
        said = [line for line in last_lines(self._log, 20) if line.strip()]
        ending = f"killed by signal {-code}" if code < 0 else f"status {code}"
        return UserError(
            what=f"the inference process ended unexpectedly ({ending}): {said[-1] if said else 'no message'}",
            where=str(self._log),
            fix="try again; if memory ran out, close other programs or use the CPU",
        )

    def _watch(self, process: JsonChild, device: str, before: Job | None) -> None:
        """Release the worker when training takes its device, or after a time without requests.

        Args:
            process: the worker.
            device: what it computes on.
            before: the job that had the device before the worker began, and does not mind.
        """
        while process.returncode is None and self._process is process:
            time.sleep(POLL_S)
            holder = device_holder(device, self._output)
            if holder is not None and (before is None or holder.folder != before.folder):
                self.release(f"stopped, because the {holder.kind} job {holder.name!r} started and needs the device")
            elif not self._is_asking and time.monotonic() - self._last_used > self._idle_s:
                self.release("idle")
            before = holder
