"""Asked again and again how jobs are doing: the answers of `jobs.list`, and what has ended is read once."""

from pathlib import Path

import pytest

from tests.jobs.children import FINISHES, POLITE, await_exit_code, begun, ended, started
from utils import jobs
from utils.jobs import JobWatch
from utils.project.paths import Project
from utils.runs import list as runs
from utils.runs.log import EventWriter
from utils.runs.record import status_or_none


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that were read."""
    found: list[Path] = []

    def read(folder: Path) -> jobs.Job | None:
        found.append(folder)
        return status_or_none(folder)

    monkeypatch.setattr(runs, "status_or_none", read)
    return found


def test_a_watch_says_what_is_so_and_reads_what_has_ended_once(output: Path, reads: list[Path]) -> None:
    project, watched = Project(name="voice", output=output), JobWatch()
    done = ended(started(output, FINISHES))
    job = started(output, POLITE)
    begun(job)
    assert [seen.folder for seen in watched.running(output)] == [job.folder]
    assert watched.jobs_of(project, kind="export") == []
    jobs.stop(job.folder)
    ended(job)
    for folder in (job.folder, done.folder):
        # The exit status is noted last.
        await_exit_code(folder)
    known = jobs.list(project)
    assert watched.jobs_of(project) == known
    reads.clear()
    for _ in range(5):
        assert watched.jobs_of(project) == known and watched.running(output) == []
    assert reads == []
    EventWriter(job.events).write("step", step=9)
    assert watched.jobs_of(project) and reads == [job.folder]
    assert watched.jobs_of(project) == jobs.list(project)
