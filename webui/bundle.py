"""Serve what the first page needs of gradio's scripts and styles as one script and one style sheet.

gradio's page consists of some hundred small files, which ask for each other in several rounds; a browser opens six
connections. A module stays a module here: the one script holds their sources, gives each an address of its own in the
browser, and an import map points the addresses of the files there. What the page needs only later is still asked for
by itself, and finds the modules that are there already.
"""

import functools
import gzip
import hashlib
import json
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webui.assets import HEADERS, LEVEL, PREFIX
from webui.text.catalog import language

NAME = "studio"
STATIC = re.compile(r'(\bfrom|\bimport)"\./([\w.-]+\.js)"')
"""An import at a module's head."""
DYNAMIC = re.compile(r"import\(`\./([\w.-]+\.js)`\).{0,60}?,__vite__mapDeps\(\[([\d,]*)\]\)")
"""An import when it is needed, with the numbers of the files that it brings along."""
LISTED = re.compile(r"m\.f=(\[[^\]]*\])")
"""Which files those numbers mean."""
SEEN = re.compile(r"(return new URL\(\w+,\w+\)\.href\},\w+=)\{\}")
"""Where the page's loader notes which files it has asked for."""
ENTRY = re.compile(r'<script type="module" crossorigin src="\./assets/([\w.-]+\.js)"></script>')
LANGUAGE = re.compile(r'(<html[^>]*?\blang=)"\w+"')
SHEET = re.compile(r'<link rel="stylesheet" crossorigin href="\./assets/([\w.-]+\.css)">')
"""The page's general style sheet: it comes before those of the components, which overrule it, and gradio's script looks
for it by its name."""
LOADER = """(() => {
  // gradio's own words follow the browser, and shall follow the page.
  const spoken = document.documentElement.lang
  if (!navigator.language.startsWith(spoken)) Object.defineProperty(navigator, 'language', { get: () => spoken })
  const base = new URL('./assets/', document.baseURI).href, sources = %s
  window.studioAssets = { at: name => base + name, seen: Object.fromEntries(%s.map(name => [base + name, true])) }
  const imports = { 'studio/': base }
  for (const [name, source] of Object.entries(sources)) {
    const blob = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }))
    imports[base + name] = imports['studio/' + name] = blob
  }
  const map = document.createElement('script')
  map.type = 'importmap'
  map.textContent = JSON.stringify({ imports })
  document.currentScript.after(map)
})()
"""


class Bundle:
    """Answers for the two files, and has the page ask for them; all else is for what comes behind.

    Args:
        app: what comes behind it.
        folder: of gradio's assets.
        kinds: of the components on the page, as gradio calls them.
    """

    def __init__(self, app: ASGIApp, *, folder: Path, kinds: Collection[str]) -> None:
        self.app = app
        self.folder = folder
        self.kinds = kinds

    @functools.cached_property
    def files(self) -> dict[str, tuple[bytes, str]]:
        """Content, compressed, and type of each file by its name; the script is the first."""
        scripts, sheets = chosen(self.folder, self.kinds)
        style = "\n".join((self.folder / name).read_text(encoding="utf-8") for name in sheets)
        script = joined(self.folder, scripts, sheets)
        contents = {"js": (script, "text/javascript"), "css": (style, "text/css")}
        return {
            f"{NAME}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.{ending}": (
                gzip.compress(text.encode(), LEVEL),
                kind,
            )
            for ending, (text, kind) in contents.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = scope["type"] == "http" and scope["method"] == "GET"
        if is_read and scope["path"].startswith(f"{PREFIX}{NAME}-"):
            found = self.files.get(scope["path"].removeprefix(PREFIX))
            if found:
                await _answer(Headers(scope=scope), *found)(scope, receive, send)
                return
        await self.app(scope, receive, self._page(send) if is_read and scope["path"] == "/" else send)

    def _page(self, send: Send) -> Send:
        """Sends the page, when it is whole, with the two files in place of gradio's."""
        start: Message = {}
        parts: list[bytes] = []

        async def send_page(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            parts.append(message.get("body", b""))
            if message.get("more_body"):
                return
            page = self.rewritten(b"".join(parts).decode()).encode()
            MutableHeaders(scope=start)["content-length"] = str(len(page))
            await send(start)
            await send({"type": "http.response.body", "body": page})

        return send_page

    def rewritten(self, page: str) -> str:
        """The page, asking for the two files and naming its language; without gradio's own script in it, unchanged."""
        if not ENTRY.search(page):
            return page
        page = LANGUAGE.sub(rf'\1"{language()}"', page, count=1)
        script, sheet = self.files
        page = SHEET.sub(lambda found: f'{found[0]}\n<link rel="stylesheet" href="./assets/{sheet}">', page)
        begin = f'<script src="./assets/{script}"></script>\n'
        return ENTRY.sub(lambda found: f'{begin}<script type="module">import "./assets/{found[1]}"</script>', page)


def chosen(folder: Path, kinds: Iterable[str]) -> tuple[list[str], list[str]]:
    """Scripts and style sheets that a page of these components loads at once, in the order in which it does.

    Args:
        folder: of gradio's assets, beside its index.html.
        kinds: of the components.
    """
    page = (folder.parent / "index.html").read_text(encoding="utf-8")
    scripts: dict[str, None] = {}
    general = SHEET.findall(page)
    sheets: dict[str, None] = {}

    def add(name: str) -> None:
        if name not in scripts and (folder / name).is_file():
            scripts[name] = None
            for _, other in STATIC.findall(_read(folder, name)):
                add(other)

    def follow(name: str, where: str) -> None:
        """Add what the module loads by this part of its source."""
        listed = LISTED.search(_read(folder, name))
        files = json.loads(listed[1]) if listed else []
        for script, numbers in DYNAMIC.findall(where):
            add(script)
            brought = [files[int(number)].removeprefix("./") for number in numbers.split(",") if number]
            sheets.update(dict.fromkeys(other for other in brought if other.endswith(".css")))

    (entry,) = ENTRY.findall(page)
    add(entry)
    follow(entry, _read(folder, entry))
    for name in list(scripts):
        source = _read(folder, name)
        # The page itself; the dialogs beside it, of the API and of settings, are opened by nobody at once.
        follow(name, "".join(re.findall(r"import\(`\./Blocks-.*?import\.meta", source)))
    table = next((name for name in scripts if "annotatedimage:{" in _read(folder, name)), None)
    for kind in sorted(kinds) if table else ():
        found = re.search(rf"[{{,]{kind}:\{{[^{{}}]*?(\bcomponent:.*?import\.meta)", _read(folder, str(table)))
        if found:
            follow(str(table), found[1])
    return list(scripts), [name for name in sheets if name not in general]


def joined(folder: Path, scripts: Iterable[str], sheets: Iterable[str]) -> str:
    """The one script that holds these, and notes them and the style sheets as loaded."""
    sources = {}
    for name in scripts:
        source = STATIC.sub(r'\1"studio/\2"', _read(folder, name))
        source = re.sub(r"import\(`\./", "import(`studio/", source)
        source = source.replace("import.meta.url", f'studioAssets.at("{name}")')
        sources[name] = SEEN.sub(r"\1studioAssets.seen", source)
    return LOADER % (json.dumps(sources), json.dumps([*sources, *sheets]))


def _answer(headers: Headers, content: bytes, kind: str) -> Response:
    if "gzip" in headers.get("accept-encoding", ""):
        return Response(content, media_type=kind, headers=HEADERS | {"Content-Encoding": "gzip"})
    return Response(gzip.decompress(content), media_type=kind, headers=HEADERS | {"Content-Encoding": "identity"})


@functools.lru_cache(maxsize=256)
def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")
