"""The web application: both APIs, health and metrics, behind the guard."""

import socket
from collections.abc import Mapping, Sequence
from itertools import accumulate

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from utils import VERSION
from utils.hardware.resources import process_memory
from utils.inference.generation import FIRST_SOUND_BOUNDS, RequestError
from utils.server import openai_routes, xtts_routes
from utils.server.api import SpeechApi, error_response
from utils.server.guard import Guard
from utils.server.service import SpeechService
from utils.server.wyoming import answering


def create_application(api: SpeechApi, keys: Sequence[str], wyoming: socket.socket | None = None) -> FastAPI:
    """An ASGI application.

    Args:
        api: takes the requests.
        keys: of which a request must bring one; none is needed where there are none.
        wyoming: address at which clients of that protocol connect; None opens no such port.
    """
    service = api.service

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        what = f"{request.method} {request.url.path}: {error.detail}"
        return error_response(RequestError(what=what, status=error.status_code, code="unknown_url"))

    application = FastAPI(
        title="XTTS speech server",
        version=VERSION,
        redoc_url=None,
        lifespan=lambda _: answering(api, wyoming),
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

    openai_routes.add_routes(application, api)
    xtts_routes.add_routes(application, api)
    return application


def metrics(service: SpeechService) -> str:
    """What has happened since the start, in Prometheus' text format (version 0.0.4)."""
    counts, lines = service.counts, list[str]()

    def metric(name: str, kind: str, about: str, samples: float | Mapping[str, float]) -> None:
        lines.extend([f"# HELP xtts_{name} {about}", f"# TYPE xtts_{name} {kind}"])
        found = samples if isinstance(samples, Mapping) else {"": samples}
        lines.extend(f"xtts_{name}{labels} {value}" for labels, value in found.items())

    requests = {f'{{route="{route}",status="{status}"}}': n for (route, status), n in sorted(counts.requests.items())}
    metric("requests_total", "counter", "Answered requests.", requests)
    metric("speech_seconds_total", "counter", "Seconds of speech.", round(counts.speech_s, 3))
    metric("requests_live", "gauge", "Requests being spoken or waiting.", service.num_live)
    metric("queue_length", "gauge", "Requests of which no sentence was begun.", service.num_waiting())
    metric("batch_size", "gauge", "Sentences being decoded.", service.num_active())
    steps = {f'{{sentences="{size}"}}': n for size, n in sorted(counts.steps.copy().items())}
    metric("decode_steps_total", "counter", "Decoding steps by sentences side by side.", steps)
    metric("out_of_memory_total", "counter", "Times that memory ran out.", counts.out_of_memory)
    models = {f'{{model="{name}"}}': size for name, size in service.loaded().items()}
    metric("model_bytes", "gauge", "Memory of loaded models.", models)
    metric("resident_bytes", "gauge", "Memory of the process.", process_memory())
    bounds = [str(bound).replace("inf", "+Inf") for bound in FIRST_SOUND_BOUNDS]
    totals = list(accumulate(counts.first_sounds[bound] for bound in FIRST_SOUND_BOUNDS))
    sounds: dict[str, float] = {f'_bucket{{le="{bound}"}}': total for bound, total in zip(bounds, totals, strict=True)}
    sounds |= {"_sum": round(counts.first_sound_s, 6), "_count": totals[-1]}
    metric("first_sound_seconds", "histogram", "From a request to its first sound.", sounds)
    return "\n".join([*lines, ""])
