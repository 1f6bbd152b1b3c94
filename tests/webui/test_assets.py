"""Scripts and styles are kept forever by a browser on this computer; all others ask gradio. The page is compressed."""

import asyncio
import re

import httpx
import pytest
from starlette.responses import PlainTextResponse

from webui.assets import gradio_assets, with_assets


def get(folder, path: str, *, client: str = "127.0.0.1", method: str = "GET", **headers: str) -> httpx.Response:
    app = with_assets(PlainTextResponse("gradio", status_code=404), folder=folder)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return await http.request(method, path, headers=headers)

    return asyncio.run(ask())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "assets" / "sub").mkdir(parents=True)
    (tmp_path / "assets" / "sub" / "inner.js").write_text("inner")
    (tmp_path / "assets" / "index-a1b2.js").write_text("export default 1;" * 1000)
    return tmp_path / "assets"


@pytest.mark.parametrize(("accepted", "encoding"), [("br, gzip", "gzip"), ("br", "identity"), ("", "identity")])
def test_a_browser_on_this_computer_gets_the_file_and_may_keep_it(folder, accepted, encoding):
    answer = get(folder, "/assets/index-a1b2.js", **{"accept-encoding": accepted})
    assert answer.status_code == 200 and answer.content == (folder / "index-a1b2.js").read_bytes()
    assert answer.headers["content-encoding"] == encoding and answer.headers["vary"] == "Accept-Encoding"
    assert (int(answer.headers["content-length"]) < 1_000) == (encoding == "gzip")
    assert "javascript" in answer.headers["content-type"]
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize(
    "path",
    ["/assets/none.js", "/assets/../secret.txt", "/assets/%2e%2e/secret.txt", "/assets/sub/inner.js", "/", "/assets/"],
)
def test_nothing_else_is_answered_here(folder, path):
    assert get(folder, path).text == "gradio"


@pytest.mark.parametrize(
    "asked", [{"client": "192.168.1.7"}, {"x-forwarded-for": "8.8.8.8"}, {"method": "POST"}], ids=str
)
def test_others_are_left_to_gradio(folder, asked):
    assert get(folder, "/assets/index-a1b2.js", **asked).text == "gradio"


def test_the_running_page_and_its_scripts_are_compressed(address):
    page = httpx.get(address, headers={"accept-encoding": "gzip"})
    script = re.search(r'"./(assets/index-[^"]+\.js)"', page.text)
    assert script
    answer = httpx.get(address + script[1], headers={"accept-encoding": "gzip"})
    assert page.headers["content-encoding"] == "gzip" and page.num_bytes_downloaded < len(page.content) / 4
    assert "immutable" in answer.headers["cache-control"]
    assert answer.content == (gradio_assets().parent / script[1]).read_bytes()
    assert answer.num_bytes_downloaded < len(answer.content) / 2
