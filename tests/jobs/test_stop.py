"""A stop is a request first; asked again, or after a time, the whole tree of processes is ended."""

import errno
import time
from functools import partial

import psutil
import pytest

from tests.jobs.children import (
    FINISHES,
    POLITE,
    STUBBORN,
    await_exit_code,
    begun,
    edit_record,
    ended,
    eventually,
    is_running,
    started,
)
from utils import jobs
from utils.errors import UserError
from utils.runs import record as record_module
from utils.runs.record import JOB_FILE
from webui import text
from webui.change import TOAST
from webui.handlers import training
from webui.studio import Studio


def test_a_second_stop_ends_the_whole_tree(output):
    job = started(output, STUBBORN)
    (event,) = begun(job)
    assert len(event["pids"]) == 4 and all(psutil.pid_exists(pid) for pid in event["pids"])
    assert jobs.stop(job.folder).state == "stopping"
    time.sleep(0.1)
    assert jobs.status(job.folder).state == "stopping"
    assert jobs.stop(job.folder).state == "stopped"
    assert not any(is_running(pid) for pid in event["pids"])


def test_stop_pressed_on_two_pages_at_once_is_one_request(output, monkeypatch):
    monkeypatch.setattr(training, "SAME_STOP_S", 60)
    job = started(output, STUBBORN)
    (event,) = begun(job)
    page = partial(training.stop, Studio(output=output))
    values = {"project.project": job.folder.parents[1].name, "train.run": ""}
    assert [page(values)[TOAST] for _ in range(2)] == [text.STOPPING] * 2
    assert all(is_running(pid) for pid in event["pids"]), "it may still save"
    edit_record(job, stop_requested=time.time() - 61)
    assert page(values)[TOAST] == text.STOPPED_AT_ONCE
    assert not any(is_running(pid) for pid in event["pids"])


def test_a_stubborn_tree_is_ended_after_the_time_it_was_given(output):
    job = started(output, STUBBORN)
    (event,) = begun(job)
    jobs.stop(job.folder, timeout_s=0.3)
    assert all(is_running(pid) for pid in event["pids"])
    eventually(lambda: not any(is_running(pid) for pid in event["pids"]))
    assert ended(job).state == "stopped"


def test_who_waits_takes_over_the_time_limit_of_a_stop(output):
    job = started(output, STUBBORN)
    begun(job)
    edit_record(job, stop_requested=time.time(), stop_deadline=time.time() + 0.2)
    assert jobs.status(job.folder).state == "stopping"
    assert jobs.wait(job.folder, 15).state == "stopped"


def test_stopping_what_has_ended_changes_nothing(output):
    job = ended(started(output, FINISHES))
    await_exit_code(job.folder)
    before = (job.folder / JOB_FILE).read_bytes()
    assert jobs.stop(job.folder).state == "finished"
    assert (job.folder / JOB_FILE).read_bytes() == before


def test_a_job_can_be_stopped_on_a_full_disk(output, monkeypatch):
    def full(*_: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    job = started(output, POLITE)
    begun(job)
    monkeypatch.setattr(record_module, "write_atomic", full)
    with pytest.raises(UserError, match="the disk is full"):
        jobs.stop(job.folder)
    assert ended(job).state == "stopped"
