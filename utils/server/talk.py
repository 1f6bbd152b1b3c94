"""Between the routes and the engine's thread: generations submitted, their sound awaited, and answers made of it."""

import asyncio
import base64
import json
import re
import unicodedata
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from utils.errors import UserError
from utils.server.catalog import Recordings, find_listed, list_models, model_languages, model_voices
from utils.server.faults import ApiError, as_api_error
from utils.server.guard import UNREAD
from utils.server.service import SpeechService
from utils.speech.encode import FORMATS, Encoder, Sink, encode_whole, usable_formats
from utils.speech.generation import Generation, SpeechRequest, UnknownVoiceError
from utils.speech.models import SpeakingModel
from utils.speech.voice_library import voice_parts
from utils.text.languages import plain_code

OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
"""Each means the default model, with a date behind it, too."""
_DATED = re.compile(r"-\d{4}(-\d\d-\d\d)?$")
OPENAI_VOICES = (
    *("alloy", "echo", "fable", "onyx", "nova", "shimmer"),
    *("ash", "ballad", "coral", "sage", "verse", "marin", "cedar"),
)
"""They mean the model's voices in order, the default one first."""
MAX_UNREAD = 24
"""What the header names, and characters of each: clients limit headers to 8 KiB."""
READABLE = "!#$&'()*+,/:;<=>?@[]^`{|}~"
BODY_TIMEOUT_S = 30.0
"""A client may take this long to send its request."""


class Desk:
    """Takes requests of all routes.

    Args:
        service: speaks them.
    """

    def __init__(self, service: SpeechService) -> None:
        self.service = service
        self.recordings = Recordings(service.output)
        self._aliases = dict(one.split("=", 1) for one in service.config.alias)

    def default_model(self) -> str:
        """Id of the model that speaks where a request names none."""
        return self.service.config.model or list_models(self.service.output)[0][0]

    def model_id(self, name: str | None) -> str:
        """Id of the model that a request names: by its id, an alias, a name of OpenAI's, or not at all."""
        name = self._aliases.get(name or "", name)
        return self.default_model() if not name or _DATED.sub("", name) in OPENAI_MODELS else name

    def voices(self) -> list[str]:
        """Names of the default model's voices, and of those that were uploaded."""
        own = model_voices(find_listed(self.service.output, self.default_model()))
        return list(dict.fromkeys([*own, *self.recordings.recordings()]))

    async def speak(self, receive: Receive, values: dict[str, Any], model_id: str) -> "Sound":
        """Have a text spoken; returns with its first sound.

        Args:
            receive: gives a message when the client has gone, which ends the speech.
            values: fields of SpeechRequest.
            model_id: who speaks.

        Raises:
            ApiError: it cannot be spoken.
            UserError: likewise.
        """
        speech = self.checked(values)
        changed, loop = asyncio.Event(), asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(changed.set)

        model = await run_in_threadpool(find_listed, self.service.output, model_id)
        speech, references = await run_in_threadpool(self._resolved, speech, model)
        generation = Generation(speech, (model_id, model), references=references, wake=wake)
        self.service.submit(generation)
        sound = Sound(generation, changed)
        try:
            await sound.begin(receive)
        except BaseException:
            generation.cancel()
            raise
        return sound

    def _resolved(self, speech: SpeechRequest, model: SpeakingModel) -> tuple[SpeechRequest, dict[str, Path]]:
        """The request with the model's names of voices and language, and the recordings of uploaded voices.

        Raises:
            UnknownVoiceError: there is none of that name.
            ApiError: the model does not read the language.
        """
        language = speech.language
        if language is not None:
            codes = model_languages(model)
            language = next((one for one in (language, language.split("-")[0]) if plain_code(one) in codes), None)
            if language is None:
                message = f"This model cannot read the language {speech.language!r}; use one of: {', '.join(codes)}."
                raise ApiError(400, message, param="language")
        own, recordings, parts = model_voices(model), self.recordings.recordings(), []
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
                listed = ", ".join([*own, *recordings])
                raise UnknownVoiceError(what=f"there is no voice {asked!r}", fix=f"use one of: {listed}")
            parts.append(f"{known}:{weight}")
        voice = parts[0].rpartition(":")[0] if len(parts) == 1 else ",".join(parts)
        return replace(speech, language=language, voice=voice), recordings

    def checked(self, values: dict[str, Any]) -> SpeechRequest:
        """The request of these values.

        Raises:
            ApiError: there is no text, or a value is out of its range.
        """
        text = values.get("text")
        if not isinstance(text, str):
            raise ApiError(400, "Give the text to speak as a string.", param="input")
        if not text.strip():
            raise ApiError(400, "The text is empty; give the words to speak.", param="input", code="empty_text")
        most = self.service.config.max_characters
        if len(text) > most:
            message = f"The text has {len(text)} characters; a request may have {most}. Split it."
            raise ApiError(400, message, param="input", code="string_above_max_length")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ApiError(400, "The text is not valid Unicode: it has half a pair.", param="input")
        if not any(letter.isalnum() for letter in text):
            raise ApiError(400, "The text has no letter or digit to speak.", param="input", code="no_words")
        try:
            return SpeechRequest.from_values({"language": None, **values}, where="request").validate(where="request")
        except UserError as error:
            named = [name for name in values if f"{name} is" in error.what]
            raise ApiError(400, as_api_error(error).message, param=named[0] if named else None) from error


class Sound:
    """A generation whose sound is awaited.

    Args:
        generation: that was submitted.
        changed: set when there is something to take.
    """

    def __init__(self, generation: Generation, changed: asyncio.Event) -> None:
        self.generation = generation
        self._changed = changed

    async def begin(self, receive: Receive) -> None:
        """Return at the first sound, or for speech that is not streamed at its end.

        Raises:
            ApiError: it failed before, or the client has gone.
            Exception: whatever the engine says.
        """
        gone = asyncio.create_task(_until_gone(receive))
        try:
            while not self._is_begun():
                self._changed.clear()
                if self._is_begun():
                    break
                waiting = asyncio.create_task(self._changed.wait())
                await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if gone.done():
                    raise ApiError(499, "The client has gone.", code="client_gone")
        finally:
            gone.cancel()
        if self.generation.error is not None and self.generation.buffered_s == 0:
            raise self.generation.error

    def _is_begun(self) -> bool:
        generation = self.generation
        return generation.is_ended or (generation.request.stream and generation.buffered_s > 0)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Sound as it comes; the speech ends when the client is gone.

        Raises:
            Exception: whatever the engine says.
        """
        try:
            while True:
                self._changed.clear()
                is_ended = self.generation.is_ended
                chunks = self.generation.take()
                if chunks:
                    yield b"".join(chunks)
                elif is_ended:
                    if self.generation.error is not None:
                        raise self.generation.error
                    return
                if not is_ended:
                    await self._changed.wait()
        finally:
            self.generation.cancel()

    async def response(self, form: str) -> Response:
        """The speech as a file of a format, streamed if that was asked for."""
        kind = FORMATS[form]
        if self.generation.request.stream:
            return _Stream(self, self._encoded(form), kind.media_type)
        chunks = [chunk async for chunk in self.chunks()]
        sound = await run_in_threadpool(encode_whole, form, chunks)
        return Response(sound, media_type=kind.media_type, headers=self.headers())

    def headers(self) -> dict[str, str]:
        """What of the text was not read, in percent-encoded UTF-8 with spaces between."""
        unread = [quote(one[:MAX_UNREAD], safe=READABLE) for one in self.generation.unread[:MAX_UNREAD]]
        return {UNREAD: " ".join(unread)} if unread else {}

    async def _encoded(self, form: str) -> AsyncIterator[bytes]:
        sink = Sink()
        encoder = Encoder(FORMATS[form], sink)
        async for chunk in self.chunks():
            await run_in_threadpool(encoder.add, chunk)
            if data := sink.take():
                yield data
        await run_in_threadpool(encoder.finish)
        if data := sink.take():
            yield data

    def events(self, form: str) -> Response:
        """The speech as server-sent events of OpenAI's form."""
        return _Stream(self, self._events(form), "text/event-stream")

    async def _events(self, form: str) -> AsyncIterator[str]:
        try:
            async for data in self._encoded(form):
                yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})
        except Exception as error:  # noqa: BLE001
            # It cannot go up: the answer has begun, and has a form for errors of its own.
            yield _event({"type": "error", **as_api_error(error).content()})
            return
        read, spoken = self.generation.num_tokens, self.generation.num_codes
        usage = {"input_tokens": read, "output_tokens": spoken, "total_tokens": read + spoken}
        yield _event({"type": "speech.audio.done", "usage": usage})


class _Stream(StreamingResponse):
    """A response whose speech ends with it, however it ends."""

    def __init__(self, sound: Sound, content: AsyncIterator[bytes] | AsyncIterator[str], media_type: str) -> None:
        super().__init__(content, media_type=media_type, headers=sound.headers())
        self._sound = sound

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._sound.generation.cancel()


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def check_format(form: Any) -> str:
    """A response format that can be encoded here.

    Raises:
        ApiError: there is none of that name.
    """
    if form not in usable_formats():
        known = ", ".join(usable_formats())
        raise ApiError(400, f"The format {form!r} cannot be encoded; use one of: {known}.", param="response_format")
    return str(form)


async def read_json(request: Request) -> dict[str, Any]:
    """The object that a request's body holds.

    Raises:
        ApiError: it holds none, or it does not come.
    """
    try:
        body = await asyncio.wait_for(request.body(), BODY_TIMEOUT_S)
        values = json.loads(body)
    except ClientDisconnect as error:
        raise ApiError(413, "The body was broken off, or is too large.", code="request_too_large") from error
    except TimeoutError as error:
        raise ApiError(408, "The request's body did not arrive.", code="request_timeout") from error
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"The body is not valid JSON: {error}.", code="invalid_json") from error
    if not isinstance(values, dict):
        raise ApiError(400, "The body is not a JSON object.", code="invalid_json")
    return values
