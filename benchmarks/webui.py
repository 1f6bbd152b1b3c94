"""How fast the page opens and answers, and what it weighs: python -m benchmarks.webui.

The app is started as a user starts it, over an output folder with one finished run of 2 000 steps. First paint is seen
by a real browser. Each client of the poll asks as the page does, as often as the answers ask it to. Processor time is
reported beside the clock's, because that is what a busy machine does not change; tests/webui/test_load.py uses the same
functions.
"""

import asyncio
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import psutil
import tyro

from utils.hardware.processor import cpu
from utils.project.paths import Project
from utils.project.projects import ProjectSettings, create_project
from utils.runs.log import EventWriter

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NUM_STEPS = 2_000
PROJECT = "bench"
_PACES: dict[str, dict[int, float]] = {}
"""How often each page was asked to poll, by the app's address and the page's number."""
_NUMBERS: dict[str, dict[int, float]] = {}
"""Which answer each page had last, likewise."""
TARGETS = {"first_paint_s": 3.0, "poll_p99_ms": 200.0, "memory_mb": 300.0}
"""What the project's web issue asks for, on two quiet cores."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    clients: tuple[int, ...] = (1, 50)
    """Pages that are open at the same time."""
    seconds: float = 40.0
    """How long each number of clients asks."""
    rounds: int = 3
    """Starts of the app; the median counts."""
    out: Path = ROOT / "benchmarks" / "results" / "webui.json"
    """Results file."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Answers to the page's poll."""

    clients: int
    answers: int
    failed: int
    first_ms: float
    """Median of each page's first answer, which fills the whole page."""
    p50_ms: float
    """Of the answers after it, as the next."""
    p99_ms: float
    cpu_ms: float
    """Processor time of the web process for each answer."""
    memory_mb: float
    """Of the web process after it, in MB (10^6 bytes)."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "output"
        make_project(output)
        with _browser() as browser:
            starts = [_start(output, browser) for _ in range(settings.rounds)]
        with running_app(output) as app:
            latencies = [measure_poll(app, count, settings.seconds) for count in settings.clients]
    result = _result(settings, starts, latencies)
    print(_table(result))
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    settings.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\nwritten to {settings.out}")


@dataclass(frozen=True, kw_only=True)
class App:
    """A running `python app.py`."""

    address: str
    process: psutil.Process
    started: float
    """By the monotonic clock, before the process existed."""

    @property
    def memory_mb(self) -> float:
        return round(self.process.memory_info().rss / 1e6, 1)


@contextmanager
def running_app(output: Path) -> Iterator[App]:
    """The app over this output folder, from its first answer on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = time.monotonic()
    command = [sys.executable, "app.py", "--port", str(port), "--output", str(output)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            address = f"http://127.0.0.1:{port}/"
            _wait(address, process)
            yield App(address=address, process=psutil.Process(process.pid), started=started)
        finally:
            process.terminate()


def make_project(output: Path) -> Project:
    """A project with one run whose log is as long as a real one's."""
    project = create_project(PROJECT, output, ProjectSettings(language="en", base="tiny"))
    run = project.runs / "20260101-000000-1-000"
    run.mkdir(parents=True)
    events = EventWriter(run / "events.jsonl")
    events.write("started", total_steps=NUM_STEPS)
    for step in range(1, NUM_STEPS + 1):
        events.write("step", step=step, epoch=1, loss=4 / step + 1, lr=5e-6, grad_norm=1.0, step_s=0.5, audio_s=20.0)
    events.write("finished")
    events.close()
    return project


def measure_poll(app: App, clients: int, seconds: float) -> Latency:
    """Have this many pages poll for a while."""
    before = _cpu_s(app.process)
    first, times, failed = asyncio.run(poll(app.address, clients=clients, seconds=seconds))
    spent = _cpu_s(app.process) - before
    ordered = sorted(times)
    assert ordered, "no answer at all"
    return Latency(
        clients=clients,
        answers=len(first) + len(times),
        failed=failed,
        first_ms=round(statistics.median(first) * 1e3, 1),
        p50_ms=round(statistics.median(ordered) * 1e3, 1),
        p99_ms=round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] * 1e3, 1),
        cpu_ms=round(spent / (len(first) + len(times)) * 1e3, 1),
        memory_mb=app.memory_mb,
    )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


async def poll(
    address: str, *, clients: int, seconds: float, every_s: float = 2.0, project: str = PROJECT
) -> tuple[list[float], list[float], int]:
    """Ask for the live part of the page as each of these browsers would.

    Args:
        address: of the app.
        clients: browsers; their ticks are spread evenly, as people open pages at different moments.
        seconds: how long.
        every_s: the page's tick, until an answer says another.
        project: which one the pages show.

    Returns:
        Seconds to each page's first answer and to the others, and how many requests failed.
    """
    times: list[float] = []
    failures = 0
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as http:
        # The pages of the last call are still open: they are not sent again what they have.
        paces = _PACES.setdefault(address, {})
        call, had = _poll_call((await http.get("config")).json(), project)
        numbers = _NUMBERS.setdefault(address, {})

        async def ask(page: int) -> float:
            nonlocal failures
            begun = time.perf_counter()
            data = [*call["data"]]
            data[had] = numbers.get(page, 0)
            answer = await _post(http, {**call, "data": data, "session_hash": f"bench{page}"})
            took = time.perf_counter() - begun
            if answer.status_code != 200:
                failures += 1
                return took
            news = json.loads(answer.json()["data"][0] or "{}")
            paces[page] = news.get("interval") or paces.get(page, every_s)
            numbers[page] = news.get("answer") or numbers.get(page, 0)
            return took

        async def one(number: int) -> None:
            end = time.monotonic() + seconds
            await asyncio.sleep(every_s * number / clients)
            while time.monotonic() < end:
                times.append(await ask(number))
                await asyncio.sleep(max(0.0, paces.get(number, every_s) - times[-1]))

        # People open their pages one after another.
        first = [await ask(number) for number in range(clients)]
        await asyncio.gather(*(one(number) for number in range(clients)))
    return first, times, failures


async def _post(http: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
    """Ask once more when the server closed the idle connection at this very moment, as browsers do."""
    try:
        return await http.post("gradio_api/run/predict", json=body)
    except (httpx.RemoteProtocolError, httpx.ReadError):
        return await http.post("gradio_api/run/predict", json=body)


def _poll_call(config: dict[str, Any], project: str) -> tuple[dict[str, Any], int]:
    """The request that the page's timer makes, and where in it the last answer's number goes."""
    found = next(item for item in config["dependencies"] if item["api_name"] == "live")
    kinds = {part["id"]: part["type"] for part in config["components"]}
    values: list[Any] = [None] * len(found["inputs"])
    values[0] = project
    assert kinds[found["inputs"][0]] == "dropdown", kinds[found["inputs"][0]]
    had = next(place for place, one in enumerate(found["inputs"]) if kinds[one] == "number")
    return {"fn_index": found["id"], "data": values}, had


def _start(output: Path, browser: Any) -> dict[str, float]:
    """What a start of the app costs until the page is seen.

    Args:
        output: the app's output folder.
        browser: open already, because its own start is not the app's; None where there is none.
    """
    page = browser.new_page() if browser else None
    sizes: list[float] = []
    if page:
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        # Data in addresses needs no request.
        sent: set[str] = set()
        session.on(
            "Network.requestWillBeSent",
            lambda event: sent.add(event["requestId"]) if event["request"]["url"].startswith("http") else None,
        )
        session.on(
            "Network.loadingFinished",
            lambda event: sizes.append(event["encodedDataLength"]) if event["requestId"] in sent else None,
        )
    with running_app(output) as app:
        answered = time.monotonic() - app.started
        measured = {"answer_s": round(answered, 2), "cpu_s": round(_cpu_s(app.process), 2)}
        measured["memory_mb"] = app.memory_mb
        if page is None:
            return measured
        page.goto(app.address, wait_until="commit")
        page.wait_for_selector("#project-bar", timeout=120_000)
        measured["first_paint_s"] = round(time.monotonic() - app.started, 2)
        page.wait_for_timeout(3_000)
        measured |= {"page_mb": round(sum(sizes) / 1e6, 2), "requests": len(sizes)}
        page.close()
        return measured | {"memory_with_page_mb": app.memory_mb}


@contextmanager
def _browser() -> Iterator[Any]:
    """An open browser without a window; None where none can be had."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        print("no browser: first paint and page weight are not measured", file=sys.stderr)
        yield None
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            httpx.get(address + "gradio_api/startup-events", timeout=60)
        except httpx.TransportError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"the app ended with status {process.returncode}")


def _result(settings: Settings, starts: list[dict[str, float]], latencies: list[Latency]) -> dict[str, Any]:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "command": f"python -m benchmarks.webui --rounds {settings.rounds} --seconds {settings.seconds:g}",
        "hardware": {"processor": cpu().model, "cores": os.cpu_count(), "system": platform.platform()},
        "load_average_1min": load,
        "versions": {"python": platform.python_version(), "gradio": version("gradio")},
        "targets": TARGETS,
        "start": {name: statistics.median(start[name] for start in starts) for name in starts[0]},
        "starts": starts,
        "poll": [asdict(latency) for latency in latencies],
    }


def _table(result: dict[str, Any]) -> str:
    hardware = result["hardware"]
    title = f"{hardware['processor']}, {hardware['cores']} cores, gradio {result['versions']['gradio']}"
    lines = [f"{title}, load average {result['load_average_1min']}"]
    lines += [f"{name:<22}{value:>10g}" for name, value in result["start"].items()]
    names = ("answers", "failed", "first ms", "p50 ms", "p99 ms", "CPU ms", "memory MB")
    lines.append(f"{'poll':<10}" + "".join(f"{name:>11}" for name in names))
    for found in result["poll"]:
        keys = ("answers", "failed", "first_ms", "p50_ms", "p99_ms", "cpu_ms", "memory_mb")
        lines.append(f"{found['clients']:<3}clients" + "".join(f"{found[key]:>11}" for key in keys))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
