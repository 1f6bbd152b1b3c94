"""OpenAI's routes for speech: /v1/audio/speech, /v1/models, /v1/audio/voices.

Fields that OpenAI does not have: language, seed, temperature, top_k, top_p, repetition_penalty, split, and stream
(false waits for the whole speech). Unknown fields are ignored.
"""

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from utils.errors import UserError
from utils.hardware.resources import KEPT_FREE_BYTES, disk_free
from utils.inference.generation import RequestError
from utils.server.api import SpeechApi, check_format, events, files_of, read_json, response
from utils.speech.voice_library import DEFAULT_VOICE, NamedVoice

OWNER = "xtts-finetuning-studio"
OPENAI_FIELDS = ("input", "model", "voice", "response_format", "stream_format")
FIELD_TYPES = {
    **dict.fromkeys((*OPENAI_FIELDS, "language", "split"), "string"),
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
NUMBERS = {"number": float, "integer": int}
UPLOAD_TIMEOUT_S = 300.0
UPLOAD_FIELDS = ("audio_sample", "file")
"""Names under which clients send a recording; the first is OpenAI's."""


def add_routes(application: FastAPI, api: SpeechApi) -> None:
    """All of them."""
    output = api.service.output

    @application.post("/v1/audio/speech", response_model=None, openapi_extra=SPEECH_BODY)
    async def speech(request: Request) -> Response:
        values = await read_json(request)
        form = check_format(values.get("response_format") or "mp3")
        stream_format = values.get("stream_format") or "audio"
        if stream_format not in ("audio", "sse"):
            what = f"stream_format is {stream_format!r}; use audio or sse"
            raise RequestError(what=what, param="stream_format")
        model = values.get("model")
        if model is not None and not isinstance(model, str):
            raise RequestError(what="the model is not a name; GET /v1/models lists them", param="model")
        generation = await api.speak(request.receive, speech_fields(values), model)
        return events(generation, form) if stream_format == "sse" else await response(generation, form)

    @application.get("/v1/audio/models")
    @application.get("/v1/models")
    def models() -> dict[str, Any]:
        data = [_model(name) for name in api.models()]
        # Two spellings are used: OpenAI's lists have `data`, open-webui reads `models` and `voices`.
        return {"object": "list", "data": data, "models": data}

    @application.get("/v1/models/{name:path}")
    def model(name: str) -> dict[str, Any]:
        api.find(name)
        return _model(name)

    @application.get("/v1/audio/voices")
    def voices(model: str | None = None) -> dict[str, Any]:
        own = files_of(api.find(model)).voices
        data = [{"id": voice, "object": "audio.voice", "name": voice} for voice in dict.fromkeys(own)]
        data += [_voice(recording) for recording in api.recordings.all()]
        return {"object": "list", "data": data, "voices": data}

    @application.post("/v1/audio/voices")
    async def add_voice(request: Request) -> dict[str, Any]:
        if disk_free(output) < int(request.headers.get("content-length", 0)) + KEPT_FREE_BYTES:
            what = "the disk does not have enough free space for this upload"
            raise RequestError(what=what, status=507, code="disk_full")
        try:
            async with asyncio.timeout(UPLOAD_TIMEOUT_S), request.form(max_files=1, max_fields=8) as values:
                upload = next((v for name in UPLOAD_FIELDS if isinstance(v := values.get(name), UploadFile)), None)
                name = values.get("name")
                if upload is None:
                    what = "send a recording as the form's field `audio_sample`"
                    raise RequestError(what=what, param="audio_sample")
                if not isinstance(name, str) or not name:
                    raise RequestError(what="give the voice a name", param="name")
                return _voice(await run_in_threadpool(_keep, api, name, upload))
        except TimeoutError as error:
            raise RequestError(what="the upload did not arrive", status=408, code="request_timeout") from error
        except ClientDisconnect as error:
            what = "the upload was broken off, or is too large"
            raise RequestError(what=what, status=413, code="upload_incomplete") from error
        except MultiPartException as error:
            raise RequestError(what=f"the upload is not a valid form: {error.message}") from error

    @application.delete("/v1/audio/voices/{name}")
    def remove_voice(name: str) -> dict[str, Any]:
        if not api.recordings.remove(name):
            what = f"no uploaded voice is called {name!r}"
            raise RequestError(what=what, status=404, param="voice_id", code="voice_not_found")
        return {"id": name, "object": "audio.voice.deleted", "deleted": True}


def speech_fields(values: dict[str, Any]) -> dict[str, Any]:
    """Fields of SpeechRequest from those of OpenAI's request and our own.

    Raises:
        RequestError: a voice that is no name.
    """
    voice = values.get("voice")
    if isinstance(voice, dict):
        voice = voice.get("id")
    if voice is not None and not isinstance(voice, str):
        raise RequestError(what="the voice is not a name", param="voice")
    fields: dict[str, Any] = {"text": values.get("input"), "voice": voice or DEFAULT_VOICE}
    for name, kind in FIELD_TYPES.items():
        value = values.get(name)
        # Some clients send the text of a field of theirs. What is no number, the settings' own check names.
        if kind in NUMBERS and (type(value) is int or isinstance(value, str)):
            with suppress(ValueError):
                value = NUMBERS[kind](value)
        if value is not None and name not in OPENAI_FIELDS:
            fields[name] = value
    return fields


def _keep(api: SpeechApi, name: str, upload: UploadFile) -> NamedVoice:
    """Store an upload under a name of its own, look at it as at any recording, and keep what models hear of it."""
    from utils.server.loaded import keep_recording  # takes seconds, and is there once the engine is

    suffix = Path(upload.filename or "").suffix[:8]
    with tempfile.NamedTemporaryFile(prefix="voice-", suffix=suffix) as file:
        while part := upload.file.read(2**20):
            file.write(part)
        file.flush()
        try:
            return keep_recording(api.recordings, name, Path(file.name))
        except UserError as error:
            param = "name" if "name" in error.what.split("recording")[0] else "audio_sample"
            # Its temporary path is not shown.
            what = error.what.replace(file.name, "recording").replace(Path(file.name).name, "the recording")
            raise RequestError(what=what, fix=error.fix, param=param, code="invalid_voice") from error


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "name": name, "object": "model", "created": 0, "owned_by": OWNER}


def _voice(recording: NamedVoice) -> dict[str, Any]:
    name = recording.name
    return {
        "id": name,
        "object": "audio.voice",
        "name": name,
        "type": "audio_sample",
        "created_at": int(recording.path.stat().st_mtime),
    }
