"""A client that asks as SillyTavern's XTTS extension does, with its strings and slashes."""

import io
import wave
from pathlib import Path

import httpx
import pytest

from tests.server.conftest import TEXT
from utils.server.xtts_routes import DEFAULTS, change_settings, read_settings

SETTINGS = {
    "temperature": "0.75",
    "speed": "1",
    "length_penalty": 1.0,
    "repetition_penalty": "5",
    "top_p": "0",
    "top_k": "50",
    "enable_text_splitting": True,
    "stream_chunk_size": "100",
}


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_conversation(server, slash):
    voices = server.get(f"/speakers{slash}").json()
    assert voices[0] == {"name": "default", "voice_id": "default", "preview_url": ""}
    assert [voice["name"] for voice in voices] == server.get(f"/speakers_list{slash}").json()
    assert server.get(f"/languages{slash}").json() == {"languages": {"English": "en"}}
    assert set(server.get(f"/get_folders{slash}").json()) == {"speaker_folder", "output_folder", "model_folder"}
    answer = httpx.post(f"{server.url}/set_tts_settings{slash}", json=SETTINGS)
    assert answer.json() == {"message": "Settings successfully applied"}
    assert server.get(f"/get_tts_settings{slash}").json()["temperature"] == 0.75
    body = {"text": TEXT, "speaker_wav": voices[1]["voice_id"], "language": "en"}
    said = httpx.post(f"{server.url}/tts_to_audio{slash}", json=body, timeout=120)
    assert said.status_code == 200 and said.headers["content-type"] == "audio/wav"
    with wave.open(io.BytesIO(said.content)) as wav:
        assert (wav.getframerate(), wav.getnchannels(), wav.getsampwidth()) == (24_000, 1, 2)
        assert wav.getnframes() > 24_000
    with httpx.stream("GET", f"{server.url}/tts_stream{slash}", params=body, timeout=120) as stream:
        assert stream.status_code == 200
        parts = list(stream.iter_bytes(2048))
    assert parts[0][:4] == b"RIFF" and len(parts) > 3
    # What is not known yet is written as the largest size, as players expect of a stream.
    assert b"".join(parts)[40:44] == b"\xff" * 4


def test_faults_are_told(server):
    for fields in ({"text": ""}, {"text": TEXT, "language": "zh-cn"}, {"text": TEXT, "speaker_wav": "missing"}):
        answer = httpx.post(f"{server.url}/tts_to_audio/", json=fields, timeout=60)
        assert answer.status_code == 400 and answer.json()["error"]["message"]
    for odd in ({"top_k": "many"}, {"speed": 0}, {"temperature": "nan"}):
        bad = httpx.post(f"{server.url}/set_tts_settings", json=SETTINGS | odd)
        assert bad.status_code == 400 and bad.json()["error"]["param"] == next(iter(odd))


def test_voices_and_languages_are_named_as_clients_of_the_xtts_server_do(server):
    recording = Path("assets/starter/reference.wav").read_bytes()
    files = {"audio_sample": ("anna.wav", recording)}
    assert httpx.post(f"{server.url}/v1/audio/voices", files=files, data={"name": "anna"}).is_success
    voices = [("anna", "en"), ("anna.wav", "EN"), ("speakers/anna.wav", "en-us"), ("C:\\speakers\\anna.wav", "English")]
    for voice, language in [*voices, ("anna", "auto"), ("anna", "")]:
        body = {"text": "No.", "speaker_wav": voice, "language": language}
        assert httpx.post(f"{server.url}/tts_to_audio/", json=body, timeout=60).status_code == 200, body
    for fields in ({"speaker_wav": "/etc/hostname"}, {"language": "fr"}, {"speaker_wav": "missing"}):
        said = httpx.post(f"{server.url}/tts_to_audio/", json={"text": "No.", **fields}, timeout=60)
        message = said.json()["error"]["message"]
        assert said.status_code == 400 and str(server.output) not in message and "/etc" not in message
        assert "anna" in message or "use one of: en." in message
    assert httpx.delete(f"{server.url}/v1/audio/voices/anna").is_success


PAGES = {
    "http://127.0.0.1:8000/": 200,
    "http://localhost:8000/": 200,
    "https://evil.example/": 403,
    "": 403,
    "http://127.0.0.1.evil.example/": 403,
}


@pytest.mark.parametrize(("page", "status"), PAGES.items())
def test_audio_element_of_a_page_on_this_computer_may_play(server, page, status):
    """It sends no Origin; `localhost` and 127.0.0.1 are two sites to a browser."""
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Referer": page}
    params = {"text": "No.", "speaker_wav": "default", "language": "en"}
    assert httpx.get(f"{server.url}/tts_stream/", params=params, headers=headers, timeout=60).status_code == status
    body = {"text": "No.", "speaker_wav": "default", "language": "en"}
    assert httpx.post(f"{server.url}/tts_to_audio/", json=body, headers=headers).status_code == 403


def test_settings_are_kept_in_a_file_that_all_replicas_read(tmp_path):
    path = tmp_path / "output" / "settings.json"
    assert read_settings(path) == DEFAULTS
    change_settings(path, {"temperature": 0.9, "length_penalty": 2.0})
    change_settings(path, {"speed": 1.5})
    assert read_settings(path) == DEFAULTS | {"temperature": 0.9, "length_penalty": 2.0, "speed": 1.5}


@pytest.mark.parametrize("damaged", ["", "{", "[]", "3", '{"temperature": "warm"}', "\x00"])
def test_a_damaged_file_of_settings_gives_the_defaults_and_is_replaced(tmp_path, damaged, caplog):
    path = tmp_path / "settings.json"
    path.write_text(damaged, encoding="utf-8")
    assert read_settings(path) == DEFAULTS and "the default settings are used" in caplog.text
    change_settings(path, {"speed": 2.0})
    assert read_settings(path) == DEFAULTS | {"speed": 2.0}
