"""Whatever a client sends, it gets a clear answer in OpenAI's form, and the server continues."""

import io
import json
import socket
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from tests.server.conftest import TEXT, Server

BAD: dict[str, tuple[dict[str, Any], int, str]] = {
    "empty": ({"input": ""}, 400, "empty"),
    "a number": ({"input": 12}, 400, "string"),
    "too long": ({"input": "word " * 40_000}, 400, "200000 characters; a request may have 20000"),
    "other script": ({"input": "漢字かな"}, 400, "cannot read"),
    "punctuation": ({"input": "... !?! --- ,,,"}, 400, "no letter or digit"),
    "half a pair": ({"input": "Hello \ud83d there"}, 400, "not valid Unicode"),
    "broken SSML": ({"input": "<speak>Hello <break"}, 400, "SSML"),
    "entities": ({"input": "<?xml version='1.0'?><!DOCTYPE x><speak>Hello</speak>"}, 400, "declarations"),
    "deep SSML": ({"input": f"<speak>{'<p>' * 2_000}Hello{'</p>' * 2_000}</speak>"}, 400, "nested too deeply"),
    "silence": ({"input": "Hello " + "[pause 10] " * 1_000}, 400, "s of silence"),
    "mixture": ({"voice": "heart:nan,emma:0.5"}, 400, "weights above 0"),
    "mixture of many": ({"voice": "heart," * 100}, 400, "up to 8"),
    "unknown in a mixture": ({"voice": "heart:0.5,missing:0.5"}, 400, "no voice 'missing'"),
    "voice of a path": ({"voice": "../../etc/passwd"}, 400, "no voice"),
    "voice of a list": ({"voice": [1]}, 400, "not a name"),
    "model of a path": ({"model": "../ready"}, 404, "does not exist"),
    "model of another type": ({"model": 7}, 400, "not a name"),
    "format": ({"response_format": "midi"}, 400, "use one of: mp3"),
    "stream format": ({"stream_format": "tape"}, 400, "audio or sse"),
    "too quick": ({"speed": 9}, 400, "speed is 9.0; use 0.25 to 4"),
    "hot": ({"temperature": 5}, 400, "temperature is 5.0"),
    "codes": ({"top_k": 10**30}, 400, "top_k"),
    "seed": ({"seed": -1}, 400, "seed is -1"),
    "split": ({"split": "letters"}, 400, "split"),
    "language": ({"language": "xx"}, 400, "cannot read the language"),
}


def error_of(response: httpx.Response) -> dict[str, Any]:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


@pytest.fixture(autouse=True)
def lives_on(server: Server) -> Iterator[None]:
    yield
    assert server.process.poll() is None
    assert server.get("/health").json()["status"] == "ok"


@pytest.mark.parametrize(("fields", "status", "message"), BAD.values(), ids=BAD)
def test_bad_fields_are_refused(server, fields, status, message):
    body = {"model": "starter", "voice": "default", "input": TEXT} | fields
    response = httpx.post(f"{server.url}/v1/audio/speech", content=json.dumps(body), timeout=60)
    error = error_of(response)
    assert response.status_code == status, error
    assert message in error["message"] and error["type"] == "invalid_request_error"
    assert str(server.output) not in error["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(server, body):
    response = httpx.post(f"{server.url}/v1/audio/speech", content=body)
    assert response.status_code == 400 and error_of(response)["code"] == "invalid_json"


def test_a_body_that_is_too_large_is_refused(server):
    response = httpx.post(f"{server.url}/v1/audio/speech", content=b" " * (2 * 2**20))
    assert response.status_code == 413 and error_of(response)["code"] == "request_too_large"


def test_who_still_sends_a_body_that_is_too_large_gets_the_answer(server):
    with connection(server) as raw:
        raw.sendall(b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2097152\r\n\r\n")
        for _ in range(8):
            time.sleep(0.05)
            raw.sendall(b" " * 2**18)
        assert b" 413 " in raw.recv(4096)


def test_unknown_addresses_and_methods_are_told(server):
    assert error_of(server.get("/v1/chat/completions"))["code"] == "unknown_url"
    response = server.get("/v1/audio/speech")
    assert response.status_code == 405 and error_of(response)["code"] == "unknown_url"


def test_fields_that_missing_knows_are_ignored(server):
    assert server.post(instructions="cheerfully", user="me", anything=[1]).status_code == 200


def upload(server: Server, content: bytes, name: str = "ben") -> httpx.Response:
    files = {"audio_sample": ("ben.wav", content)}
    return httpx.post(f"{server.url}/v1/audio/voices", files=files, data={"name": name}, timeout=60)


def sound(seconds: float, loudness: float = 0.3) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((1, 2, 24_000, 0, "NONE", ""))
        noise = np.random.default_rng(0).normal(size=int(seconds * 24_000)) * loudness * 8_000
        wav.writeframes(noise.astype("<i2").tobytes())
    return file.getvalue()


UPLOADS: dict[str, tuple[bytes, str, int, str]] = {
    "half": (sound(2.0)[:40_000], "ben", 400, "truncated"),
    "short": (sound(0.1), "ben", 400, "lasts 0.10 s"),
    "silent": (sound(1.0, 0.0), "ben", 400, "holds no sound"),
    "no sound": (b"this is no recording", "ben", 400, "cannot be read as audio"),
    "empty": (b"", "ben", 400, "0 bytes"),
    "large": (sound(200.0), "ben", 413, "too large"),
    "path": (sound(1.0), "../ben", 400, "cannot be used as a voice name"),
    "own": (sound(1.0), "default", 400, "own voice"),
    "no name": (sound(1.0), "", 400, "a name"),
}


@pytest.mark.parametrize(("content", "name", "status", "message"), UPLOADS.values(), ids=UPLOADS)
def test_bad_recordings_are_refused(server, content, name, status, message):
    response = upload(server, content, name)
    error = error_of(response)
    assert response.status_code == status and message in error["message"], error
    assert "/tmp" not in error["message"]
    assert "ben" not in server.get("/v1/audio/voices").text
    assert list(server.output.glob(".voices/*")) == []


def test_an_upload_that_is_broken_off_leaves_nothing(server):
    with connection(server) as raw:
        raw.sendall(
            b"POST /v1/audio/voices HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
            b'Content-Disposition: form-data; name="audio_sample"; filename="a.wav"\r\n\r\nRIFF'
        )
        time.sleep(0.3)
    assert list(server.output.glob(".voices/*")) == []
    assert not list(Path("/tmp").glob("voice-*"))


def connection(server: Server) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port))


def ask_for_long_speech(raw: socket.socket) -> None:
    body = json.dumps({"model": "starter", "voice": "default", "input": f"{TEXT} " * 300, "response_format": "pcm"})
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    raw.sendall((head + body).encode())


def test_a_client_that_goes_away_ends_its_speech(server):
    with connection(server) as raw:
        ask_for_long_speech(raw)
        assert b"200 OK" in raw.recv(4096)
        assert server.metric("requests_live") == 1
    assert server.until("requests_live") == 0
    assert server.until("batch_size") == 0


def test_a_client_that_goes_away_before_its_first_sound_ends_its_speech(server):
    with connection(server) as raw:
        ask_for_long_speech(raw)
    assert server.until("requests_live") == 0


def test_a_client_that_stops_reading_does_not_hold_the_engine(server):
    with connection(server) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        ask_for_long_speech(raw)
        raw.recv(4096)
        assert server.post().status_code == 200
    assert server.until("requests_live") == 0


def test_nonsense_that_is_no_http_is_survived(server):
    for words in (b"\x16\x03\x01\x00hello", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000):
        with connection(server) as raw:
            try:
                raw.sendall(words)
                raw.settimeout(2)
                raw.recv(1024)
            except OSError:
                pass
