"""Speech for Home Assistant: the Wyoming protocol (github.com/OHF-Voice/wyoming) beside the HTTP routes.

Each event is a line of JSON, with samples behind it where it has some. The protocol knows no keys.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.types import Message
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, Eventable, async_read_event, async_write_event
from wyoming.info import Attribution, Info, TtsProgram, TtsVoice
from wyoming.ping import Pong
from wyoming.tts import SynthesizeStopped

from utils import VERSION
from utils.inference.generation import SAMPLE_BYTES, RequestError
from utils.options import OUTPUT_RATE
from utils.server.api import SpeechApi, as_request_error, error_content, files_of
from utils.server.guard import CONNECTIONS_A_REQUEST, MAX_BODY_BYTES, SEND_TIMEOUT_S
from utils.server.openai_routes import OWNER
from utils.server.service import POLL_S
from utils.speech.voice_library import DEFAULT_VOICE
from utils.text.marks import has_words, is_open, last_voice
from utils.text.split import split_sentences

IDLE_S = 300.0
"""A client that asks for nothing for this long is disconnected; between parts of a text a language model may think."""
SOUND = {"rate": OUTPUT_RATE, "width": SAMPLE_BYTES, "channels": 1}

log = logging.getLogger(__name__)


@asynccontextmanager
async def answering(api: SpeechApi, listening: socket.socket | None) -> AsyncIterator[None]:
    """Answer clients while the context lasts.

    Args:
        api: takes their requests.
        listening: address at which they connect; None opens no port.
    """
    if listening is None:
        yield
        return
    places = asyncio.Semaphore(CONNECTIONS_A_REQUEST * api.service.config.max_requests)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Cancelled when the server ends, which asyncio would report as a failure.
        with closing(writer), suppress(asyncio.CancelledError):
            if not places.locked():
                async with places:
                    assert isinstance(reader, _Reader)
                    await _Client(api, reader, writer).serve()

    def protocol() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(_Reader(MAX_BODY_BYTES), connected)

    server = await asyncio.get_running_loop().create_server(protocol, sock=listening)
    yield
    server.close()


class _Reader(asyncio.StreamReader):
    """Brings no event that is larger than a request may be; the library reads and keeps as much as a client names."""

    is_gone = False
    """Whether the client has closed the connection, though what it sent before may not be read yet."""

    def feed_eof(self) -> None:
        self.is_gone = True
        super().feed_eof()

    def set_exception(self, exc: Exception) -> None:
        self.is_gone = True
        super().set_exception(exc)

    async def readexactly(self, n: int) -> bytes:
        if n > MAX_BODY_BYTES:
            raise EOFError(f"an event of {n} bytes")
        return await super().readexactly(n)


@dataclass
class _Client:
    """One connection."""

    api: SpeechApi
    reader: _Reader
    writer: asyncio.StreamWriter
    voice: dict[str, Any] = field(default_factory=dict)
    """As it was asked for."""
    text: str | None = None
    """What was not spoken yet of a text that comes in parts, behind the mark of its voice; None while none does."""

    async def serve(self) -> None:
        """Answer its events until it leaves, or one cannot be answered: Home Assistant would wait on."""
        try:
            while event := await asyncio.wait_for(_read(self.reader), IDLE_S):
                await self._answer(event)
        except (EOFError, OSError) as error:
            log.info("a client of the Wyoming port has left or stopped sending: %r", error)
            # Closing waits until all is sent, which one that reads nothing prevents.
            self.writer.transport.abort()
        except Exception as error:  # noqa: BLE001
            fault = error_content(as_request_error(error))["error"]
            # ValueError: words of the client that cannot be written, such as half a pair.
            with suppress(OSError, ValueError):
                await self._send(Error(fault["message"], code=fault["code"]))

    async def _answer(self, event: Event) -> None:
        text: Any = event.data.get("text")
        match event.type:
            case "describe":
                await self._send(await run_in_threadpool(_info, self.api))
            case "ping":
                await self._send(Pong(text))
            case "synthesize-start":
                self.text, self.voice = "", _voice(event)
            # One that comes within a text in parts repeats it, for servers that know no parts.
            case "synthesize" if self.text is None:
                self.voice = _voice(event)
                self.api.checked({"text": text})
                await self._speak(text)
            case "synthesize-chunk" if self.text is not None:
                text = self.text + str(text or "")
                *whole, rest = split_sentences(text, self.api.service.config.max_characters) or [""]
                said = " ".join(whole)
                if is_open(said):
                    self.api.checked({"text": text})
                    self.text = text
                else:
                    # The split drops the space at the end, which the next part may need.
                    self.text = last_voice(said) + rest + text[-1:] * text[-1:].isspace()
                    await self._speak_part(said)
            case "synthesize-stop" if self.text is not None:
                await self._speak_part(self.text)
                self.text = None
                await self._send(SynthesizeStopped())

    async def _speak_part(self, text: str) -> None:
        # Of emoji or a mark at the end there is no sound.
        if has_words(text):
            await self._speak(text)

    async def _speak(self, text: str) -> None:
        """Send the sound of a text as soon as there is some."""
        asked = self.voice
        wanted = {"text": text, "voice": asked.get("name") or DEFAULT_VOICE, "language": asked.get("language")}
        generation = await self.api.speak(self._until_gone, wanted)
        try:
            await self._send(AudioStart(**SOUND))
            async for pcm in generation.chunks():
                await self._send(AudioChunk(**SOUND, audio=pcm))
            await self._send(AudioStop())
        finally:
            generation.cancel()

    async def _until_gone(self) -> Message:
        while not self.reader.is_gone:
            await asyncio.sleep(POLL_S)
        return {"type": "http.disconnect"}

    async def _send(self, event: Eventable) -> None:
        # Without a reader, sending would wait for ever.
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await async_write_event(event.event(), self.writer)


async def _read(reader: _Reader) -> Event | None:
    """The next event; None after the last one.

    Raises:
        RequestError: what came is none.
    """
    try:
        event = await async_read_event(reader)
        # The library takes any JSON for data.
        return event and Event(event.type, dict(**event.data))
    except (AttributeError, KeyError, TypeError) as error:
        fix = "send a JSON object with a type and an object of data"
        raise RequestError(what="what came is no event of the Wyoming protocol", fix=fix) from error


def _voice(event: Event) -> dict[str, Any]:
    voice = event.data.get("voice") or {}
    if not isinstance(voice, dict):
        raise RequestError(what=f"the voice is {voice!r}", fix='give it as {"name": NAME}', param="voice")
    return voice


def _info(api: SpeechApi) -> Info:
    about: dict[str, Any] = {"attribution": Attribution(OWNER, ""), "installed": True, "version": VERSION}
    model = api.find()
    language = files_of(model).language or api.service.config.language
    voices = [TtsVoice(name=name, description=None, languages=[language], **about) for name in api.voices()]
    program = TtsProgram(name="xtts", description=model[0], voices=voices, supports_synthesize_streaming=True, **about)
    return Info(tts=[program])
