"""Takes are spoken in their order, survive what happens to the worker, and say what happened."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.jobs.children import FINISHES, POLITE, begun, eventually, started
from tests.speech.workers import ended, submit, until, worker
from utils import jobs
from utils.errors import UserError
from utils.jobs import device as device_module
from utils.options import SpeechSettings
from utils.speech import take_queue as queue_module
from utils.speech import worker_client
from utils.speech.take_queue import GenerationQueue, checked_texts
from utils.speech.takes import list_takes, read_take


def test_takes_are_spoken_one_after_the_other_by_one_process(queue, project):
    takes = [submit(queue, project, f"number {number}") for number in range(4)]
    done = [ended(take) for take in takes]
    assert [take.state for take in done] == ["finished"] * 4
    written = [(take.folder / "0001.wav").stat().st_mtime_ns for take in done]
    assert written == sorted(written)
    assert [take.folder for take in list_takes(project)] == [take.folder for take in reversed(takes)]
    assert done[0].checkpoint == "step-00000007" and done[0].device == "cpu" and done[0].first_sound_s > 0


def test_the_first_sentence_is_there_while_the_rest_is_spoken(queue, project):
    take = submit(queue, project, "slow", "later")
    now = until(take, lambda take: bool(take.sentences))
    assert now.state == "speaking"
    assert (take.folder / now.sentences[0].file).is_file()
    queue.stop(take.folder)
    assert ended(take).state == "stopped"


def test_a_take_is_followed_without_reading_its_file(queue, project, monkeypatch):
    take = submit(queue, project, "one", "slow two")
    monkeypatch.setattr(queue_module, "read_take", lambda _: pytest.fail("it is not over"))
    for now in queue.follow(take, timeout_s=20):
        if len(now.sentences) == 2:
            break
    assert now.state == "speaking" and now.device == "cpu" and now.lines[0].state == "finished"
    assert list(queue.follow(now, timeout_s=0.1)) == []
    monkeypatch.undo()
    queue.stop(take.folder)
    assert [newest.state for newest in queue.follow(now, timeout_s=20)][-1] == "stopped"
    assert [newest.state for newest in queue.follow(take)] == ["stopped"], "it is over"


def test_a_stopped_take_goes_on_with_the_lines_that_are_missing(queue, project):
    take = submit(queue, project, "one", "slow two", "three")
    until(take, lambda take: len(take.sentences) == 2)
    queue.stop(take.folder)
    stopped = ended(take)
    assert [line.state for line in stopped.lines] == ["finished", "waiting", "waiting"]
    assert [line.file for line in stopped.lines] == ["0001.wav", "0002.wav", ""], "the second is kept in part"
    assert (take.folder / "0002.wav").read_bytes() == (take.folder / "0002-001.wav").read_bytes()
    first = (take.folder / "0001.wav").stat().st_mtime_ns
    queue.resume(project, take.id)
    until(take, lambda take: take.lines[0].state == "finished" and bool(take.lines[1].sentences))
    assert (take.folder / "0001.wav").stat().st_mtime_ns == first
    queue.stop(take.folder)
    assert "slow" in ended(take).sentences[-1].text


def test_a_waiting_take_can_be_stopped_before_it_begins(queue, project):
    first, second = submit(queue, project, "slow"), submit(queue, project, "second")
    queue.stop(second.folder)
    assert (read_take(second.folder).state, read_take(second.folder).sentences) == ("stopped", [])
    queue.stop(first.folder)
    assert ended(first).state == "stopped"


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
def test_a_crash_is_told_and_the_next_take_gets_a_new_process(queue, project):
    crashed, fine = submit(queue, project, "fine", "crash"), submit(queue, project, "after")
    now = ended(crashed)
    assert now.state == "failed"
    assert "killed by signal 9" in now.message and "no room for the weights" in now.message
    assert "use the CPU" in now.message
    assert [line.state for line in now.lines] == ["finished", "waiting"]
    assert ended(fine).state == "finished"


def test_one_unreadable_line_does_not_keep_the_others_from_being_spoken(queue, project):
    now = ended(submit(queue, project, "one", "unreadable", "three"))
    assert [line.state for line in now.lines] == ["finished", "failed", "finished"]
    assert now.state == "finished" and "1 of 3 lines failed" in now.message
    assert ended(submit(queue, project, "unreadable")).state == "failed"


def test_releasing_ends_the_process_and_tells_every_take(queue, project):
    first, second = submit(queue, project, "slow"), submit(queue, project, "second")
    until(first, lambda take: bool(take.sentences))
    assert queue.worker.state == "busy"
    assert queue.release("stopped for training")
    assert queue.worker.state == "off"
    for take in (first, second):
        now = ended(take)
        assert (now.state, now.message) == ("stopped", "stopped for training")
    assert not queue.release("again")


def test_training_that_takes_the_device_elsewhere_ends_the_speaking_process(queue, project, tmp_path):
    take = submit(queue, project, "slow")
    until(take, lambda take: bool(take.sentences))
    job = started(tmp_path, POLITE)
    try:
        now = ended(take)
        assert now.state == "stopped" and job.name in now.message and "train" in now.message
        eventually(lambda: queue.worker.state == "off")
        # Asked again, it speaks beside the training: the CPU is shared.
        assert ended(submit(queue, project, "beside it")).state == "finished"
    finally:
        begun(job)
        jobs.stop(job.folder)
        jobs.wait(job.folder, 15)


def test_a_training_that_takes_the_gpu_while_the_speaking_process_starts_ends_it_too(project, tmp_path, monkeypatch):
    monkeypatch.setattr(device_module, "wanted_device", lambda _: "cuda:0")
    monkeypatch.setattr(worker_client, "child_environment", lambda **_: None)
    job = SimpleNamespace(kind="train", name="run-1", folder=tmp_path)
    asked: list[str] = []
    # Free when the device is chosen, and taken whenever it is looked at again.
    for module in (device_module, worker_client):
        monkeypatch.setattr(module, "device_holder", lambda *_: asked.append("") or (job if asked[1:] else None))
    queue = GenerationQueue(tmp_path, worker=worker(tmp_path))
    now = ended(submit(queue, project, "slow"), timeout_s=60)
    assert now.state == "stopped" and "run-1" in now.message


def test_an_earlier_training_does_not_end_the_speaking_process(queue, project, tmp_path):
    jobs.wait(started(tmp_path, FINISHES).folder, 15)
    assert ended(submit(queue, project, "fine")).state == "finished"
    time.sleep(1.2)
    assert queue.worker.state == "ready"


def test_a_process_that_nobody_needs_ends(project, tmp_path):
    queue = GenerationQueue(tmp_path, device="cpu", worker=worker(tmp_path, idle_s=0.3))
    assert ended(submit(queue, project, "one")).state == "finished"
    eventually(lambda: queue.worker.state == "off")
    assert ended(submit(queue, project, "two")).state == "finished"
    queue.release("over")


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
def test_a_killed_app_takes_its_worker_with_it_and_its_take_reads_as_cut(project, tmp_path):
    program = f"""
import sys, time
from pathlib import Path
from tests.speech.workers import submit, until, worker
from utils.project.paths import Project
from utils.speech.take_queue import GenerationQueue
output = Path({str(tmp_path)!r})
queue = GenerationQueue(output, device="cpu", worker=worker(output))
take = submit(queue, Project(name="voice", output=output), "slow", "later")
until(take, lambda take: bool(take.sentences))
print(queue.worker._process.pid, flush=True)
time.sleep(60)
"""
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen([sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True) as app:
        pid = int(app.stdout.readline())
        app.send_signal(signal.SIGKILL)
        app.wait()
    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    (take,) = list_takes(project)
    assert take.state == "cut" and len(take.sentences) == 1 and "resume" in take.message


def test_what_cannot_be_spoken_is_refused_before_anything_is_made(queue, project, monkeypatch):
    for texts, fault in (((), "no text"), ((" ", "\n"), "no text"), (("x" * 500_001,), "500001 characters")):
        with pytest.raises(UserError, match=fault):
            submit(queue, project, *texts)
    with pytest.raises(UserError, match="no model"):
        queue.submit(project, ["text"], model="base/none", settings=SpeechSettings())
    with pytest.raises(UserError, match="2 settings"):
        queue.submit(project, ["text"], model="base/tiny", settings=SpeechSettings(temperature=-1, speed=0))
    monkeypatch.setattr(queue_module, "MAX_WAITING", 0)
    with pytest.raises(UserError, match="already queued"):
        submit(queue, project, "text")
    assert list_takes(project) == []


def test_text_is_checked_line_by_line():
    assert checked_texts(["  one ", "", "two\t"]) == ["one", "two"]


def test_the_worker_gets_no_shell(project, tmp_path):
    """A program name with shell characters is looked up as it stands, and not found."""
    made = tmp_path / "made"
    bad = worker(tmp_path)
    bad._command = [f"touch {made}; true"]
    queue = GenerationQueue(tmp_path, device="cpu", worker=bad)
    now = ended(submit(queue, project, "text"))
    assert now.state == "failed" and "could not be started" in now.message and not made.exists()
