"""Killed at any moment, a preparation resumes where it was, and ends with what an undisturbed one gives."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.dataset.recordings import config, make_source, snapshot
from utils.dataset.build import prepare
from utils.dataset.clips import sound
from utils.dataset.storage.report import Report
from utils.project.paths import Project

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")

ROOT = Path(__file__).resolve().parents[2]
CLIPS = 24
CLEANED: dict[str, Any] = {"trim": True, "loudness": -23.0}
MEASURED: dict[str, Any] = CLEANED | {"quality": True, "check_speakers": False}
PATIENCE_S = 300
"""For a machine that does other work; a process that does not get anywhere fails the test."""


def _start(source: Path, output: Path, settings: dict[str, Any], *, workers: int = 2) -> subprocess.Popen[bytes]:
    """The real thing in a process of its own, which can be killed."""
    script = (
        "import sys; from pathlib import Path;"
        "from utils.dataset.build import prepare; from tests.dataset.recordings import config;"
        f"prepare(config(Path(sys.argv[1]), Path(sys.argv[2]), workers={workers}, **{settings!r}))"
    )
    return subprocess.Popen([sys.executable, "-c", script, str(source), str(output)], cwd=ROOT)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the parent alone, as a system short of memory does; its workers must not live on."""
    tree = psutil.Process(child.pid).children(recursive=True) if child.poll() is None else []
    child.send_signal(signal.SIGKILL)
    child.wait()
    _, alive = psutil.wait_procs(tree, timeout=60)
    assert not alive, "processes outlive the one that was killed"


def _noted(project: Project) -> int:
    """Clips whose sound is made and kept."""
    log = project.dataset / ".work" / "log.jsonl"
    return log.read_bytes().count(b'"sound:') if log.is_file() else 0


def _wait(child: subprocess.Popen[bytes], until: Callable[[], bool]) -> bool:
    """Whether it came so far before it ended."""
    deadline = time.monotonic() + PATIENCE_S
    while child.poll() is None:
        if until():
            return True
        assert time.monotonic() < deadline, "it does not get anywhere"
        time.sleep(0.005)
    return False


def _made(project: Project) -> tuple[dict[str, bytes], object]:
    """Manifests and wavs byte by byte, and what the report says of the clips; its counts are those of the last run."""
    files = {name: content for name, content in snapshot(project).items() if "report." not in name}
    report = Report.load(project.report)
    assert not list((project.dataset / ".work").rglob("*.tmp")) and not (project.dataset / ".new").exists()
    return files, (report.clips, report.splits)


@pytest.fixture
def source(tmp_path) -> Path:
    return make_source(tmp_path / "in", CLIPS)


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(name="voice", output=tmp_path / "out")


def _undisturbed(source: Path, output: Path, settings: dict[str, Any]) -> Project:
    prepare(config(source, output, workers=1, **settings))
    return Project(name="voice", output=output)


@pytest.mark.slow
def test_two_workers_killed_in_the_midst_lose_nothing_and_nothing_is_made_twice(tmp_path, source, project, monkeypatch):
    few = make_source(tmp_path / "few", 3)
    before, begun = snapshot(_undisturbed(few, project.output, CLEANED)), _noted(project)
    child = _start(source, project.output, CLEANED)
    assert _wait(child, lambda: _noted(project) >= begun + 8)
    _kill(child)
    stayed = {name: content for name, content in snapshot(project).items() if "/.new/" not in name}
    assert stayed == before, "the dataset that was there"
    noted = _noted(project) - begun
    made = []
    decode = sound.decode
    monkeypatch.setattr(sound, "decode", lambda path, **more: made.append(path) or decode(path, **more))
    report = prepare(config(source, project.output, workers=1, **CLEANED))
    assert len(report.used) == CLIPS
    assert len(made) <= CLIPS - 3 - noted, "what was noted down is not made again"
    _undisturbed(few, tmp_path / "whole", CLEANED)
    assert _made(project) == _made(_undisturbed(source, tmp_path / "whole", CLEANED))


def _moments(rng: random.Random) -> Iterator[tuple[str, Callable[[Project], bool]]]:
    """When to kill: after N clips, at any time, and while the change is written and moved in."""
    for count in (0, 1, 8, 9, 17, CLIPS - 7):
        yield f"{count} clips", lambda project, count=count: _noted(project) >= count
    for name in (".new/metadata_train.csv", ".new/report.json", ".new/complete", "lang.txt"):
        yield name, lambda project, name=name: (project.dataset / name).exists()
    for _ in range(6):
        until = time.monotonic() + rng.uniform(0.5, 8)
        yield "any time", lambda project, until=until: time.monotonic() > until


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_however_often_it_is_killed_the_end_is_that_of_an_undisturbed_one(tmp_path, source, workers):
    whole = _made(_undisturbed(source, tmp_path / "whole", MEASURED))
    for number, (name, moment) in enumerate(_moments(random.Random(workers))):
        # Each moment in a project of its own, then all of them one after the other in the same one.
        for project in (Project(name="voice", output=tmp_path / str(number)), Project(name="voice", output=tmp_path)):
            child = _start(source, project.output, MEASURED, workers=workers)
            _wait(child, lambda project=project, moment=moment: moment(project))
            _kill(child)
            if project.output != tmp_path:
                child = _start(source, project.output, MEASURED, workers=workers)
                assert child.wait(timeout=PATIENCE_S) == 0, name
                assert _made(project) == whole, name
    prepare(config(source, tmp_path, workers=workers, **MEASURED))
    assert _made(Project(name="voice", output=tmp_path)) == whole
