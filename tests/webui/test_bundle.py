"""The first page asks for gradio's scripts and styles as two files; what it needs later it still gets."""

import asyncio
import re
from pathlib import Path

import httpx
import pytest
from starlette.responses import HTMLResponse

from tests.webui.app import running_app
from tests.webui.browser import running_browser
from webui.assets import gradio_assets
from webui.bundle import Bundle, chosen

PAGE = '<head><script type="module" crossorigin src="./assets/index-a.js"></script>\n'
PAGE += '<link rel="stylesheet" crossorigin href="./assets/index-z.css"></head>'
MAX_REQUESTS = 40
"""Of the first page and its first seconds; 112 without the bundle."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text(PAGE)
    folder = tmp_path / "assets"
    folder.mkdir()
    listed = 'const d=(m.f=["./box-c.js","./box-d.css","./index-z.css"]);'
    table = "v(()=>import(`./box-c.js`).then(e=>e.t),__vite__mapDeps([0,1,2]),import.meta.url)"
    (folder / "index-a.js").write_text(f'{listed}import{{b}}from"./core-b.js";x={{box:{{component:()=>{table}}}}}')
    (folder / "core-b.js").write_text("export let b=1;/*annotatedimage:{*/")
    (folder / "box-c.js").write_text('import"./core-b.js";new URL(import.meta.url)')
    (folder / "box-d.css").write_text(".box{}")
    (folder / "late-e.js").write_text("")
    return folder


def get(folder: Path, path: str, html: str = PAGE, **headers: str) -> httpx.Response:
    app = Bundle(HTMLResponse(html), folder=folder, kinds={"box"})

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
            return await http.get(path, headers=headers)

    return asyncio.run(ask())


def test_the_page_asks_for_two_files_in_which_the_modules_find_each_other(folder: Path) -> None:
    page = get(folder, "/")
    assert int(page.headers["content-length"]) == len(page.content)
    script, general, sheet = re.findall(r'(?:src|href)="./assets/([\w-]+\.(?:js|css))"', page.text)
    # The styles of components overrule it.
    assert general == "index-z.css"
    assert '<script type="module">import "./assets/index-a.js"</script>' in page.text
    source = get(folder, f"/assets/{script}").text
    assert all(f'"{name}"' in source for name in ("index-a.js", "core-b.js", "box-c.js"))
    assert "late-e.js" not in source and "import.meta" not in source
    assert get(folder, f"/assets/{sheet}").text == ".box{}"
    plain = get(folder, f"/assets/{script}", **{"accept-encoding": "identity"})
    assert plain.headers["content-encoding"] == "identity" and "immutable" in plain.headers["cache-control"]


@pytest.mark.parametrize("path", ["/assets/studio-none.js", "/assets/index-a.js", "/assets/studio-/../index.html"])
def test_nothing_else_is_answered_here(folder: Path, path: str) -> None:
    assert get(folder, path, "gradio").text == "gradio"


def test_another_page_stays_as_it_is(folder: Path) -> None:
    assert get(folder, "/", "<b>ä</b>").text == "<b>ä</b>"


def test_of_gradios_files_only_those_of_the_components_are_taken() -> None:
    few, few_sheets = chosen(gradio_assets(), {"button"})
    more, more_sheets = chosen(gradio_assets(), {"button", "audio", "state"})
    assert set(few) < set(more) and set(few_sheets) < set(more_sheets)
    assert any(name.startswith("audio-") for name in more) and len(few) < 30


@pytest.mark.browser
@pytest.mark.programs
def test_the_first_page_takes_few_requests_also_behind_a_login(tmp_path: Path) -> None:
    asked: list[str] = []
    faults: list[str] = []
    with running_app(tmp_path, "--auth", "anna:long-enough-1") as address, running_browser() as browser:
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(address)
        page.locator("input[type=password]").fill("long-enough-1")
        page.locator("input:not([type=password])").first.fill("anna")
        # The form is in no bundle: it is asked for by itself, and uses modules of the bundle.
        assert any("/assets/Login-" in url for url in asked)
        page.get_by_role("button", name="Login").click()
        page.wait_for_selector("[role=tab]")
        page.wait_for_timeout(3_000)
        padding = page.locator("[role=tab]").first.evaluate("tab => getComputedStyle(tab).paddingLeft")
        page.close()
    first = asked[next(number for number, url in enumerate(asked) if url.endswith("/login")) + 1 :]
    sent = [url for url in first if url.startswith("http")]
    assert 3 < len(sent) <= MAX_REQUESTS, sent
    alone = [url for url in sent if re.search(r"/assets/(?!studio-)", url)]
    assert len(alone) == 1 and alone[0].endswith(".css"), sent
    assert faults == [] and padding not in ("", "0px")
