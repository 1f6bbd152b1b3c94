"""A container that took another one's place cannot see its processes: it goes by the sign of life that they give."""

import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.jobs.children import (
    FINISHES,
    HEAD,
    SILENT,
    await_exit_code,
    begun,
    config_of,
    edit_record,
    ended,
    eventually,
    started,
)
from utils import jobs
from utils.errors import UserError
from utils.jobs import child
from utils.runs import record as job_module
from utils.runs.log import EventWriter
from utils.runs.record import ALIVE_FILE, identify

BEATS = """
from pathlib import Path
from utils import jobs
from utils.jobs import child
child.BEAT_S = 0.05
jobs.announce(Path(folder))
tell("started")
rest()
"""
"""Says that it is there, as every real job does, and then nothing more."""


def beating(folder: Path) -> Sequence[str]:
    return [sys.executable, "-c", HEAD + BEATS, str(folder)]


def test_a_job_of_a_container_that_is_gone_holds_neither_its_gpu_nor_its_run(output, monkeypatch):
    monkeypatch.setattr(job_module, "SILENT_S", 1.0)
    job = jobs.start("train", config_of(output, device="cuda"), command=beating)
    begun(job)
    with monkeypatch.context() as new_container:
        new_container.setattr(socket, "gethostname", lambda: "another-container")
        time.sleep(1.4)
        seen = jobs.status(job.folder)
        assert (seen.state, seen.process_alive) == ("running", False), "it wrote nothing for long, but it beats"
        with pytest.raises(UserError, match="is still running"):
            started(output, SILENT, resume=job.folder)
        assert job.pid is not None
        os.kill(job.pid, 9)
        await_exit_code(job.folder)
        # The old container's server was killed, too, and noted nothing.
        edit_record(job, exit_code=None, state="running")
        eventually(lambda: jobs.status(job.folder).state == "lost")
        assert f"no sign of life any more; it ran on {job.host}" in jobs.status(job.folder).message
        assert jobs.running(output) == []
        resumed = started(output, FINISHES, resume=job.folder, device="cuda")
        assert resumed.host == "another-container" and ended(resumed).state == "finished"


@pytest.fixture
def by_hand(output: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that this process does itself."""
    monkeypatch.setattr(child, "BEAT_S", 0.05)
    folder = output / "voice" / "runs" / "by-hand"
    folder.mkdir(parents=True)
    jobs.register(folder, device="cpu", output=output)
    return folder


def beats(folder: Path) -> bool:
    os.utime(folder / ALIVE_FILE, (1, 1))
    time.sleep(0.3)
    return (folder / ALIVE_FILE).stat().st_mtime > 1


def test_a_run_started_by_hand_gives_signs_of_life_until_it_has_ended(by_hand):
    eventually(lambda: beats(by_hand))
    assert jobs.status(by_hand).alive
    EventWriter(by_hand / "events.jsonl").write("finished")
    eventually(lambda: not beats(by_hand))


def test_who_goes_on_with_a_run_gives_its_signs_alone(by_hand):
    eventually(lambda: beats(by_hand))
    identify(by_hand, os.getppid())
    assert jobs.status(by_hand).alive
    eventually(lambda: not beats(by_hand))


def test_a_job_that_was_started_again_a_moment_ago_is_not_taken_for_silent(output):
    job = started(output, SILENT)
    (job.folder / ALIVE_FILE).touch()
    os.utime(job.folder / ALIVE_FILE, (1, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "another-container")
        assert jobs.status(job.folder).alive
        os.utime(job.folder / "job.json", (1, 1))
        assert jobs.status(job.folder).state == "lost"
