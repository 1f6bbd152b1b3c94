"""Speak over HTTP: python -m utils.cli.speech_server --output output.

OpenAI's routes for speech and those of SillyTavern's XTTS extension; see docs/server.md. The port is open at once, and
the default model is loaded in the background: requests wait for it.
"""

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from types import FrameType

import uvicorn

from utils.cli.common import error_exits, parse
from utils.errors import UserError
from utils.server.access import find_keys, is_loopback
from utils.server.api import SpeechApi
from utils.server.application import create_application
from utils.server.guard import SEND_TIMEOUT_S, http_settings
from utils.server.service import SpeechService
from utils.server.settings import ServerConfig

log = logging.getLogger(
    "utils.cli.speech_server"
)  # Run as a module, __name__ is another one, whose lines are not shown.


def main(args: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C; exits with 2 after a fault that the user can fix."""
    with error_exits():
        serve(parse(ServerConfig, "Speak over HTTP.", args).validate(where="command line"))


def serve(config: ServerConfig) -> None:
    """Serve until this process is asked to stop.

    Raises:
        UserError: the address, a key or the model cannot be used.
    """
    if config.end_with_input:
        threading.Thread(target=_end_with_input, name="end with input", daemon=True).start()
    keys, notice = find_keys(config.api_key, os.environ, config.output.resolve(), make=not is_loopback(config.host))
    if notice:
        print(notice, flush=True)
    host, wyoming = f"[{config.host}]" if ":" in config.host else config.host, None
    if config.wyoming_port is not None:
        if keys and not notice:
            raise UserError(
                what="an API key is set, which clients of the Wyoming port cannot bring",
                where="--wyoming-port",
                fix="start a server without a key for them, at an address that only they reach",
            )
        wyoming = _listen(config.host, config.wyoming_port)
        print(f"Wyoming: tcp://{host}:{wyoming.getsockname()[1]}; anyone who reaches it can use it, without a key.")
    service = SpeechService(config)
    api = SpeechApi(service)
    model = api.find()
    application = create_application(api, keys, wyoming)
    with _listen(config.host, config.port) as listening:
        service.start(model)
        address = f"http://{host}:{listening.getsockname()[1]}"
        print(f"Listening on {address} with the model {model[0]}; Ctrl-C here stops the server.", flush=True)
        # Service managers end it so; it then leaves as app.py does.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        settings = http_settings(application, max_requests=config.max_requests)
        try:
            _Server(settings, service).run(sockets=[listening])
        finally:
            service.close()


def _end_with_input() -> None:
    """Stop this process, as SIGTERM does, once who started it has closed its input or died."""
    # Not through sys.stdin, whose lock this thread would hold when the process leaves for another reason.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


class _Server(uvicorn.Server):
    """Ends the speech first when it is asked to stop; otherwise it would wait until everything is spoken."""

    def __init__(self, config: uvicorn.Config, service: SpeechService) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.stop()
        super().handle_exit(sig, frame)


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        UserError: the address is not this computer's, or in use.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise UserError(
            what=f"the server cannot listen at {host}:{port}: {error.strerror or error}",
            fix="choose another address with --host, or another port",
        ) from error
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # The system drops a connection whose client takes nothing for that long; those accepted inherit it.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SEND_TIMEOUT_S * 1000))
    return listening


if __name__ == "__main__":
    main()
