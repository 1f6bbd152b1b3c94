"""Asked again and again how jobs are doing: the answers of `jobs.list`, and what has ended is read once."""

from pathlib import Path

import pytest

from tests.jobs.children import FINISHES, POLITE, await_exit_code, begun, ended, started
from utils import jobs
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
    project, read = Project(name="voice", output=output), runs.job_reader()
    done = ended(started(output, FINISHES))
    job = started(output, POLITE)
    begun(job)
    assert [seen.folder for seen in jobs.running(output, read=read)] == [job.folder]
    assert jobs.list(project, kind="export", read=read) == []
    jobs.stop(job.folder)
    ended(job)
    for folder in (job.folder, done.folder):
        # The exit status is noted last.
        await_exit_code(folder)
    known = jobs.list(project)
    assert jobs.list(project, read=read) == known
    reads.clear()
    for _ in range(5):
        assert jobs.list(project, read=read) == known and jobs.running(output, read=read) == []
    assert reads == []
    EventWriter(job.events).write("step", step=9)
    assert jobs.list(project, read=read) and reads == [job.folder]
    assert jobs.list(project, read=read) == jobs.list(project)
