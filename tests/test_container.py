"""The container's command runs as a plain process: it has a login, and passes flags on to the page."""

import json
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.webui.app import ROOT, free_port, wait_for
from utils.cli.serve import output_of
from utils.errors import UserError
from webui.login import LOGIN, LOGIN_FILE, MADE_FILE, find_login
from webui.security import Access

DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
ENTRY = runpy.run_path(str(ROOT / "docker" / "entrypoint.py"))


def exec_form(instruction: str) -> list[str]:
    """The words of CMD or ENTRYPOINT."""
    found = re.search(rf"^{instruction} (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert found, f"{instruction} is not in exec form"
    return json.loads(found[1])


def test_flags_are_the_pages_and_other_words_a_command():
    assert list(ENTRY["PAGE"]) == exec_form("CMD"), "said twice, and the same"
    assert exec_form("ENTRYPOINT") == ["python", "docker/entrypoint.py"]
    command_of = ENTRY["command_of"]
    assert command_of([]) == exec_form("CMD") == command_of(exec_form("CMD"))
    assert command_of(["--port", "8000"]) == [*exec_form("CMD"), "--port", "8000"]
    other = ["python", "-m", "utils.cli.base", "list"]
    assert command_of(other) == other


def test_the_image_can_compile_and_transcribe_on_a_gpu():
    """Triton and torch.compile build what they run; CTranslate2 needs cuBLAS 12 beside PyTorch's own."""
    system, packages = DOCKERFILE.split(" AS system")[1].split("FROM system AS packages")
    assert re.search(r"apt-get install .*\bg\+\+ .*\bpython3-dev\b", system)
    assert "nvidia-cublas-cu12==12." in packages


def test_the_jobs_that_save_are_those_of_the_pages_folder():
    assert output_of(["python", "app.py", "--port", "8000", "--output", "/x"]) == Path("/x")
    assert output_of(["python", "app.py", "--output=a b"]) == Path("a b")
    assert output_of(["python", "app.py"]) == Path("output")


@pytest.mark.slow
def test_the_page_starts_with_a_login_that_is_kept_and_printed_and_ends_as_docker_stops_it(tmp_path):
    output = tmp_path / "the volume"
    output.mkdir()
    port, log, kept = free_port(), output / "container.log", output / MADE_FILE
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, *exec_form("ENTRYPOINT")[1:], "--port", str(port), "--output", str(output)]
    with log.open("wb") as out, subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out) as process:
        try:
            wait_for(f"{address}/", process, log)
            assert httpx.get(f"{address}/config").status_code == 401
            login = re.search(r"\bstudio:(\S{16})", log.read_text())
            assert login, log.read_text()
            with httpx.Client(base_url=address, timeout=60) as page:
                page.post("/login", data={"username": "studio", "password": login[1]}).raise_for_status()
                assert page.get("/config").status_code == 200
                assert page.get(f"/gradio_api/file={kept}").status_code == 403, "a secret is not served"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=120) == 143
        finally:
            process.terminate()  # and the page with it, which a kill would leave behind
    assert kept.stat().st_mode & 0o777 == 0o600


def test_the_operators_login_comes_before_a_made_one(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("anna:with:colons\nbert:long enough\n", encoding="utf-8")
    both = (("anna", "with:colons"), ("bert", "long enough"))
    cases = {
        ("", LOGIN, "@anna:long enough"): (("@anna", "long enough"),),
        ("", LOGIN_FILE, str(secret)): both,
        (f"@{secret}", LOGIN, "eve:another one"): both,
    }
    for (auth, variable, value), wanted in cases.items():
        environment = {variable: value}
        assert find_login(auth, environment, tmp_path / "output", make=True) == (wanted, "")
        assert not environment, "the jobs that the page starts inherit no password"
    assert not (tmp_path / "output").exists()
    assert find_login("", {LOGIN: "", LOGIN_FILE: ""}, tmp_path, make=False) == ((), "")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({LOGIN: "anna:hush-hush", LOGIN_FILE: "/run/secrets/login"}, "two logins are set"),
        ({LOGIN: "anna:hush"}, "the password of 'anna' is too short"),
        ({LOGIN: "hush-hush-hush"}, "the login is not in the form NAME:PASSWORD"),
        ({LOGIN: "@anna-hush-hush"}, "the login is not in the form NAME:PASSWORD"),
        ({LOGIN_FILE: "/nowhere/login"}, "the passwords cannot be read"),
    ],
)
def test_a_login_that_cannot_be_used_is_refused_and_never_shown(environment, message, tmp_path):
    with pytest.raises(UserError) as caught:
        find_login("", environment, tmp_path, make=True)
    assert message in str(caught.value) and "XTTS_STUDIO_LOGIN" in str(caught.value)
    assert "hush" not in str(caught.value)
    assert not (tmp_path / MADE_FILE).exists()


def test_a_made_login_is_printed_once_and_where_it_was_damaged_not_replaced(tmp_path):
    first, said = find_login("", {}, tmp_path, make=True)
    assert Access(host="0.0.0.0", auth=first).checked() and ":".join(first[0]) in said
    again, said = find_login("", {}, tmp_path, make=True)
    assert again == first and first[0][1] not in said
    (tmp_path / MADE_FILE).write_text("")
    with pytest.raises(UserError, match=r"delete .*\.login"):
        find_login("", {}, tmp_path, make=True)
