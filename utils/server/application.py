"""The web application: both APIs, health and metrics, behind the guard."""

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from utils.server import openai_routes, xtts_routes
from utils.server.faults import ApiError
from utils.server.guard import Guard, ServerAccess
from utils.server.metrics import Metrics
from utils.server.talk import Desk


def create_application(desk: Desk, access: ServerAccess) -> FastAPI:
    """An ASGI application.

    Args:
        desk: takes the requests.
        access: whom to answer.
    """
    service = desk.service
    metrics = Metrics(service)

    async def health(request: Request) -> Response:
        state = "failed" if service.has_died else "ok" if service.is_ready else "loading"
        content = {"status": state, "device": service.device, "models": sorted(service.loaded())}
        return JSONResponse(content, status_code=503 if service.has_died else 200)

    async def numbers(request: Request) -> Response:
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = f"{request.method} {request.url.path}: {error.detail}."
        return ApiError(error.status_code, message, code="unknown_url").response()

    application = FastAPI(
        title="XTTS speech server",
        redoc_url=None,
        middleware=[Middleware(Guard, access=access, metrics=metrics)],
        exception_handlers={HTTPException: refuse},
    )
    own = [Route("/health", health), Route("/metrics", numbers)]
    for route in (*own, *openai_routes.routes(desk), *xtts_routes.routes(desk)):
        body = openai_routes.SPEECH_BODY if route.path == "/v1/audio/speech" else None
        for method in sorted(route.methods or ()):
            application.add_api_route(
                route.path,
                route.endpoint,
                methods=[method],
                response_model=None,
                # A path with a slash at the end is the same one again.
                include_in_schema=method != "HEAD" and not route.path.endswith("/"),
                openapi_extra=body,
            )
    return application
