"""Errors in the form of OpenAI's API: {"error": {message, type, param, code}} and an HTTP status."""

import logging
import re
from pathlib import Path

from starlette.responses import JSONResponse

from utils.errors import UserError
from utils.speech.generation import NotSpokenError, UnavailableError

PATH = re.compile(r"""(?<![\w/:.])(?:[A-Za-z]:)?(?:[/\\][^\s/\\'"]+){2,}""")
"""What may be a path of this computer; also a route, such as /v1/models."""

log = logging.getLogger(__name__)


class ApiError(Exception):
    """A request that is not answered as it was meant.

    Args:
        status: of HTTP.
        message: what is wrong and what to do about it.
        param: the field at fault.
        code: a word for programs.
        retry_after_s: when it is worth another try.
    """

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, retry_after_s: int = 0
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.retry_after_s = retry_after_s

    def content(self) -> dict[str, object]:
        """What the client reads."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        if self.status == 429:
            kind = "rate_limit_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        headers = {"Retry-After": str(self.retry_after_s)} if self.retry_after_s else {}
        if self.status in (408, 413):
            # The rest of the body may still come: it is no next request.
            headers["Connection"] = "close"
        return JSONResponse(self.content(), status_code=self.status, headers=headers)


def _last_part(match: re.Match[str]) -> str:
    path = Path(match[0])
    return path.name if Path(*path.parts[:2]).exists() else match[0]


def as_api_error(error: Exception) -> ApiError:
    """Any error as the client is to see it; what only a programmer understands stays in the log."""
    if isinstance(error, ApiError):
        return error
    if not isinstance(error, UserError):
        log.error("a request failed: %s: %s", type(error).__name__, error)
        # Imported late: torch, which is there where it has run out of memory.
        from utils.performance_utils.memory import is_out_of_memory

        if is_out_of_memory(error):
            return ApiError(
                503,
                "The device has too little free memory for this request.",
                code="out_of_memory",
                retry_after_s=UnavailableError.retry_after_s,
            )
        return ApiError(500, "The server failed to speak this; its log says why.", code="internal_error")
    # `where`, and folders that the words name, are this computer's: a client reads the last part of a path.
    words = (PATH.sub(_last_part, part) for part in (error.what, error.fix) if part)
    message = ". ".join(part[:1].upper() + part[1:] for part in words) + "."
    if not isinstance(error, NotSpokenError):
        return ApiError(400, message)
    return ApiError(error.status, message, param=error.param, code=error.code, retry_after_s=error.retry_after_s)
