"""The web application: both APIs, health and metrics, behind the guard."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from utils.server import openai_routes, xtts_routes
from utils.server.faults import ApiError
from utils.server.guard import Access, Guard
from utils.server.metrics import Metrics
from utils.server.talk import Desk


def create_application(desk: Desk, access: Access) -> Starlette:
    """An ASGI application.

    Args:
        desk: takes the requests.
        access: whom to answer.
    """
    service = desk.service
    metrics = Metrics(service)

    async def health(request: Request) -> Response:
        state = "ok" if service.is_ready else "loading"
        return JSONResponse({"status": state, "device": service.device, "models": sorted(service.loaded())})

    async def numbers(request: Request) -> Response:
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = f"{request.method} {request.url.path}: {error.detail}."
        return ApiError(error.status_code, message, code="unknown_url").response()

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/metrics", numbers),
            *openai_routes.routes(desk),
            *xtts_routes.routes(desk),
        ],
        middleware=[Middleware(Guard, access=access, metrics=metrics)],
        exception_handlers={HTTPException: refuse},
    )
