"""The web application: both APIs, health and metrics, behind the guard; and a server made of its settings."""

import socket
from collections.abc import Sequence
from typing import NamedTuple

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from utils import VERSION
from utils.jobs.device import require_usable
from utils.server import openai_routes, xtts_routes
from utils.server.catalog import find_listed
from utils.server.faults import ApiError
from utils.server.guard import Guard
from utils.server.metrics import metrics
from utils.server.service import SpeechService
from utils.server.settings import ServerConfig
from utils.server.talk import Desk
from utils.server.wyoming import answering
from utils.speech.models import SpeakingModel


def create_application(desk: Desk, keys: Sequence[str], wyoming: socket.socket | None = None) -> FastAPI:
    """An ASGI application.

    Args:
        desk: takes the requests.
        keys: of which a request must bring one; none is needed where there are none.
        wyoming: where clients of that protocol connect; None for nowhere.
    """
    service = desk.service

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = f"{request.method} {request.url.path}: {error.detail}."
        return ApiError(error.status_code, message, code="unknown_url").response()

    application = FastAPI(
        title="XTTS speech server",
        version=VERSION,
        redoc_url=None,
        lifespan=lambda _: answering(desk, wyoming),
        middleware=[Middleware(Guard, config=service.config, keys=keys, counts=service.counts)],
        exception_handlers={HTTPException: refuse},
    )

    @application.get("/health", response_model=None)
    async def health() -> Response:
        state = "failed" if service.has_died else "ok" if service.is_ready else "loading"
        content = {"status": state, "device": service.device, "models": sorted(service.loaded())}
        return JSONResponse(content, status_code=503 if service.has_died else 200)

    @application.get("/metrics", response_model=None)
    async def numbers() -> Response:
        return PlainTextResponse(metrics(service), media_type="text/plain; version=0.0.4")

    openai_routes.add_routes(application, desk)
    xtts_routes.add_routes(application, desk)
    return application


class SpeechServer(NamedTuple):
    """A server that listens nowhere yet."""

    application: FastAPI
    service: SpeechService
    model: tuple[str, SpeakingModel]
    """What speaks where a request names no model, and its id."""


def build_server(config: ServerConfig, keys: Sequence[str], wyoming: socket.socket | None = None) -> SpeechServer:
    """A server as the settings say.

    Args:
        config: the settings.
        keys: API keys of which a request must bring one; none is needed where there are none.
        wyoming: as in `create_application`.

    Raises:
        UserError: the device or the model cannot be used.
    """
    require_usable(config.device)
    service = SpeechService(config)
    desk = Desk(service)
    model = desk.default_model()
    application = create_application(desk, keys, wyoming)
    return SpeechServer(application=application, service=service, model=(model, find_listed(service.output, model)))
