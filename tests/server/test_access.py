"""Who is answered: keys, host names, origins; what is answered without a key."""

import httpx
import pytest
from starlette.testclient import TestClient

from utils.errors import UserError
from utils.server.access import KEY, KEY_FILE, find_keys, is_valid
from utils.server.api import SpeechApi, as_request_error
from utils.server.application import create_application
from utils.server.service import SpeechService
from utils.server.settings import ServerConfig

SECRET = "a-key-of-enough-letters"
PAGE = "http://127.0.0.1:8000"


def client(output, keys=(), **settings) -> TestClient:
    api = SpeechApi(SpeechService(ServerConfig(output=output, **settings)))
    return TestClient(create_application(api, keys), base_url="http://127.0.0.1:8020")


def code(response: httpx.Response) -> str:
    return response.json()["error"]["code"]


def test_without_keys_everything_is_answered(tmp_path):
    asked = client(tmp_path)
    assert asked.get("/v1/models").status_code == asked.head("/v1/models").status_code == 200
    assert asked.head("/v1/audio/speech").status_code == 405


def test_an_unknown_address_is_named_as_it_was_asked_for(tmp_path):
    """Of what the engine says folders of this computer are shortened; what a client wrote is its own."""
    for path in (f"{tmp_path}/no-such-page", f"/{300 * 'a'}/b"):
        response = client(tmp_path).get(path)
        assert (response.status_code, code(response)) == (404, "unknown_url")
        assert path in response.json()["error"]["message"]
        shown = as_request_error(UserError(what=f"damaged: {path}"))
        assert (path in shown.what) is not path.startswith(str(tmp_path))


def test_with_keys_a_request_must_bring_one(tmp_path):
    asked = client(tmp_path, keys=(SECRET, "another-long-enough-key"))
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": SECRET}, {"Authorization": "Bearer é"}):
        encoded = {name: value.encode() for name, value in headers.items()}
        for path in ("/v1/models", "/metrics", "/speakers", "/no-such-page"):
            response = asked.get(path, headers=encoded)
            assert response.status_code == 401 and code(response) == "invalid_api_key"
    assert asked.get("/v1/models", headers={"Authorization": f"Bearer {SECRET}"}).status_code == 200
    assert asked.get("/health").status_code == 200


def test_other_host_names_and_sites_are_refused(tmp_path):
    asked = client(tmp_path)
    assert code(asked.get("/v1/models", headers={"Host": "evil.example"})) == "unknown_host"
    assert code(asked.get("/v1/models", headers={"Origin": "https://evil.example"})) == "foreign_origin"
    assert code(asked.get("/v1/models", headers={"Sec-Fetch-Site": "cross-site"})) == "foreign_origin"
    assert asked.get("/v1/models", headers={"Origin": "http://127.0.0.1:8020"}).status_code == 200
    assert client(tmp_path, trusted_host=("tts.example",)).get("/health", headers={"Host": "tts.example"}).is_success


def test_a_page_that_was_allowed_may_ask(tmp_path):
    asked = client(tmp_path, allow_origin=(PAGE,), keys=(SECRET,))
    before = asked.options("/set_tts_settings", headers={"Origin": PAGE, "Access-Control-Request-Method": "POST"})
    assert before.status_code == 204 and before.headers["access-control-allow-origin"] == PAGE
    assert "content-type" in before.headers["access-control-allow-headers"]
    answer = asked.get("/v1/models", headers={"Origin": PAGE, "Authorization": f"Bearer {SECRET}"})
    assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == PAGE
    assert code(asked.get("/v1/models", headers={"Origin": "http://127.0.0.1:9"})) == "foreign_origin"


def test_metrics_are_prometheus_text(tmp_path):
    asked = client(tmp_path)
    asked.get("/v1/models")
    asked.get("/nothing")
    response = asked.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'xtts_requests_total{route="/v1/models",status="200"} 1' in response.text
    assert 'xtts_requests_total{route="other",status="404"} 1' in response.text
    assert "# TYPE xtts_first_sound_seconds histogram" in response.text


def test_keys_come_from_the_flag_the_environment_or_a_file(tmp_path):
    listed = tmp_path / "keys"
    listed.write_text(f"{SECRET}\n\nsecond-key-of-the-file\n")
    assert find_keys(SECRET, {}, tmp_path, make=True) == ([SECRET], "")
    assert find_keys(f"@{listed}", {}, tmp_path, make=True)[0] == [SECRET, "second-key-of-the-file"]
    environment = {KEY: SECRET}
    assert find_keys("", environment, tmp_path, make=True)[0] == [SECRET] and environment == {}
    assert find_keys("", {KEY_FILE: str(listed)}, tmp_path, make=False)[0][0] == SECRET
    assert find_keys("", {}, tmp_path, make=False) == ([], "")
    assert is_valid(SECRET, [SECRET]) and not is_valid(SECRET + "x", [SECRET])


def test_a_made_key_is_printed_once_and_kept(tmp_path):
    keys, notice = find_keys("", {}, tmp_path / "new", make=True)
    assert keys[0] in notice and (tmp_path / "new" / ".api-key").stat().st_mode & 0o777 == 0o600
    again, notice = find_keys("", {}, tmp_path / "new", make=True)
    assert again == keys and keys[0] not in notice


@pytest.mark.parametrize("given", ["short", "@/no/such/file"])
def test_keys_that_cannot_be_used_are_told_without_being_shown(tmp_path, given):
    with pytest.raises(UserError) as error:
        find_keys(given, {}, tmp_path, make=False)
    assert "'short'" not in str(error.value)
