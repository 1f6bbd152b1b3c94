"""A job is known by what it leaves on disk: record, events and log, read once where it has ended."""

import dataclasses
import json
import os
import shutil
import stat
import time
from pathlib import Path

import pytest

import utils.runs.record
from tests.jobs.children import (
    FAILS,
    FINISHES,
    POLITE,
    SILENT,
    VANISHES,
    await_exit_code,
    begun,
    child,
    config_of,
    ended,
    eventually,
    started,
)
from utils import jobs
from utils.config import ExportConfig, SynthesizeConfig, TrainConfig
from utils.dataset.settings import PrepareConfig
from utils.errors import UserError
from utils.project.paths import Project
from utils.runs import list as runs
from utils.runs.log import EventWriter, last_lines
from utils.runs.record import JOB_FILE, JobRecord, read_record, status_or_none


def test_a_job_is_a_child_with_its_settings_log_and_record(output):
    job = started(output, 'print("hello"); print(sys.stdin.read() == "", os.getsid(0) == os.getpid());' + FINISHES)
    assert job.folder.parent == output / "voice" / "runs"
    assert (job.kind, job.host, job.device) == ("train", os.uname().nodename, "cpu")
    assert job.pid is not None and job.started is not None and abs(time.time() - job.started) < 60
    done = ended(job)
    assert (done.state, done.alive, done.process_alive, done.message) == ("finished", False, False, "")
    assert done.ended is not None and done.ended >= job.started - 1
    assert job.log == job.folder / "train.log" and job.log.read_text() == "hello\nTrue True\n"
    saved = TrainConfig.load(job.folder / "config.yaml")
    assert (saved.project, saved.output, saved.device) == ("voice", output, "cpu")
    eventually(lambda: json.loads((job.folder / JOB_FILE).read_text())["exit_code"] == 0)
    record = json.loads((job.folder / JOB_FILE).read_text())
    assert (record["pid"], record["kind"], record["state"]) == (job.pid, "train", "finished")
    assert record["command"] == list(child("")(job.folder))[:3] + record["command"][3:]
    assert stat.S_IMODE((job.folder / JOB_FILE).stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("body", "state", "message"),
    [
        (FINISHES, "finished", ""),
        (FAILS, "failed", "ValueError: oh no"),
        (VANISHES, "lost", "killed by signal 9, perhaps because memory ran out"),
        ("sys.exit(3)", "lost", "exit status 3"),
        ('tell("started"); tell("stopped", step=4)', "stopped", ""),
        ('tell("failed", error="old"); tell("started"); tell("step", step=1)', "lost", "see the log"),
    ],
)
def test_how_a_job_ended(output, body, state, message):
    job = started(output, body)
    ended(job)
    await_exit_code(job.folder)
    done = jobs.status(job.folder)
    assert done.state == state
    assert message in done.message
    assert done.ended is not None


def test_the_log_holds_what_the_child_said_last(output):
    job = started(output, "for n in range(99): print('line', n)\nrest(0)\n" + FAILS)
    ended(job)
    assert last_lines(job.log, 2) == ["line 98", "Traceback: oh no"]


def test_a_job_passes_through_its_states(output):
    job = started(output, "rest(0.2)\n" + POLITE)
    assert job.state == "starting" and job.alive and job.process_alive
    begun(job)
    assert jobs.status(job.folder).state == "running"
    assert jobs.stop(job.folder).state in ("stopping", "stopped")
    assert ended(job).state == "stopped"


def test_the_settings_are_checked_before_anything_is_made(output):
    with pytest.raises(UserError, match="batch_size is 0"):
        jobs.start("train", dataclasses.replace(config_of(output), batch_size=0))
    with pytest.raises(UserError, match="cannot be used as a project name"):
        started(output, SILENT, project="../other")
    assert not list(output.glob("*/*"))


def test_a_program_that_cannot_be_started_is_told_and_leaves_a_failed_job(output):
    with pytest.raises(UserError, match="could not be started"):
        jobs.start("train", config_of(output), command=lambda folder: [str(folder / "nothing")])
    (job,) = jobs.list(Project(name="voice", output=output))
    assert job.state == "failed" and "could not be started" in job.message
    ended(started(output, FINISHES))


def test_jobs_of_a_project_are_listed_the_newest_first(output):
    project = Project(name="voice", output=output)
    assert jobs.list(project) == []
    prepare = PrepareConfig(project="voice", output=output, input=Path("in"), language="en")
    first = ended(jobs.start("prepare", prepare, command=child(FINISHES)))
    second = ended(started(output, FINISHES))
    third = ended(jobs.start("export", ExportConfig(project="voice", output=output), command=child(FAILS)))
    started(output, SILENT, project="other")
    (project.runs / "not-a-run").mkdir()
    (project.runs / ".hidden").mkdir()
    assert [job.name for job in jobs.list(project)] == [third.name, second.name, first.name]
    assert [job.name for job in jobs.list(project, kind="prepare")] == [first.name]
    assert [job.folder.parents[1].name for job in jobs.running(output)] == ["other"]
    assert first.folder.parent == output / "voice" / "jobs" and first.log.name == "job.log"


def test_a_job_without_a_project_has_a_folder_too(output):
    config = SynthesizeConfig(text="Hello.", model="tiny", output=output)
    job = ended(jobs.start("synthesize", config, command=child(FINISHES)))
    assert job.state == "finished" and job.folder.is_relative_to(output)


def test_runs_begun_in_the_same_second_get_folders_of_their_own(output):
    first = jobs.start("export", ExportConfig(project="voice", output=output), command=child(FINISHES))
    second = jobs.start("export", ExportConfig(project="voice", output=output), command=child(FINISHES))
    assert first.folder != second.folder


def test_a_damaged_record_does_not_hide_the_other_jobs(output):
    damaged, whole = ended(started(output, FINISHES)), ended(started(output, FINISHES))
    (damaged.folder / JOB_FILE).write_text('{"kind": "tr')
    states = {job.name: job.state for job in jobs.list(Project(name="voice", output=output))}
    assert states == {whole.name: "finished", damaged.name: "finished"}


def test_a_full_disk_is_told_and_no_job_is_started(output, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TrainConfig, "save", full)
    with pytest.raises(UserError, match="the disk is full"):
        started(output, SILENT)
    assert jobs.running(output) == []


def test_a_folder_that_is_removed_while_it_is_read_has_no_events(output, monkeypatch):
    job = ended(started(output, FINISHES))
    record = read_record(job.folder)

    def removed(folder: Path) -> JobRecord | None:
        shutil.rmtree(folder)
        return record

    monkeypatch.setattr(utils.runs.record, "read_record", removed)
    # As it was when it was read.
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    found = jobs.status(job.folder)
    assert (found.kind, found.events_offset, found.alive) == ("train", 0, False)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that were read."""
    found: list[Path] = []

    def read(folder: Path) -> jobs.Job | None:
        found.append(folder)
        return status_or_none(folder)

    monkeypatch.setattr(runs, "status_or_none", read)
    return found


def test_a_watch_says_what_is_so_and_reads_what_has_ended_once(output, reads):
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
