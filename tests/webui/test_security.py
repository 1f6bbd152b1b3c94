"""Attacks on a running app, each tried: strangers' names and sites, other people's files, floods, names that lead out.

Tried elsewhere: file names (tests/project/test_uploads.py), zip bombs and tables that point outside (tests/dataset),
pickles that run code (tests/bases), text typed into the page (tests/webui browser tests).
"""

import ast
import http.client
import inspect
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import httpx
import psutil
import pytest

import app as app_module
from tests.sources import parsed
from tests.webui.app import ROOT, running_app
from utils.errors import UserError
from utils.project.paths import Project
from utils.project.projects import ProjectSettings, create_project
from webui import sound
from webui.interface import create_ui
from webui.page import Page
from webui.security import Access, PageGuard, is_loopback, read_auth
from webui.temporary import PREFIX

SECRET = "the neighbor's secret"
EVIL = "http://evil.example"
SOUND = sound.address("maria", "take")
"""Live speech, which the page does not have gradio send."""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world") / "output"
    (folder / "anna" / "dataset").mkdir(parents=True)
    (folder / "anna" / "dataset" / "lang.txt").write_text("en")
    (folder.parent / "secret.txt").write_text(SECRET)
    (folder / "anna" / "link.txt").symlink_to(folder.parent / "secret.txt")
    return folder


@pytest.fixture(scope="module")
def app(output: Path) -> Iterator[str]:
    """The app in an environment that asks gradio to open what must stay closed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_SHARE", "true")
        patch.setenv("GRADIO_ALLOWED_PATHS", "/")
        patch.setenv("GRADIO_MCP_SERVER", "true")
        with running_app(output, "--max-upload-gb", "0.001") as address:
            yield address


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_app(tmp_path_factory.mktemp("locked"), "--auth", "anna:long enough") as address:
        yield address


# Who may connect


def test_only_this_computer_can_connect_by_default(app):
    port = int(app.rstrip("/").rsplit(":", 1)[1])
    addresses = {a.address for found in psutil.net_if_addrs().values() for a in found if a.family == socket.AF_INET}
    others = [address for address in addresses if not is_loopback(address)]
    if not others:
        pytest.skip("this computer has no address but its own")
    for address in others:
        with pytest.raises(OSError):
            socket.create_connection((address, port), timeout=2)


def test_the_app_does_not_start_for_strangers_without_a_login(tmp_path):
    done = subprocess.run(
        [sys.executable, "app.py", "--output", str(tmp_path), "--host", "0.0.0.0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "without a password" in done.stderr and "--auth" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("--port", "0"),
        ("--max-upload-gb", "nan"),
        ("--project-quota-gb", "-1"),
    ],
)
def test_a_flag_that_cannot_be_used_is_refused_in_words(monkeypatch, capsys, tmp_path, flags):
    monkeypatch.setattr(sys, "argv", ["app.py", "--output", str(tmp_path), *flags])
    assert app_module.main() == 2
    reported = capsys.readouterr().err
    assert flags[0] in reported and "fix:" in reported


@pytest.mark.parametrize("place", [{"host": "0.0.0.0"}, {"host": "::"}, {"host": "192.168.1.5"}, {"share": True}])
def test_other_hosts_and_sharing_need_a_login(place):
    with pytest.raises(UserError, match="without a password"):
        Access(**place).checked()
    Access(**place, auth=(("anna", "long enough"),)).checked()


def test_weak_and_unreadable_logins_are_refused(tmp_path):
    with pytest.raises(UserError, match="too short"):
        Access(auth=(("anna", "short"),)).checked()
    with pytest.raises(UserError, match="upload size"):
        Access(max_upload_bytes=0).checked()
    passwords = tmp_path / "users"
    passwords.write_text("anna:with:colons\n\nbert:long enough\n")
    assert read_auth(f"@{passwords}") == (("anna", "with:colons"), ("bert", "long enough"))
    for bad in ("mysecret", ":mysecret", f"@{tmp_path / 'none'}"):
        with pytest.raises(UserError) as caught:
            read_auth(bad)
        assert "mysecret" not in str(caught.value)


@pytest.mark.parametrize(
    "path", ["config", "gradio_api/info", "gradio_api/file=/etc/group", "gradio_api/queue/data", SOUND]
)
def test_without_login_nothing_is_answered(locked, path):
    assert httpx.get(locked + path).status_code == 401


def test_without_login_nothing_is_taken(locked):
    assert httpx.post(locked + "gradio_api/upload", files={"files": b"x"}).status_code == 401
    call = {"data": ["x", "en", "tiny"]}
    assert httpx.post(locked + "gradio_api/call/project_create", json=call).status_code == 401
    assert httpx.post(locked + "gradio_api/queue/join", json={**call, "fn_index": 0}).status_code == 401
    wrong = httpx.post(locked + "login", data={"username": "anna", "password": "wrong"})
    assert wrong.status_code == 400
    with httpx.Client() as client:
        assert client.post(locked + "login", data={"username": "anna", "password": "long enough"}).status_code == 200
        assert client.get(locked + "config").status_code == 200
        assert client.get(locked + SOUND).status_code == 404


# Other sites in the user's own browser


@pytest.mark.parametrize("host", ["evil.example:7860", "127.0.0.1.evil.example", ""])
def test_a_strangers_name_that_points_here_gets_no_answer(app, host):
    """DNS rebinding: the browser believes that the page of evil.example is served from here."""
    for path in ("", "config", "gradio_api/info"):
        answer = httpx.get(app + path, headers={"host": host})
        assert answer.status_code in (400, 421) and "gradio" not in answer.text.lower()


def test_names_of_this_computer_are_answered(app):
    port = app.rstrip("/").rsplit(":", 1)[1]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert httpx.get(app, headers={"host": host}).status_code == 200
    assert Access(trusted_hosts=("studio.example",)).is_trusted("Studio.Example")
    assert not Access(host="0.0.0.0").is_trusted("evil.example")
    assert not Access().is_trusted("x.gradio.live") and Access(share=True).is_trusted("x.gradio.live")


@pytest.mark.parametrize("origin", [EVIL, "null", "https://127.0.0.1.evil.example", "http://127.0.0.1:1"])
def test_another_site_can_neither_upload_nor_call_nor_read(app, origin):
    foreign = {"origin": origin}
    assert httpx.post(app + "gradio_api/upload", files={"files": b"x"}, headers=foreign).status_code == 403
    call = {"data": ["stolen", "en", "tiny"]}
    assert httpx.post(app + "gradio_api/call/project_create", json=call, headers=foreign).status_code == 403
    assert httpx.post(app + "gradio_api/queue/join", json=call, headers=foreign).status_code == 403
    assert httpx.get(app + "config", headers=foreign).status_code == 403


@pytest.mark.parametrize(
    ("host", "origin", "answered"),
    [
        ("mine.gradio.live", "https://mine.gradio.live", True),
        ("mine.gradio.live", None, True),
        ("127.0.0.1:7860", "http://127.0.0.1:7860", True),
        ("mine.gradio.live", "https://evil.gradio.live", False),
        ("mine.gradio.live", "https://evil.gradio.app", False),
        ("127.0.0.1:7860", "https://evil.gradio.live", False),
        ("mine.gradio.live", "null", False),
    ],
)
def test_a_shared_page_is_not_driven_by_other_shared_pages(host, origin, answered):
    headers = {"host": host} | ({"origin": origin} if origin else {})
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    guard = PageGuard(lambda *_: None, access=Access(share=True, auth=(("anna", "long enough"),)))  # type: ignore[arg-type]
    refused = guard.refusal({"type": "http", "path": "/gradio_api/queue/join", "headers": raw})
    assert refused is None if answered else refused is not None and refused[0] == 403


def test_another_site_cannot_embed_what_is_served_here(app):
    embedded = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert httpx.get(app + "config", headers=embedded).status_code == 403
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    answer = httpx.get(app, headers=followed)
    assert answer.status_code == 200
    assert answer.headers["x-frame-options"] == "SAMEORIGIN" and answer.headers["x-content-type-options"] == "nosniff"


def test_our_own_page_may_upload(app):
    answer = httpx.post(app + "gradio_api/upload", files={"files": b"x"}, headers={"origin": app.rstrip("/")})
    assert answer.status_code == 200


# Files


@pytest.mark.parametrize(
    "path",
    [
        "{world}/secret.txt",
        "{world}/output/anna/../../secret.txt",
        "{world}/output/%2e%2e/secret.txt",
        "{world}/output/anna/link.txt",
        "/etc/passwd",
        "app.py",
        "../secret.txt",
        "{root}/webui/security.py",
    ],
)
def test_only_the_output_folder_is_served(app, output, path):
    where = path.format(world=output.parent, root=ROOT)
    for route in ("gradio_api/file=", "gradio_api/file/", "file=", "static/", "svelte/", "assets/"):
        status, body = raw_get(app, f"/{route}{where}")
        assert SECRET not in body and "root:" not in body and "import" not in body[:200], (route, where)
        assert status != 200 or route in ("file=",), (route, where, body[:100])


def test_what_lies_in_the_output_folder_is_served(app, output):
    assert raw_get(app, f"/gradio_api/file={output}/anna/dataset/lang.txt") == (200, "en")


@pytest.mark.parametrize(
    "path",
    [
        "gradio_api/file=http://127.0.0.1:{port}/config",
        "gradio_api/file=https://example.org/",
        "gradio_api/proxy=http://127.0.0.1:{port}/config",
        "gradio_api/monitoring",
        "monitoring/summary",
        "gradio_api/deep_link",
        "docs",
    ],
)
def test_nothing_is_fetched_for_others_and_nobody_looks_on(app, path):
    port = app.rstrip("/").rsplit(":", 1)[1]
    status, body = raw_get(app, "/" + path.format(port=port))
    assert status in (403, 404), body[:200]


def raw_get(app: str, path: str) -> tuple[int, str]:
    """A request whose path is sent as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", int(app.rstrip("/").rsplit(":", 1)[1]), timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(errors="replace")


@pytest.mark.parametrize("name", ["../../evil.sh", "/etc/cron.d/evil", "a\\..\\b.exe"])
def test_the_name_of_an_upload_does_not_choose_its_place(app, name):
    answer = httpx.post(app + "gradio_api/upload", files={"files": (name, b"x")})
    (stored,) = answer.json()
    place = Path(stored)
    assert place.parent.parent.name.startswith(PREFIX) and len(place.parent.name) == 64
    assert ".." not in place.parts and not Path("/etc/cron.d/evil").exists()


@pytest.mark.parametrize("file", ["{world}/secret.txt", "{world}/output/anna/dataset/lang.txt", "/etc/passwd"])
@pytest.mark.parametrize("endpoint", ["data_upload", "language_look"])
def test_a_file_of_the_server_cannot_be_named_as_an_upload(app, output, endpoint, file):
    """Neither a stranger's, nor another project's: only what was really uploaded."""
    named = {"path": file.format(world=output.parent), "meta": {"_type": "gradio.FileData"}, "orig_name": "a.txt"}
    bert = project_of("bert", output)
    values = {"data_upload": ["bert", [named]], "language_look": ["bert", "en", "tiny", named]}
    event = httpx.post(f"{app}gradio_api/call/{endpoint}", json={"data": values[endpoint]}).json()["event_id"]
    answer = httpx.get(f"{app}gradio_api/call/{endpoint}/{event}", timeout=60).text
    assert "event: error" in answer and "no project" not in answer and SECRET not in answer
    assert not (bert.folder / "uploads").exists()
    assert Path(named["path"]).exists(), "uploads are moved: it must not have been"


def test_what_was_uploaded_can_be_named(app, output):
    """The same call as above, which is refused for its file and nothing else."""
    carl = project_of("carl", output)
    (stored,) = httpx.post(app + "gradio_api/upload", files={"files": ("a.txt", b"Hello.")}).json()
    named = {"path": stored, "meta": {"_type": "gradio.FileData"}, "orig_name": "a.txt"}
    event = httpx.post(f"{app}gradio_api/call/data_upload", json={"data": ["carl", [named]]}).json()["event_id"]
    assert "event: complete" in httpx.get(f"{app}gradio_api/call/data_upload/{event}", timeout=60).text
    assert len(list(carl.folder.rglob("a.txt"))) == 1


def project_of(name: str, output: Path) -> Project:
    """A project for uploads."""
    project = Project(name=name, output=output)
    return project if project.folder.exists() else create_project(name, output, ProjectSettings(language="en"))


# Floods


def test_a_file_that_is_too_large_is_refused(app):
    answer = httpx.post(app + "gradio_api/upload", files={"files": b"x" * 2_000_000})
    assert answer.status_code == 413
    assert httpx.post(app + "gradio_api/upload", files={"files": b"x" * 100_000}).status_code == 200


def test_a_request_that_hides_its_length_is_cut_off(app):
    def endless() -> Iterator[bytes]:
        yield b'{"data": ["'
        for _ in range(64):
            yield b"x" * 2**20
        yield b'"]}'

    try:
        status = httpx.post(app + "gradio_api/call/project_create", content=endless(), timeout=30).status_code
    except httpx.TransportError:
        status = 400
    assert status >= 400
    reported = {"content-length": str(2**40), "content-type": "application/json"}
    port = int(app.rstrip("/").rsplit(":", 1)[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/gradio_api/call/project_create", headers=reported)
    assert connection.getresponse().status == 413
    assert httpx.get(app).status_code == 200


# What handlers are given

HOSTILE = ["../x", "con", "<img src=x onerror=alert(1)>", "\x00", None, {"path": "/etc/passwd"}]
MORE_HOSTILE = ["/etc", "x" * 70, "; touch x", "", True, -1, float("nan"), [], [["x"]]]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return create_ui(tmp_path_factory.mktemp("hostile") / "output")


@pytest.mark.parametrize(
    "value", [*HOSTILE, *(pytest.param(value, marks=pytest.mark.slow) for value in MORE_HOSTILE)], ids=repr
)
def test_every_endpoint_answers_hostile_values_with_a_fault_for_people(page, value, started):
    """Private ones as well: that a browser's page does not show an endpoint does not keep anyone from calling it."""
    output = page.studio.output
    (output / "anna" / "dataset").mkdir(parents=True, exist_ok=True)
    for dependency in page.fns.values():
        if dependency.fn is None:
            continue
        for choose in (lambda _: value, lambda name: "anna" if name == "project" else value):
            names = list(inspect.signature(dependency.fn).parameters)
            values = [{} if name == "seen" else choose(name) for name in names]
            try:
                answer = dependency.fn(*values)
                if hasattr(answer, "__next__"):
                    next(answer, None)
                    answer.close()
            except gr.Error as error:
                assert "<img" not in str(error), dependency.api_name
    outside = [path for path in output.parent.rglob("*") if output not in (path, *path.parents)]
    assert outside == []


def test_no_shell_is_ever_started():
    """Neither by name nor by a flag, in anything that is shipped."""
    banned = {"system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell"}
    found = []
    files = [ROOT / "app.py", *(p for top in ("utils", "webui", "benchmarks") for p in (ROOT / top).rglob("*.py"))]
    for path in files:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                owner = ast.unparse(node.func).split(".")[0]
                is_shell = any(k.arg == "shell" and not _is_false(k.value) for k in node.keywords)
                if is_shell or (name in banned and owner in ("os", "subprocess", "asyncio", "commands", name)):
                    found.append(f"{path}:{node.lineno}")
    assert found == []


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def test_the_environment_cannot_open_what_is_closed(app, output):
    """The app of these tests runs with GRADIO_SHARE, GRADIO_ALLOWED_PATHS=/ and GRADIO_MCP_SERVER set."""
    assert httpx.get(app + "gradio_api/mcp/sse").status_code == 404
    assert raw_get(app, "/gradio_api/file=/etc/passwd")[0] in (403, 404)
    assert "gradio.live" not in (output / "app.log").read_text()
