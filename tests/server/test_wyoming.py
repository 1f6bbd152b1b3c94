"""Speech for Home Assistant, asked for by the protocol's own client."""

import asyncio
import json
import re
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.event import Event, Eventable
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

from tests.server.conftest import TEXT, Server, start_server
from utils.inference.generation import RequestError
from utils.server.api import SpeechApi
from utils.server.guard import MAX_BODY_BYTES
from utils.server.service import SpeechService
from utils.server.settings import ServerConfig
from utils.server.wyoming import _Client, _Reader
from utils.speech.voice_library import VOICES_FOLDER
from utils.text.marks import has_words, read_marks

MOST = 3
LONG = f"{TEXT} " * 100
REFERENCE = Path(__file__).parents[2] / "assets" / "starter" / "reference.wav"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    output = tmp_path_factory.mktemp("wyoming")
    (output / VOICES_FOLDER).mkdir()
    (output / VOICES_FOLDER / "maría.wav").write_bytes(REFERENCE.read_bytes())
    flags = ("--wyoming-port", "0", "--max-requests", str(MOST), "--max-characters", "5000")
    running = start_server(output, "--precision", "fp32", *flags)
    yield running
    running.process.kill()
    running.process.wait(timeout=30)


def address(server: Server) -> tuple[str, int]:
    ((host, port),) = re.findall(r"Wyoming: tcp://(.+):(\d+); anyone who reaches it can use it", server.said)
    return host, int(port)


def connection(server: Server) -> AsyncClient:
    return AsyncClient.from_uri("tcp://{}:{}".format(*address(server)))


async def until(client: AsyncClient, kind: type[Eventable]) -> list[Event]:
    """Events to the first one of a kind, or to the connection's end."""
    events: list[Event] = []
    while (event := await asyncio.wait_for(client.read_event(), 60)) is not None:
        events.append(event)
        if kind.is_type(event.type):
            break
    return events


async def spoken(server: Server, asked: Eventable) -> list[Event]:
    async with connection(server) as client:
        await client.write_event(asked.event())
        return await until(client, AudioStop)


def sound(events: list[Event]) -> bytes:
    """Samples of a whole answer."""
    start, *chunks, stop = events
    assert AudioStart.is_type(start.type) and AudioStop.is_type(stop.type)
    found = [AudioChunk.from_event(chunk) for chunk in chunks]
    assert {(one.rate, one.width, one.channels) for one in [*found, AudioStart.from_event(start)]} == {(24_000, 2, 1)}
    return b"".join(chunk.audio for chunk in found)


def fault(events: list[Event]) -> Error:
    """The error that ended a connection."""
    (event,) = events
    assert Error.is_type(event.type)
    return Error.from_event(event)


def test_what_speaks_is_described_with_voices_languages_and_version(server):
    async def described() -> Info:
        async with connection(server) as client:
            await client.write_event(Describe().event())
            event = await client.read_event()
            assert event is not None
            return Info.from_event(event)

    (program,) = asyncio.run(described()).tts
    assert program.supports_synthesize_streaming and program.installed and program.description == "starter"
    assert program.version == re.findall('version = "(.*)"', (REFERENCE.parents[2] / "pyproject.toml").read_text())[0]
    voices = {voice.name: voice for voice in program.voices}
    assert next(iter(voices)) == "default" and {"emma", "maría"} < voices.keys()
    assert all(voice.installed and voice.languages == ["en"] and voice.attribution.name for voice in voices.values())


@pytest.mark.parametrize("name", [None, "maría"])
def test_a_text_is_streamed_in_a_voice(server, name):
    voice = SynthesizeVoice(name=name) if name else None
    events = asyncio.run(spoken(server, Synthesize(text=TEXT, voice=voice)))
    pcm = sound(events)
    assert 1.0 < len(pcm) / 2 / 24_000 < 10 and max(struct.unpack(f"<{len(pcm) // 2}h", pcm)) > 1_000
    assert len(events) > 4, "as it comes, not in one piece"


def test_a_text_in_parts_is_spoken_by_sentences_before_it_ends(server):
    async def conversation() -> tuple[bytes, list[Event]]:
        async with connection(server) as client:
            await client.write_event(SynthesizeStart(voice=SynthesizeVoice(name="emma")).event())
            for part in ("Hello th", "ere. \N{GRINNING FACE} How ", "are you"):
                await client.write_event(SynthesizeChunk(text=part).event())
            first = sound(await until(client, AudioStop))
            # Home Assistant repeats it for servers that know no parts.
            await client.write_event(Synthesize(text="Hello there. How are you?").event())
            await client.write_event(SynthesizeChunk(text="?").event())
            await client.write_event(SynthesizeStop().event())
            events = await until(client, SynthesizeStopped)
            # The connection can be used again.
            await client.write_event(Synthesize(text="Yes.").event())
            assert sound(await until(client, AudioStop))
            # A text without words has no sound.
            await client.write_event(SynthesizeStart().event())
            await client.write_event(SynthesizeStop().event())
            assert len(await until(client, SynthesizeStopped)) == 1
            return first, events

    first, events = asyncio.run(conversation())
    assert 0.3 < len(first) / 2 / 24_000 < 3 and len(sound(events[:-1])) > 10_000


def test_several_clients_are_spoken_to_at_once_and_further_ones_refused(server):
    async def busy() -> tuple[list[list[Event]], list[Event]]:
        texts = [asyncio.create_task(spoken(server, Synthesize(text=TEXT))) for _ in range(MOST - 1)]
        async with connection(server) as client:
            await client.write_event(Synthesize(text=LONG).event())
            await until(client, AudioChunk)
            refused = await spoken(server, Synthesize(text=TEXT))
            return await asyncio.gather(*texts), refused

    texts, refused = asyncio.run(busy())
    assert all(map(sound, texts))
    assert fault(refused).code == "queue_full"
    assert server.until("requests_live") == 0


@pytest.mark.parametrize("awaited", [AudioChunk, None], ids=["while it hears", "before it hears"])
def test_the_speech_of_a_client_that_leaves_ends(server, awaited):
    async def leave() -> None:
        others = [connection(server) for _ in range(MOST)]
        for client in others:
            await client.connect()
            await client.write_event(Synthesize(text=LONG).event())
            if awaited:
                assert await until(client, awaited)
        for client in others:
            await client.disconnect()

    asyncio.run(leave())
    begun = time.monotonic()
    assert server.until("requests_live") == 0
    assert time.monotonic() - begun < 10, "they ask for minutes of speech"


def test_a_client_that_leaves_is_noticed_though_it_sent_more_than_was_read():
    async def noticed() -> None:
        for leave in (_Reader.feed_eof, lambda reader: reader.set_exception(ConnectionResetError())):
            reader = _Reader()
            reader.feed_data(b"{}\n")
            leave(reader)
            await asyncio.wait_for(
                _Client(cast(SpeechApi, None), reader, cast(asyncio.StreamWriter, None))._until_gone(), 5
            )

    asyncio.run(noticed())


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[str]]:
    """Texts that are spoken, one after the other, of one in parts."""

    def spoken(*parts: str, max_characters: int = 400) -> list[str]:
        said = list[str]()

        async def speak(client: _Client, text: str) -> None:
            said.append(text)

        async def send(client: _Client, event: Eventable) -> None:
            assert isinstance(event, SynthesizeStopped)

        async def conversation() -> None:
            api = SpeechApi(SpeechService(ServerConfig(output=tmp_path, max_characters=max_characters)))
            client = _Client(api, _Reader(), cast(asyncio.StreamWriter, None))
            for event in (SynthesizeStart(), *map(SynthesizeChunk, parts), SynthesizeStop()):
                await client._answer(event.event())

        monkeypatch.setattr(_Client, "_speak", speak)
        monkeypatch.setattr(_Client, "_send", send)
        asyncio.run(conversation())
        return said

    return spoken


def test_parts_are_joined_as_they_came(streamed):
    said = streamed("Hel", "lo ", "", "there.", "\n", "", "I have 3.", "5 apples", ". ")
    assert said == ["Hello there.", "I have 3.5 apples. "]


def test_a_voice_speaks_on_in_later_parts(streamed):
    parts = (
        "One. [voice: be",
        "n] Two. Three.",
        " Four. [voice: Dr. Who] Five. ",
        "Six. [voice: default] Seven. ",
        "No.",
    )
    said = [part for text in streamed(*parts, "[pause 1]") for part in read_marks(text) if has_words(part.text)]
    assert [(word, part.voice) for part in said for word in part.text.split()] == [
        *(("One.", ""), ("Two.", "ben"), ("Three.", "ben"), ("Four.", "ben")),
        *(("Five.", "Dr. Who"), ("Six.", "Dr. Who"), ("Seven.", ""), ("No.", "")),
    ]
    assert streamed("[voice: ben] One. Two. ", "\N{GRINNING FACE}")[1:] == ["[voice: ben]Two."], "no words, no request"


def test_ssml_in_parts_is_spoken_as_a_whole(streamed):
    parts = (" <spe", "ak>One. <s>Two.", "</s> Three. ", "Four.</speak>")
    assert ["".join(text.split()) for text in streamed(*parts)] == ["<speak>One.<s>Two.</s>Three.Four.</speak>"]
    with pytest.raises(RequestError, match="a request may have 60"):
        streamed("<speak>One. ", *["Two. "] * 20, max_characters=60)


def test_a_ping_is_answered(server):
    async def pinged() -> Event | None:
        async with connection(server) as client:
            await client.write_event(Ping(text="one").event())
            return await client.read_event()

    event = asyncio.run(pinged())
    assert event is not None and Pong.from_event(event).text == "one" and Pong.is_type(event.type)


@pytest.mark.parametrize(
    ("data", "words", "code"),
    [
        ({"text": TEXT, "voice": {"name": "zoe"}}, "no voice 'zoe'. Use one of: default", "voice_not_found"),
        ({"text": TEXT, "voice": {"language": "xx"}}, "cannot read the language 'xx'", None),
        ({"text": "x" * 5001}, "may have 5000", "string_above_max_length"),
        ({"text": " "}, "empty", "empty_text"),
        ({}, "as a string", None),
        ({"text": TEXT, "voice": "ben"}, "The voice is 'ben'. Give it as {\"name\": NAME}", None),
        ({"text": TEXT, "voice": {"name": ["ben"]}}, "voice is ['ben']", None),
        ({"text": TEXT, "voice": {"language": 5}}, "language", None),
    ],
)
def test_what_cannot_be_spoken_is_an_error(server, data, words, code):
    async def asked() -> list[Event]:
        async with connection(server) as client:
            await client.write_event(Event("synthesize", data))
            return await until(client, AudioStop)

    error = fault(asyncio.run(asked()))
    assert words in error.text and error.code == code


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        json.dumps({"type": "synthesize", "data_length": MAX_BODY_BYTES + 1}).encode() + b"\n",
        json.dumps({"type": "synthesize", "payload_length": 10**12}).encode() + b"\n",
        b"[1]\n",
        b'{"data": 1}\n',
        b"x" * (2 * MAX_BODY_BYTES),
    ],
    ids=["browser", "data", "payload", "list", "no type", "no end"],
)
def test_what_is_no_event_ends_the_connection(server, line):
    with socket.create_connection(address(server), timeout=30) as raw:
        try:
            raw.sendall(line)
            while raw.recv(4096):
                pass
        except ConnectionError:
            pass
    assert sound(asyncio.run(spoken(server, Synthesize(text="Yes."))))


@pytest.mark.parametrize("line", [b"[1]\n", b'{"data": 1}\n', b'{"type": "synthesize", "data": [1]}\n'])
def test_what_is_no_event_is_answered_in_words(server, line):
    with socket.create_connection(address(server), timeout=30) as raw:
        raw.sendall(line)
        assert b"no event of the Wyoming protocol" in raw.makefile("rb").read()


def test_the_end_of_the_server_ends_speech_without_its_last_event(server):
    """The last test: the server is gone after it."""

    async def ended() -> list[Event]:
        async with connection(server) as idle, connection(server) as client:
            await idle.write_event(Describe().event())
            await client.write_event(Synthesize(text=LONG).event())
            await until(client, AudioChunk)
            server.process.send_signal(signal.SIGTERM)
            events = await until(client, AudioStop)
            await until(idle, AudioStop)
            return events

    begun = time.monotonic()
    events = asyncio.run(ended())
    assert not any(AudioStop.is_type(event.type) for event in events)
    said, _ = server.process.communicate(timeout=30)
    assert server.process.returncode == 0 and time.monotonic() - begun < 15
    assert said.partition("Traceback")[1:] == ("", "") and "Task" not in said
