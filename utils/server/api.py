"""Between the routes and the engine's thread: generations submitted, their sound awaited, answers made of both.

Errors have the form of OpenAI's API: {"error": {message, type, param, code}} and an HTTP status.
"""

import asyncio
import base64
import json
import logging
import re
import unicodedata
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from utils.errors import UserError, is_out_of_memory
from utils.inference.generation import Generation, RequestError, SpeechRequest, unavailable
from utils.project.projects import find_project, list_projects
from utils.server.service import SpeechService
from utils.speech.encode import FORMATS, Encoder, Sink, encode_whole, usable_formats
from utils.speech.models import SpeakingModel, find_model, named_bases, speaking_models
from utils.speech.voice_library import VoiceLibrary, voice_parts
from utils.text.languages import plain_code

if TYPE_CHECKING:
    from utils.server.loaded import ModelFiles

OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
"""Each means the default model, with a date behind it, too."""
_DATED = re.compile(r"-\d{4}(-\d\d-\d\d)?$")
OPENAI_VOICES = (
    *("alloy", "echo", "fable", "onyx", "nova", "shimmer"),
    *("ash", "ballad", "coral", "sage", "verse", "marin", "cedar"),
)
"""They mean the model's voices in order, the default one first."""
UNREAD = "X-Unread"
"""The header that names what of a text was not read."""
MAX_UNREAD = 24
"""What the header names, and characters of each: clients limit headers to 8 KiB."""
READABLE = "!#$&'()*+,/:;<=>?@[]^`{|}~"
BODY_TIMEOUT_S = 30.0
"""A client may take this long to send its request."""
PATH = re.compile(r"""(?<![\w/:.])(?:[A-Za-z]:)?(?:[/\\][^\s/\\'"]+){2,}""")
"""What may be a path of this computer; also a route, such as /v1/models."""

log = logging.getLogger(__name__)


def as_request_error(error: Exception) -> RequestError:
    """Any error as the client is to see it; what only a programmer understands stays in the log."""
    if isinstance(error, UserError):
        own = error if isinstance(error, RequestError) else RequestError(what=error.what, fix=error.fix)
        # Of what says where, a client reads the last part of each path: folders may be this computer's.
        if error.where or own is not error:
            own.what, own.fix = (PATH.sub(_last_part, words) for words in (error.what, error.fix))
        return own
    log.error("a request failed: %s: %s", type(error).__name__, error)
    if is_out_of_memory(error):
        return unavailable("the device has too little free memory for this request", code="out_of_memory")
    return RequestError(what="the server failed to speak this; its log says why", status=500, code="internal_error")


def error_content(error: RequestError) -> dict[str, Any]:
    """What the client reads."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    if error.status == 429:
        kind = "rate_limit_error"
    # `where` is this computer's.
    message = ". ".join(part[:1].upper() + part[1:] for part in (error.what, error.fix) if part) + "."
    return {"error": {"message": message, "type": kind, "param": error.param, "code": error.code or None}}


def error_response(error: RequestError) -> JSONResponse:
    """The answer in place of the one that was asked for."""
    headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s else {}
    if error.status in (408, 413):
        # The rest of the body may still come: it is no next request.
        headers["Connection"] = "close"
    return JSONResponse(error_content(error), status_code=error.status, headers=headers)


def _last_part(match: re.Match[str]) -> str:
    path = Path(match[0])
    try:
        return path.name if Path(*path.parts[:2]).exists() else match[0]
    except OSError:  # Longer than any name can be: it is what the client wrote.
        return match[0]


class SpeechApi:
    """Takes requests of all routes.

    Args:
        service: speaks them.
    """

    def __init__(self, service: SpeechService) -> None:
        self.service = service
        self.recordings = VoiceLibrary(service.output)
        self._aliases = dict(one.split("=", 1) for one in service.config.alias)

    def models(self) -> dict[str, SpeakingModel]:
        """All models by id: of projects `PROJECT/ready`, `PROJECT/run/ID/best` and such, then bases by their names."""
        found = {}
        for project in list_projects(self.service.output):
            for model in speaking_models(project):
                # Bases that anybody can name come once, below.
                if model.kind != "base" or Path(model.source).is_dir():
                    found[f"{project.name}/{model.id}"] = model
        return found | {model.source: model for model in named_bases()}

    def find(self, name: str | None = None) -> tuple[str, SpeakingModel]:
        """The model that a request names, and its id: by its id, an alias, a name of OpenAI's, or not at all.

        Raises:
            RequestError: there is none.
        """
        name = self._aliases.get(name or "", name)
        if not name or _DATED.sub("", name) in OPENAI_MODELS:
            name = self.service.config.model or next(iter(self.models()))
        for model in named_bases():
            if model.source == name:
                return name, model
        project, _, inner = name.partition("/")
        try:
            return name, find_model(find_project(project, self.service.output), inner)
        except (UserError, OSError, ValueError) as error:
            what = f"the model {name!r} does not exist"
            fix = "GET /v1/models lists those that do"
            raise RequestError(what=what, fix=fix, status=404, code="model_not_found", param="model") from error

    def voices(self) -> list[str]:
        """Names of the default model's voices, and of those that were uploaded."""
        return list(dict.fromkeys([*files_of(self.find()).voices, *self.recordings.recordings()]))

    async def speak(self, receive: Receive, values: dict[str, Any], model: str | None = None) -> Generation:
        """Have a text spoken; returns at its first sound, or for speech that is not streamed at its end.

        Args:
            receive: gives a message when the client has gone, which ends the speech.
            values: fields of SpeechRequest.
            model: who speaks, by a name as for `find`.

        Raises:
            RequestError: it cannot be spoken, or the client has gone.
            Exception: whatever the engine says.
        """
        generation = await run_in_threadpool(self._generation, self.checked(values), model)
        self.service.submit(generation)
        begun, gone = asyncio.create_task(generation.begun()), asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait({begun, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not begun.done():
                raise RequestError(what="the client has gone", status=499, code="client_gone")
            if generation.error is not None and not generation.buffered_s:
                raise generation.error
        except BaseException:
            generation.cancel()
            raise
        finally:
            begun.cancel()
            gone.cancel()
        return generation

    def _generation(self, speech: SpeechRequest, name: str | None) -> Generation:
        """A request with the model's own names of voices and language.

        Raises:
            RequestError: there is no model or voice of that name, or the model does not read the language.
        """
        model, language = self.find(name), speech.language
        files = files_of(model)
        if language is not None:
            codes = files.languages
            language = next((one for one in (language, language.split("-")[0]) if plain_code(one) in codes), None)
            if language is None:
                what = f"this model cannot read the language {speech.language!r}; use one of: {', '.join(codes)}"
                raise RequestError(what=what, param="language")
        own, recordings, parts = files.voices, self.recordings.recordings(), []
        # The name of a speaker may look like a mixture: "Smith, John".
        is_whole = speech.voice in own or speech.voice in recordings
        for asked, weight in [(speech.voice, 1.0)] if is_whole else voice_parts(speech.voice):
            name = unicodedata.normalize("NFC", self._aliases.get(asked, asked))
            # Clients of the XTTS server name a voice by its file, such as speakers/anna.wav.
            stem = PurePath(name.replace("\\", "/")).stem if name.lower().endswith(".wav") else name
            known = next((one for one in (name, stem) if one in recordings or one in own), None)
            if known is None and name in OPENAI_VOICES:
                known = own[OPENAI_VOICES.index(name) % len(own)]
            if known is None:
                what, fix = f"there is no voice {asked!r}", f"use one of: {', '.join([*own, *recordings])}"
                raise RequestError(what=what, where="request", fix=fix, code="voice_not_found", param="voice")
            parts.append(f"{known}:{weight}")
        voice = parts[0].rpartition(":")[0] if len(parts) == 1 else ",".join(parts)
        speech = replace(speech, language=language, voice=voice)
        return Generation(speech, model, references=recordings)

    def checked(self, values: dict[str, Any]) -> SpeechRequest:
        """The request of these values.

        Raises:
            RequestError: there is no text, or a value is out of its range.
        """
        text = values.get("text")
        if not isinstance(text, str):
            raise RequestError(what="give the text to speak as a string", param="input")
        if not text.strip():
            raise RequestError(what="the text is empty; give the words to speak", param="input", code="empty_text")
        most = self.service.config.max_characters
        if len(text) > most:
            what = f"the text has {len(text)} characters; a request may have {most}"
            raise RequestError(what=what, fix="split it", param="input", code="string_above_max_length")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise RequestError(what="the text is not valid Unicode: it has half a pair", param="input")
        if not any(letter.isalnum() for letter in text):
            raise RequestError(what="the text has no letter or digit to speak", param="input", code="no_words")
        try:
            return SpeechRequest.from_values({"language": None, **values}, where="request").validate(where="request")
        except UserError as error:
            named = [name for name in values if f"{name} is" in error.what]
            raise RequestError(what=error.what, fix=error.fix, param=named[0] if named else None) from error


def files_of(model: tuple[str, SpeakingModel]) -> "ModelFiles":
    """What the files of a model say of it.

    Raises:
        UserError: they are gone.
    """
    from utils.server.loaded import ModelFiles  # takes seconds, and is there once the engine is

    return ModelFiles(model[1])


async def response(generation: Generation, form: str) -> Response:
    """The speech as a file of a format, streamed if that was asked for."""
    kind = FORMATS[form]
    if generation.request.stream:
        return _Stream(generation, _encoded(generation, form), kind.media_type)
    chunks = [chunk async for chunk in generation.chunks()]
    sound = await run_in_threadpool(encode_whole, form, chunks)
    return Response(sound, media_type=kind.media_type, headers=_headers(generation))


def events(generation: Generation, form: str) -> Response:
    """The speech as server-sent events of OpenAI's form."""
    return _Stream(generation, _events(generation, form), "text/event-stream")


class _Stream(StreamingResponse):
    """A response whose speech ends with it, however it ends."""

    def __init__(self, generation: Generation, content: AsyncIterator[bytes | str], media_type: str) -> None:
        super().__init__(content, media_type=media_type, headers=_headers(generation))
        self._generation = generation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._generation.cancel()


def _headers(generation: Generation) -> dict[str, str]:
    """What of the text was not read, in percent-encoded UTF-8 with spaces between."""
    unread = [quote(one[:MAX_UNREAD], safe=READABLE) for one in generation.unread[:MAX_UNREAD]]
    return {UNREAD: " ".join(unread)} if unread else {}


async def _encoded(generation: Generation, form: str) -> AsyncIterator[bytes]:
    sink = Sink()
    encoder = Encoder(FORMATS[form], sink)
    async for chunk in generation.chunks():
        await run_in_threadpool(encoder.add, chunk)
        if data := sink.take():
            yield data
    await run_in_threadpool(encoder.finish)
    if data := sink.take():
        yield data


async def _events(generation: Generation, form: str) -> AsyncIterator[str]:
    try:
        async for data in _encoded(generation, form):
            yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})
    except Exception as error:  # noqa: BLE001
        # It cannot go up: the answer has begun, and has a form for errors of its own.
        yield _event({"type": "error", **error_content(as_request_error(error))})
        return
    read, spoken = generation.num_tokens, generation.num_codes
    usage = {"input_tokens": read, "output_tokens": spoken, "total_tokens": read + spoken}
    yield _event({"type": "speech.audio.done", "usage": usage})


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def check_format(form: Any) -> str:
    """A response format that can be encoded here.

    Raises:
        RequestError: there is none of that name.
    """
    if form not in usable_formats():
        what = f"the format {form!r} cannot be encoded; use one of: {', '.join(usable_formats())}"
        raise RequestError(what=what, param="response_format")
    return str(form)


async def read_json(request: Request) -> dict[str, Any]:
    """The object that a request's body holds.

    Raises:
        RequestError: it holds none, or it does not come.
    """
    try:
        body = await asyncio.wait_for(request.body(), BODY_TIMEOUT_S)
        values = json.loads(body)
    except ClientDisconnect as error:
        raise RequestError(
            what="the body was broken off, or is too large", status=413, code="request_too_large"
        ) from error
    except TimeoutError as error:
        raise RequestError(what="the request's body did not arrive", status=408, code="request_timeout") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(what=f"the body is not valid JSON: {error}", code="invalid_json") from error
    if not isinstance(values, dict):
        raise RequestError(what="the body is not a JSON object", code="invalid_json")
    return values
