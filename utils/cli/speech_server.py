"""Speak over HTTP: python -m utils.cli.speech_server --output output.

OpenAI's routes for speech and those of SillyTavern's XTTS extension; see docs/server.md. The port is open at once, and
the default model is loaded in the background: requests wait for it.
"""

import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn

from utils.cli.common import error_exits, parse
from utils.config import Config, Device, SpeechPrecision
from utils.errors import UserError
from utils.project.uploads import GIB
from utils.server.application import create_application
from utils.server.catalog import find_listed
from utils.server.guard import Access
from utils.server.hosts import is_loopback
from utils.server.keys import find_keys
from utils.server.service import SpeechService
from utils.server.talk import Desk, Limits

MAX_PORT = 65_535
MIB = 2**20
CONNECTIONS_A_REQUEST = 4
"""Open connections per request that may be under way; more are answered with 503."""
END_S = 5
"""Answers that are being sent may take so long to end when the server is stopped."""

log = logging.getLogger(
    "utils.cli.speech_server"
)  # Run as a module, __name__ is another one, whose lines are not shown.


@dataclass(frozen=True, kw_only=True)
class ServerConfig(Config):
    """Speak over HTTP."""

    host: str = "127.0.0.1"
    """Address to listen on. On any other than loopback, requests must bring an API key."""
    port: int = 8020
    """Port to listen on; 0 takes a free one."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    model: str = ""
    """Model that is loaded at the start, and speaks where a request names none; the first one when not given."""
    language: str = "en"
    """Language of a request that names none, where the model has none of its own."""
    device: Device = "auto"
    """Where to compute; auto takes a CUDA GPU that no training has."""
    precision: SpeechPrecision = "auto"
    """Data type of the GPT's weights; fp32 is the reference, auto takes 16 bits where they are faster."""
    slots: int = 8
    """Sentences that a model decodes side by side."""
    max_requests: int = 64
    """Requests under way at once; further ones are answered with 429."""
    max_characters: int = 20_000
    """Of a request's text."""
    max_upload_mb: int = 64
    """Of an uploaded recording."""
    max_model_gb: float | None = None
    """Memory for loaded models; 60 % of what is free at the start when not given."""
    api_key: str = ""
    """API key, or @FILE with one a line; default: XTTS_STUDIO_API_KEY or XTTS_STUDIO_API_KEY_FILE. Without one, a
    server that others can reach makes one and prints it once."""
    trusted_host: tuple[str, ...] = ()
    """More host names of this server, such as behind a proxy."""
    allow_origin: tuple[str, ...] = ()
    """Pages of other sites that may ask, such as http://127.0.0.1:8000 for SillyTavern."""

    def problems(self) -> list[str]:
        found = []
        if not 0 <= self.port <= MAX_PORT:
            found.append(f"port is {self.port}; use 0 (any free one) to {MAX_PORT}")
        for name in ("slots", "max_requests", "max_characters", "max_upload_mb"):
            if getattr(self, name) < 1:
                found.append(f"{name} is {getattr(self, name)}; use 1 or more")
        if self.max_model_gb is not None and not self.max_model_gb > 0:
            found.append(f"max_model_gb is {self.max_model_gb}; use more than 0")
        return found


def main(args: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C; exits with 2 after a fault that the user can fix."""
    with error_exits():
        serve(parse(ServerConfig, "Speak over HTTP.", args).validate(where="command line"))


def serve(config: ServerConfig) -> None:
    """Serve until this process is told to stop.

    Raises:
        UserError: the address, a key or the model cannot be used.
    """
    output = config.output.resolve()
    keys, notice = find_keys(config.api_key, os.environ, output, make=not is_loopback(config.host))
    if notice:
        print(notice, flush=True)
    service = SpeechService(
        output,
        device=config.device,
        precision=config.precision,
        slots=config.slots,
        max_requests=config.max_requests,
        max_model_bytes=None if config.max_model_gb is None else int(config.max_model_gb * GIB),
        language=config.language,
    )
    desk = Desk(service, limits=Limits(max_characters=config.max_characters), model=config.model)
    first = desk.default_model()
    model = find_listed(output, first)
    access = Access(
        host=config.host,
        keys=tuple(keys),
        trusted_hosts=config.trusted_host,
        origins=tuple(origin.rstrip("/") for origin in config.allow_origin),
        max_upload_bytes=config.max_upload_mb * MIB,
    )
    with _listen(config.host, config.port) as listening:
        service.start((first, model))
        port = listening.getsockname()[1]
        host = f"[{config.host}]" if ":" in config.host else config.host
        print(f"Listening on http://{host}:{port} with the model {first}; Ctrl-C here stops the server.", flush=True)
        # Service managers end it so; it then leaves as app.py does.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        settings = uvicorn.Config(
            create_application(desk, access),
            log_config=None,
            log_level="critical",  # the guard logs what failed
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS_A_REQUEST * config.max_requests,
            timeout_graceful_shutdown=END_S,
        )
        try:
            _Server(settings, service).run(sockets=[listening])
        finally:
            service.close()


class _Server(uvicorn.Server):
    """Ends the speech first when it is told to stop: otherwise it would wait until all is said."""

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
            fix="choose another address with --host and --port",
        ) from error
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # The system drops a connection whose client takes nothing for so long; those accepted inherit it.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(Access.send_timeout_s * 1000))
    return listening


if __name__ == "__main__":
    main()
