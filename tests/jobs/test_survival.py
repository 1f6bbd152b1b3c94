"""Jobs outlive who started them; a process is recognized again, and runs continue in their folders."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.jobs.children import FAILS, FINISHES, POLITE, SILENT, begun, edit_record, ended, eventually, started
from tests.run_logs import events_of
from utils import jobs
from utils.config import TrainConfig
from utils.errors import UserError
from utils.runs import record as job_module
from utils.runs.record import read_record

ROOT = Path(__file__).resolve().parents[2]


PARENT = """
import os, sys
from pathlib import Path
from tests.jobs.children import POLITE, child
from utils import jobs
from utils.config import TrainConfig
job = jobs.start("train", TrainConfig(project="voice", output=Path(sys.argv[1]), device="cpu"), command=child(POLITE))
print(job.folder, flush=True)
os.kill(os.getpid(), 9)
"""


def test_the_child_goes_on_when_its_parent_is_killed_and_another_one_attaches(output):
    parent = subprocess.run(
        [sys.executable, "-c", PARENT, str(output)], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert parent.returncode == -signal.SIGKILL, parent.stderr
    folder = Path(parent.stdout.strip())
    assert jobs.status(folder).alive
    eventually(lambda: len(events_of(folder)) > 10)
    with pytest.raises(UserError, match="in use by the train job"):
        started(output, SILENT)
    jobs.stop(folder)
    assert jobs.wait(folder, 15).state == "stopped"
    events = events_of(folder)
    assert [event["kind"] for event in events] == ["started", *["step"] * (len(events) - 2), "stopped"]
    assert [event["step"] for event in events[1:-1]] == list(range(1, len(events) - 1))


def test_a_process_that_got_the_pid_later_is_not_taken_for_ours(output):
    job = started(output, POLITE)
    begun(job)
    record = read_record(job.folder)
    assert record is not None and record.create_time is not None
    edit_record(job, create_time=record.create_time - 3_600)
    other = jobs.status(job.folder)
    assert (other.state, other.process_alive) == ("lost", False)
    assert jobs.stop(job.folder).state == "lost"
    assert psutil.pid_exists(record.pid or 0), "another one's process must not be touched"
    edit_record(job, create_time=record.create_time)
    assert jobs.status(job.folder).state == "running"


def test_a_process_is_ours_even_when_the_clock_was_set(output):
    job = started(output, POLITE)
    record = read_record(job.folder)
    assert record is not None and record.create_time and record.boot_time
    edit_record(job, create_time=record.create_time - 900, boot_time=record.boot_time - 900)
    assert jobs.status(job.folder).alive
    edit_record(job, boot_id="another start of this computer")
    assert not jobs.status(job.folder).alive


def test_a_job_on_another_computer_is_judged_by_what_it_wrote(output):
    job = started(output, SILENT)
    edit_record(job, host="elsewhere")
    there = jobs.status(job.folder)
    assert there.alive and not there.process_alive and "elsewhere" in there.message
    with pytest.raises(UserError, match="runs on elsewhere"):
        jobs.stop(job.folder)
    for file in job.folder.iterdir():
        os.utime(file, (time.time() - 3_600,) * 2)
    assert jobs.status(job.folder).state == "lost"
    edit_record(job, host=job.host)


def test_a_parent_that_died_before_it_noted_the_pid(output, monkeypatch):
    job = started(output, SILENT)
    edit_record(job, pid=None, create_time=None)
    assert jobs.status(job.folder).state == "starting"
    with pytest.raises(UserError, match="in use"):
        started(output, SILENT)
    monkeypatch.setattr(job_module, "PROCESS_GRACE_S", 0.0)
    assert jobs.status(job.folder).state == "lost"
    edit_record(job, pid=job.pid, create_time=psutil.Process(job.pid).create_time())


def test_a_folder_without_a_job_is_refused(tmp_path):
    for function in (jobs.status, jobs.stop, jobs.wait, jobs.announce):
        with pytest.raises(UserError, match="there is no job here"):
            function(tmp_path)


def test_a_run_without_a_record_is_judged_by_its_events(tmp_path):
    (tmp_path / "events.jsonl").write_text('{"kind": "started", "time": 5}\n')
    assert jobs.status(tmp_path).state == "running"
    os.utime(tmp_path / "events.jsonl", (1, 1))
    assert jobs.status(tmp_path).state == "lost"
    (tmp_path / "events.jsonl").write_text('{"kind": "started"}\n{"kind": "finished", "time": 7}\n')
    assert (jobs.status(tmp_path).state, jobs.status(tmp_path).ended) == ("finished", 7)


# Going on, and runs that were started by hand


def test_a_resumed_run_keeps_its_folder_its_settings_and_its_events(output):
    first = ended(started(output, FAILS))
    settings = (first.folder / "config.yaml").read_bytes()
    checkpoint = first.folder / "checkpoints" / "step-00000001"
    checkpoint.mkdir(parents=True)
    for resume in (first.folder, checkpoint):
        go = output / "go"
        job = started(output, f"while not os.path.exists({str(go)!r}): rest(0.01)\n{FINISHES}", resume=resume)
        assert job.folder == first.folder and job.state == "starting", "an older run's end is not this one's"
        go.touch()
        assert ended(job).state == "finished"
        go.unlink()
    assert (first.folder / "config.yaml").read_bytes() == settings
    assert TrainConfig.load(first.folder / "resume.yaml").resume == checkpoint
    assert len(events_of(first.folder)) == 2 + 3 + 3


def test_what_cannot_be_resumed(output, tmp_path):
    with pytest.raises(UserError, match="no run to resume"):
        started(output, SILENT, resume=tmp_path / "nowhere")
    job = started(output, SILENT)
    edit_record(job, device="cuda:7")
    (output / ".jobs" / f"{job.host}-cpu.txt").unlink()
    with pytest.raises(UserError, match="is still running"):
        started(output, SILENT, resume=job.folder)


def test_a_run_started_by_hand_is_known_while_it_lasts(output):
    folder = output / "voice" / "runs" / "by-hand"
    folder.mkdir(parents=True)
    jobs.register(folder, device="cpu", output=output)
    job = jobs.status(folder)
    assert (job.state, job.pid, job.device) == ("running", os.getpid(), "cpu")
    with pytest.raises(UserError, match="in use by the train job 'by-hand'"):
        started(output, SILENT)
    (folder / "events.jsonl").write_text('{"kind": "finished", "time": 1}\n')
    assert jobs.status(folder).state == "finished"
    assert jobs.stop(folder).state == "finished", "this process does more than that run"
    jobs.register(folder, device="cpu", output=output)
    assert jobs.status(folder).state == "running", "the same process may resume the run"
    with (folder / "events.jsonl").open("a") as log:
        log.write('{"kind": "failed"}\n')
    assert ended(started(output, FINISHES)).state == "finished"
