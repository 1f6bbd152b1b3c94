"""OpenAI's routes for speech: /v1/audio/speech, /v1/models, /v1/audio/voices.

Fields that OpenAI does not have: language, seed, temperature, top_k, top_p, repetition_penalty, split, and stream
(false waits for the whole speech). Unknown fields are ignored.
"""

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from utils.errors import UserError
from utils.hardware.resources import KEPT_FREE_BYTES, disk_free
from utils.server.catalog import find_listed, list_models, model_voices
from utils.server.faults import ApiError, as_api_error
from utils.server.talk import Desk, check_format, read_json
from utils.speech.voice_library import DEFAULT_VOICE, NamedVoice

OWNER = "xtts-finetuning-studio"
OWN_FIELDS = ("language", "seed", "temperature", "top_k", "top_p", "repetition_penalty", "split", "stream")
FIELD_TYPES = {
    **dict.fromkeys(("input", "model", "voice", "response_format", "stream_format", "language", "split"), "string"),
    **dict.fromkeys(("speed", "temperature", "top_p", "repetition_penalty"), "number"),
    **dict.fromkeys(("seed", "top_k"), "integer"),
    "stream": "boolean",
}
SPEECH_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["input"],
                    "properties": {name: {"type": kind} for name, kind in FIELD_TYPES.items()},
                }
            }
        },
    }
}
"""Of POST /v1/audio/speech, for openapi.json."""
NUMBERS = ("speed", "temperature", "top_p", "repetition_penalty")
UPLOAD_TIMEOUT_S = 300.0
UPLOAD_FIELDS = ("audio_sample", "file")
"""Names under which clients send a recording; the first is OpenAI's."""


def routes(desk: Desk) -> list[Route]:
    """All of them."""

    async def speech(request: Request) -> Response:
        values = await read_json(request)
        form = check_format(values.get("response_format") or "mp3")
        stream_format = values.get("stream_format") or "audio"
        if stream_format not in ("audio", "sse"):
            raise ApiError(400, f"stream_format is {stream_format!r}; use audio or sse.", param="stream_format")
        name = values.get("model")
        if name is not None and not isinstance(name, str):
            raise ApiError(400, "The model is not a name; GET /v1/models lists them.", param="model")
        model = await run_in_threadpool(desk.model_id, name)
        sound = await desk.speak(request, speech_fields(values), model)
        return sound.events(form) if stream_format == "sse" else await sound.response(form)

    async def models(request: Request) -> Response:
        found = await run_in_threadpool(list_models, desk.service.output)
        data = [_model(name) for name, _ in found]
        # Two spellings are used: OpenAI's lists have `data`, open-webui reads `models` and `voices`.
        return JSONResponse({"object": "list", "data": data, "models": data})

    async def model(request: Request) -> Response:
        name = request.path_params["id"]
        await run_in_threadpool(find_listed, desk.service.output, await run_in_threadpool(desk.model_id, name))
        return JSONResponse(_model(name))

    async def voices(request: Request) -> Response:
        name = await run_in_threadpool(desk.model_id, request.query_params.get("model"))
        own = await run_in_threadpool(_voices_of, desk, name)
        uploaded = await run_in_threadpool(desk.recordings.all)
        data = [{"id": voice, "object": "audio.voice", "name": voice} for voice in dict.fromkeys(own)]
        data += [_voice(recording) for recording in uploaded]
        return JSONResponse({"object": "list", "data": data, "voices": data})

    async def add_voice(request: Request) -> Response:
        if disk_free(desk.service.output) < int(request.headers.get("content-length", 0)) + KEPT_FREE_BYTES:
            raise ApiError(507, "The disk does not have enough free space for this upload.", code="disk_full")
        try:
            async with asyncio.timeout(UPLOAD_TIMEOUT_S), request.form(max_files=1, max_fields=8) as values:
                upload = next((v for name in UPLOAD_FIELDS if isinstance(v := values.get(name), UploadFile)), None)
                name = values.get("name")
                if upload is None:
                    raise ApiError(400, "Send a recording as the form's field `audio_sample`.", param="audio_sample")
                if not isinstance(name, str) or not name:
                    raise ApiError(400, "Give the voice a name.", param="name")
                recording = await run_in_threadpool(_keep, desk, name, upload)
        except TimeoutError as error:
            raise ApiError(408, "The upload did not arrive.", code="request_timeout") from error
        except ClientDisconnect as error:
            raise ApiError(413, "The upload was broken off, or is too large.", code="upload_incomplete") from error
        except MultiPartException as error:
            raise ApiError(400, f"The upload is not a valid form: {error.message}.") from error
        return JSONResponse(_voice(recording))

    async def remove_voice(request: Request) -> Response:
        name = request.path_params["id"]
        if not await run_in_threadpool(desk.recordings.remove, name):
            raise ApiError(404, f"No uploaded voice is called {name!r}.", param="voice_id", code="voice_not_found")
        return JSONResponse({"id": name, "object": "audio.voice.deleted", "deleted": True})

    return [
        Route("/v1/audio/speech", speech, methods=["POST"]),
        Route("/v1/models", models),
        Route("/v1/audio/models", models),
        Route("/v1/models/{id:path}", model),
        Route("/v1/audio/voices", voices),
        Route("/v1/audio/voices", add_voice, methods=["POST"]),
        Route("/v1/audio/voices/{id}", remove_voice, methods=["DELETE"]),
    ]


def speech_fields(values: dict[str, Any]) -> dict[str, Any]:
    """Fields of SpeechRequest from those of OpenAI's request and our own.

    Raises:
        ApiError: a voice that is no name.
    """
    voice = values.get("voice")
    if isinstance(voice, dict):
        voice = voice.get("id")
    if voice is not None and not isinstance(voice, str):
        raise ApiError(400, "The voice is not a name.", param="voice")
    fields = {"text": values.get("input"), "voice": voice or DEFAULT_VOICE}
    own = {name: values[name] for name in ("speed", *OWN_FIELDS) if values.get(name) is not None}
    for name, kind in (*dict.fromkeys(NUMBERS, float).items(), ("seed", int), ("top_k", int)):
        # Some clients send the text of a field of theirs. What is no number, the settings' own check names.
        if type(own.get(name)) is int or isinstance(own.get(name), str):
            with suppress(ValueError):
                own[name] = kind(own[name])
    return fields | own


def _keep(desk: Desk, name: str, upload: UploadFile) -> NamedVoice:
    """Store an upload under a name of its own, look at it as at any recording, and keep what models hear of it."""
    suffix = Path(upload.filename or "").suffix[:8]
    with tempfile.NamedTemporaryFile(prefix="voice-", suffix=suffix) as file:
        while part := upload.file.read(2**20):
            file.write(part)
        file.flush()
        try:
            return desk.recordings.add(name, Path(file.name))
        except UserError as error:
            param = "name" if "name" in error.what.split("recording")[0] else "audio_sample"
            # Its temporary path is not shown.
            error_for_client = UserError(what=_without(error.what, file.name), fix=error.fix)
            raise ApiError(400, as_api_error(error_for_client).message, param=param, code="invalid_voice") from error


def _without(text: str, path: str) -> str:
    return text.replace(path, "recording").replace(Path(path).name, "the recording")


def _voices_of(desk: Desk, model_id: str) -> list[str]:
    return model_voices(find_listed(desk.service.output, model_id))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "name": name, "object": "model", "created": 0, "owned_by": OWNER}


def _voice(recording: NamedVoice) -> dict[str, Any]:
    name = recording.name
    return {
        "id": name,
        "object": "audio.voice",
        "name": name,
        "type": "audio_sample",
        "created_at": recording.created,
    }
