"""The speech server as a child process of the page, which it never outlives; without torch."""

import logging
import os
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from utils.errors import UserError
from utils.hardware.environment import child_environment
from utils.jobs.json_lines import JsonChild, logged_child
from utils.runs.log import last_lines
from utils.server.access import KEY, find_keys, is_loopback
from utils.server.settings import ServerConfig

START_S = 180.0
"""A start that takes longer has failed; loading libraries takes most of it."""
ANY_HOST = ("0.0.0.0", "::")
_LISTENING = re.compile(r"Listening on (http://\S+) with the model (\S+);")

log = logging.getLogger(__name__)


class Served(NamedTuple):
    """Where a running server answers."""

    address: str
    model: str
    """Speaks where a request names none."""
    key: str
    """What requests must bring, or the variable that holds it; empty where no key is needed."""


class ServerChild:
    """Starts and stops one speech server; any thread may call.

    Args:
        output: the folder that holds all projects.
        command: program and arguments of the server before its flags; given for tests.
    """

    def __init__(self, output: Path, *, command: Sequence[str] | None = None) -> None:
        self._output = output
        self._log = output / ".jobs" / "speech-server.log"
        self._command = list(command) if command else [sys.executable, "-m", "utils.cli.speech_server"]
        self._changing = threading.Lock()
        self._process: JsonChild | None = None
        self._served: Served | None = None

    @property
    def state(self) -> Literal["off", "starting", "on", "ended"]:
        """`ended` is a server that was not stopped on request."""
        process = self._process
        if process is None:
            return "off"
        if process.returncode is not None:
            return "ended"
        return "on" if self._served else "starting"

    @property
    def served(self) -> Served | None:
        """Where it answers; None unless it does."""
        return self._served if self.state == "on" else None

    @property
    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(line for line in last_lines(self._log, 5) if line.strip())

    def start(self, *, host: str, port: int) -> Served:
        """Start it; returns when it listens. Its model is loaded in the background.

        Raises:
            UserError: a server runs already, the address or a key cannot be used, or it did not start.
        """
        ServerConfig(host=host, port=port).validate(where="speech server")
        with self._changing:
            if self.state in ("starting", "on"):
                how = f"running at {self._served.address}" if self._served else "starting"
                raise UserError(what=f"the speech server is already {how}", fix="stop it first")
            key = _key(host, self._output)
            flags = ["--host", host, "--port", str(port), "--output", str(self._output.absolute()), "--end-with-input"]
            command = [*self._command, *flags]
            process = logged_child(command, self._log, env=child_environment(), title="the speech server")
            self._process, self._served = process, None
        slow = threading.Timer(START_S, process.end)
        slow.daemon = True
        slow.start()
        try:
            for message in process:
                if found := _LISTENING.search(message.get("line", "")):
                    self._served = Served(_reachable(found[1]), found[2], key)
                    return self._served
            if self._process is not process:
                raise UserError(what="the speech server was stopped before it listened")
            what = f"the speech server did not start: {self.last_words or 'no message'}"
            raise UserError(what=what, where=str(self._log))
        except BaseException:
            self.stop()
            raise
        finally:
            slow.cancel()

    def stop(self) -> bool:
        """End it; whether there was one."""
        with self._changing:
            process, self._process, self._served = self._process, None, None
        if process is None:
            return False
        was_running = process.returncode is None
        process.end()
        return was_running


def _key(host: str, output: Path) -> str:
    """What requests must bring; a key that was made is made here, before the server reads it."""
    keys, notice = find_keys("", dict(os.environ), output, make=not is_loopback(host))
    if not keys:
        return ""
    # A key that the administrator set is not shown to everyone who uses the page.
    return keys[0] if notice else f"${KEY}"


def _reachable(address: str) -> str:
    """An address to ask at: any address of this computer is no address."""
    for host in ANY_HOST:
        address = address.replace(f"//{host}:", "//127.0.0.1:").replace(f"//[{host}]:", "//[::1]:")
    return address


def curl(served: Served) -> str:
    """A line for a terminal that has the server speak."""
    key = f' -H "Authorization: Bearer {served.key}"' if served.key else ""
    body = f'{{"model": "{served.model}", "voice": "default", "input": "Hello there."}}'
    return f"curl {served.address}/v1/audio/speech{key} -H 'Content-Type: application/json' -o hello.mp3 -d '{body}'"
