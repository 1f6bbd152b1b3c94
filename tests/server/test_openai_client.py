"""OpenAI's own client speaks with the server: formats, streams, models and voices."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import httpx
import numpy as np
import pytest

from tests.server.conftest import TEXT, Server, samples
from utils.audio.decode import decode
from utils.speech.encode import FORMATS

LOSSLESS = ("wav", "flac")
DELAY_S = 0.12
"""Encoders put up to so much silence before and behind the sound."""


@pytest.fixture(scope="module")
def openai():
    return import_module("openai")  # takes a second to load


@pytest.fixture(scope="module")
def client(openai, server: Server):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none-needed", max_retries=0)


@pytest.fixture(scope="module")
def spoken(client) -> np.ndarray:
    """The sentence with a seed, as samples."""
    return samples(say(client, response_format="pcm"))


def say(client, text: str = TEXT, *, seed: int = 3, **options) -> bytes:
    fields = {"model": "starter", "voice": "default", "extra_body": {"seed": seed}} | options
    return client.audio.speech.create(input=text, **fields).content


def alike(found: np.ndarray, wanted: np.ndarray) -> float:
    """Correlation at the best delay."""
    size = 2 ** int(np.ceil(np.log2(len(found) + len(wanted))))
    product = np.fft.irfft(np.fft.rfft(found, size) * np.conj(np.fft.rfft(wanted, size)))
    return float(product.max() / np.linalg.norm(found) / np.linalg.norm(wanted))


def test_speech_is_sound_of_the_right_length(spoken):
    assert 1.0 < len(spoken) / 24_000 < 6.0
    assert 0.02 < np.abs(spoken).max() <= 1.0


@pytest.mark.parametrize("form", [name for name in FORMATS if name != "pcm"])
@pytest.mark.parametrize("stream", [True, False])
def test_every_format_decodes_to_the_same_speech(client, spoken, tmp_path, form, stream):
    path = tmp_path / f"speech.{form}"
    path.write_bytes(say(client, response_format=form, extra_body={"seed": 3, "stream": stream}))
    wav, rate = decode(path)
    found = wav[0].numpy()
    assert rate == 24_000 or form == "opus"
    if rate != 24_000:
        found = found[:: rate // 24_000]
    if form in LOSSLESS and stream:
        assert np.array_equal(found, spoken)
    elif stream:
        assert 0 <= len(found) - len(spoken) < 2 * DELAY_S * 24_000
        assert alike(found, spoken) > 0.95
    else:
        assert len(found) > 24_000


@pytest.mark.parametrize("stream", [True, False])
def test_what_a_text_has_that_no_model_can_say_is_named_and_left_out(client, stream):
    asked = {"model": "starter", "voice": "default", "extra_body": {"seed": 3, "stream": stream}}
    answer = client.audio.speech.with_raw_response.create(input="**No** 100 % 😀 да.", **asked)
    assert unquote(answer.headers["X-Unread"]).split() == ["**", "😀", "д", "а"]
    assert "X-Unread" not in client.audio.speech.with_raw_response.create(input="No.", **asked).headers


def test_sound_comes_in_parts_that_are_the_whole(client, spoken):
    fields = {"model": "starter", "voice": "default", "input": TEXT, "response_format": "pcm"}
    with client.audio.speech.with_streaming_response.create(**fields, extra_body={"seed": 3}) as response:
        parts = list(response.iter_bytes(1024))
    assert len(parts) > 3
    assert np.array_equal(samples(b"".join(parts)), spoken)


def test_events_hold_the_same_speech_and_an_account(client, spoken):
    fields = {"model": "starter", "voice": "default", "input": TEXT, "response_format": "pcm", "stream_format": "sse"}
    with client.audio.speech.with_streaming_response.create(**fields, extra_body={"seed": 3}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line]
    deltas, done = events[:-1], events[-1]
    assert {event["type"] for event in deltas} == {"speech.audio.delta"} and len(deltas) > 1
    assert np.array_equal(samples(b"".join(base64.b64decode(event["audio"]) for event in deltas)), spoken)
    usage = done["usage"]
    assert (
        done["type"] == "speech.audio.done" and usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    )
    # A code is 1024 samples at 22 050 Hz; a quiet tail of up to half a second is cut.
    assert -0.2 < usage["output_tokens"] * 1024 / 22_050 - len(spoken) / 24_000 < 0.7


@pytest.mark.slow
def test_a_seed_speaks_the_same_beside_others(client, spoken):
    others = [f"Number {number} is another sentence that continues for a while." for number in range(6)]
    with ThreadPoolExecutor(8) as pool:
        pcm = {"response_format": "pcm"}
        noise = [pool.submit(say, client, text, seed=number, **pcm) for number, text in enumerate(others)]
        found = samples(pool.submit(say, client, response_format="pcm").result())
        assert all(len(one.result()) > 10_000 for one in noise)
    assert len(found) == len(spoken)
    # The codes are the same; products of several rows may round otherwise in the last bit.
    assert np.abs(found - spoken).max() < 5e-3


def test_no_seed_is_another_take_each_time(client):
    takes = [say(client, response_format="pcm", extra_body={}) for _ in range(2)]
    assert takes[0] != takes[1]


def test_speed_shortens_speech(client, spoken):
    quick = samples(say(client, response_format="pcm", speed=2.0))
    assert 0.4 < len(quick) / len(spoken) < 0.65


@pytest.mark.slow
def test_a_long_text_comes_whole_and_in_order(client):
    sentences = ["One two three four five six seven.", "Still waters run deep.", "Rome was not built in a day."]
    body = {"seed": 3, "split": "sentences"}
    whole = samples(say(client, " ".join(sentences), response_format="pcm", extra_body=body))
    first = samples(say(client, sentences[0], response_format="pcm", extra_body=body))
    # The first sentence is followed by a pause in the long text only.
    spoken_part = np.trim_zeros(first, "b")
    assert np.abs(whole[: len(spoken_part)] - spoken_part).max() < 5e-3
    assert len(whole) > 2 * len(first)


def test_models_are_listed_and_found(openai, client):
    names = [model.id for model in client.models.list()]
    assert "starter" in names
    assert client.models.retrieve("starter").id == "starter"
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.models.retrieve("nothing/ready")


def test_faults_are_the_clients_own_exceptions(openai, client):
    with pytest.raises(openai.NotFoundError) as missing:
        say(client, model="gpt-none")
    assert missing.value.code == "model_not_found" and missing.value.param == "model"
    with pytest.raises(openai.BadRequestError) as unknown:
        say(client, voice="missing")
    assert unknown.value.code == "voice_not_found" and "default, bella" in str(unknown.value)


def test_a_voice_is_uploaded_used_and_deleted(openai, client, server, spoken):
    recording = Path("assets/starter/reference.wav").read_bytes()
    voice = client.audio.voices.create(audio_sample=("anna.wav", recording), name="anna", consent="mine")
    assert voice.id == "anna"
    assert "anna" in names(server)
    with pytest.raises(openai.BadRequestError, match="anna"):
        say(client, voice="hana")
    received = samples(say(client, voice="anna", response_format="pcm"))
    assert len(received) > 12_000
    assert np.array_equal(received, samples(say(client, voice={"id": "anna"}, response_format="pcm")))
    assert client.audio.voices.delete("anna").deleted
    assert "anna" not in names(server)
    with pytest.raises(openai.BadRequestError, match="no voice 'anna'"):
        say(client, voice="anna")


def test_voices_of_the_model_speak_differently(client, server):
    found = names(server, "?model=starter")
    assert found[0] == "default" and len(found) > 2
    first, second = (say(client, voice=name, response_format="pcm") for name in found[1:3])
    assert first != second


def names(server: Server, query: str = "") -> list[str]:
    """Voices as open-webui reads them: objects with id and name."""
    return [voice["name"] for voice in server.get(f"/v1/audio/voices{query}").json()["voices"]]


def test_models_and_voices_are_listed_as_other_clients_read_them(server):
    models = server.get("/v1/audio/models").json()["models"]
    assert {model["id"]: model["name"] for model in models}["starter"] == "starter"
    assert [model["id"] for model in server.get("/v1/models").json()["data"]] == [model["id"] for model in models]
    paths = server.get("/openapi.json").json()["paths"]
    schema = paths["/v1/audio/speech"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["input"] and schema["properties"]["speed"] == {"type": "number"}
    assert "/tts_stream" in paths and "swagger" in server.get("/docs").text


@pytest.mark.parametrize("model", ["tts-1", "tts-1-hd", "tts-1-1106", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15"])
def test_openai_names_of_models_mean_the_default_model(client, model):
    assert say(client, "No.", model=model, response_format="pcm") == say(client, "No.", response_format="pcm")
    assert client.models.retrieve(model).id == model


@pytest.mark.slow
def test_openai_names_of_voices_mean_those_of_the_model_in_order(client, server):
    found = names(server)
    for name, own in zip(
        ("alloy", "echo", "shimmer", "ash", "sage"), (*found[:2], *found[5:7], found[9 % len(found)]), strict=True
    ):
        asked, wanted = (say(client, "No.", voice=voice, response_format="pcm") for voice in (name, own))
        assert asked == wanted


def test_numbers_may_come_as_text_and_the_model_and_voice_be_missing(server):
    body = {"input": TEXT, "seed": "1", "speed": "1.0", "top_k": "50", "response_format": "pcm"}
    assert httpx.post(f"{server.url}/v1/audio/speech", json=body, timeout=120).content == server.post().content
    answer = httpx.post(f"{server.url}/v1/audio/speech", json=body | {"speed": "fast"}, timeout=120)
    assert answer.status_code == 400 and "speed is 'fast'; use a number" in answer.json()["error"]["message"]


@pytest.mark.slow
def test_voices_are_mixed_by_weight(client):
    recording = Path("assets/starter/reference.wav").read_bytes()
    client.audio.voices.create(audio_sample=("ben.wav", recording), name="ben", consent="mine")
    one, other, mixture = (
        say(client, voice=voice, response_format="pcm") for voice in ("emma", "ben", "emma:0.5, ben:0.5")
    )
    assert len({one, other, mixture}) == 3
    client.audio.voices.delete("ben")
