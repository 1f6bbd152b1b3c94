"""A hub on this machine: the two endpoints a download asks, and the faults a real hub and a real network have.

Like the real one it lists a revision's files with their digests, serves small files itself and sends large (LFS) ones
to a second server under another address, with ranges. It notes every request.
"""

import hashlib
import io
import json
import random
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import huggingface_hub.constants
import pytest
import torch

from utils.bases.find import find_base
from utils.model.weights import read_weights

SMALL_FILES = ("config.json", "vocab.json", "LICENSE.txt", "README.md")
"""Kept in git itself, so the hub knows their git sha1 only."""
BIG = 3_000_000
"""Bytes of the servers' model.pth."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as the server saw it."""

    server: str
    """`hub`, or `storage` for the second address."""
    path: str
    range: str | None
    token: str | None


@dataclass
class HubServer:
    """Use as a context manager; change the fields at any time to change how it behaves."""

    revisions: dict[str, dict[str, bytes]]
    """Files of each branch or tag, by name."""
    repository: str = "coqui/XTTS-v2"
    gated: bool = False
    """Refuse everything until the user accepts conditions on the web page."""
    knows_ranges: bool = True
    cuts: dict[str, int] = field(default_factory=dict)
    """File name -> bytes after which its next transfer is cut off, once."""
    dies_when_cut: bool = False
    """After a cut, hang up on every request."""
    dead: bool = False
    corrupt: set[str] = field(default_factory=set)
    """Files of which one byte is sent wrong."""
    unhelpful: bool = False
    """Answer everything with a web page, as a login portal does."""
    busy: int = 0
    """How many more requests for large files are answered with 503."""
    seconds_per_file: float = 0.0
    """Pause in the middle of each file."""
    requests: list[Request] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    """Bytes sent of each file."""

    def __enter__(self) -> Self:
        self._guard = threading.Lock()
        self._servers = {name: _start(name, self) for name in ("hub", "storage")}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def address(self, server: str = "hub") -> str:
        return f"http://127.0.0.1:{self._servers[server].server_port}"

    def ranges(self) -> list[str]:
        """Every Range asked of the storage."""
        return [seen.range for seen in self.requests if seen.server == "storage" and seen.range is not None]

    def files_asked(self) -> list[str]:
        """Name of the file of each request to the hub for a file, in order."""
        return [seen.path.rsplit("/", 1)[1] for seen in self.requests if "/resolve/" in seen.path]

    def note(self, request: Request) -> None:
        with self._guard:
            self.requests.append(request)

    def note_sent(self, name: str, count: int) -> None:
        with self._guard:
            self.sent[name] = self.sent.get(name, 0) + count

    def commit(self, revision: str) -> str:
        """A commit hash that changes with the content, as git's does."""
        digest = hashlib.sha1(revision.encode())
        for name, content in sorted(self.revisions[revision].items()):
            digest.update(name.encode() + content)
        return digest.hexdigest()

    def listing(self, revision: str) -> dict[str, Any]:
        """The body of `GET /api/models/<repository>/revision/<revision>?blobs=true`."""
        siblings = [_described(name, content) for name, content in self.revisions[revision].items()]
        return {"id": self.repository, "sha": self.commit(revision), "siblings": siblings}


@contextmanager
def only_hub(
    monkeypatch: pytest.MonkeyPatch, bases: Path, revisions: dict[str, dict[str, bytes]]
) -> Iterator[HubServer]:
    """A hub in place of the real one for this process, which has agreed to no license.

    Args:
        monkeypatch: undoes it.
        bases: folder of what is downloaded.
        revisions: see `HubServer`.
    """
    unset = ("HF_HUB_OFFLINE", "XTTS_STUDIO_REPOSITORY", "COQUI_TOS_AGREED")
    for name in (*unset, "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("XTTS_STUDIO_BASES", str(bases))
    huggingface_hub.close_session()
    with HubServer(revisions=revisions) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address())
        yield server
    huggingface_hub.close_session()


def base_files(seed: int) -> dict[str, bytes]:
    """Files of the names and rough proportions of a real base, and one that a base does not need."""
    noise = random.Random(seed)
    sizes = {"model.pth": BIG, "dvae.pth": 200_000, "mel_stats.pth": 1_000, "speakers_xtts.pth": 30_000}
    sizes |= {"config.json": 4_000, "vocab.json": 50_000, "README.md": 500, "samples/en.wav": 10_000}
    return {name: noise.randbytes(size) for name, size in sizes.items()} | {"LICENSE.txt": b"Coqui Public Model"}


def published_tiny() -> dict[str, bytes]:
    """The tiny base under the names of XTTS v2's files."""
    base = find_base("tiny")
    values = {
        "model.pth": {"model": base.state()},
        "dvae.pth": read_weights(base.dvae),
        "mel_stats.pth": base.mel_stats(),
    }
    found = {name: (base.folder / name).read_bytes() for name in ("config.json", "vocab.json", "speakers_xtts.pth")}
    for name, value in values.items():
        torch.save(value, buffer := io.BytesIO())
        found[name] = buffer.getvalue()
    return found


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _described(name: str, content: bytes) -> dict[str, Any]:
    described = {"rfilename": name, "size": len(content), "blobId": git_sha1(content)}
    if name in SMALL_FILES:
        return described
    lfs = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return {**described, "lfs": lfs}


def _start(name: str, hub: HubServer) -> ThreadingHTTPServer:
    handler = type("Handler", (_Handler,), {"name": name, "hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes; with Nagle's algorithm the second waits 40 ms for the client's acknowledgement.
    disable_nagle_algorithm = True
    name: str
    hub: HubServer

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        seen = Request(server=self.name, path=path, range=self.headers["Range"], token=self.headers["Authorization"])
        self.hub.note(seen)
        if self.hub.dead:
            self._hang_up()
        elif self.hub.unhelpful:
            self._answer(200, b"<html>Please log in</html>")
        elif self.name == "storage" and self.hub.busy > 0:
            self.hub.busy -= 1
            self._answer(503, b"busy")
        elif self.name == "storage":
            revision, name = path.split("/")[1:]
            self._send_file(name, self.hub.revisions[revision][name])
        else:
            self._act_as_hub(path)

    def _act_as_hub(self, path: str) -> None:
        repository = re.escape(self.hub.repository)
        if match := re.fullmatch(rf"/api/models/{repository}/revision/(.+)", path):
            self._list(match[1])
        elif match := re.fullmatch(rf"/{repository}/resolve/([0-9a-f]{{40}})/(.+)", path):
            self._resolve(commit=match[1], name=match[2])
        else:
            self._refuse(404, "RepoNotFound", "Repository not found")

    def _list(self, revision: str) -> None:
        if self.hub.gated:
            self._refuse(403, "GatedRepo", "Access to this model is restricted")
        elif revision not in self.hub.revisions:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            self._answer(200, json.dumps(self.hub.listing(revision)).encode(), {"Content-Type": "application/json"})

    def _resolve(self, *, commit: str, name: str) -> None:
        revision = next((known for known in self.hub.revisions if self.hub.commit(known) == commit), None)
        if revision is None or name not in self.hub.revisions[revision]:
            self._refuse(404, "EntryNotFound", "Entry not found")
            return
        content = self.hub.revisions[revision][name]
        if name in SMALL_FILES:
            self._send_file(name, content, {"X-Repo-Commit": commit, "ETag": f'"{git_sha1(content)}"'})
            return
        digest = hashlib.sha256(content).hexdigest()
        linked = {"X-Repo-Commit": commit, "X-Linked-Size": str(len(content)), "X-Linked-ETag": f'"{digest}"'}
        # The real hub names the xet hash of every large file here; a client may ignore it and follow the redirect.
        location = {"X-Xet-Hash": digest, "Location": f"{self.hub.address('storage')}/{revision}/{name}?signature=1"}
        self._answer(302, b"", {**linked, **location})

    def _send_file(self, name: str, content: bytes, headers: dict[str, str] | None = None) -> None:
        """Send a file or the asked range of it, with the faults that are set for it."""
        if name in self.hub.corrupt:
            content = content[:-1] + bytes([content[-1] ^ 1])
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "") if self.hub.knows_ranges else None
        start = int(asked[1]) if asked else 0
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self._send_headers(len(content) - start, headers)
        stop = min(len(content), start + self.hub.cuts.pop(name, len(content)))
        half = (start + stop) // 2
        self.wfile.write(content[start:half])
        time.sleep(self.hub.seconds_per_file)
        self.wfile.write(content[half:stop])
        self.hub.note_sent(name, stop - start)
        if stop < len(content):
            self.hub.dead = self.hub.dies_when_cut
            self._hang_up()

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._answer(status, b"", {"X-Error-Code": code, "X-Error-Message": message})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self._send_headers(len(body), headers)
        self.wfile.write(body)

    def _send_headers(self, length: int, headers: dict[str, str] | None) -> None:
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the requests are noted in `HubServer.requests`."""
