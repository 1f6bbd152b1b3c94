"""Samples while training: spoken beside it, passed on as events, and never in its way."""

import subprocess
import sys
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import torch

from tests.configs import tiny_run
from tests.jobs.children import eventually, is_running
from tests.run_logs import events_of, warnings_of
from tests.saving import save_best
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints
from utils.runs.log import EventWriter
from utils.training.samples import MAX_FAILURES, SampleWorker
from utils.training.train import fine_tune

HEAD = """
import json, os, sys, time
folder = os.path.join(sys.argv[1], "samples")
def tell(kind, **fields):
    print(json.dumps({"kind": kind, **fields}), flush=True)
def requests():
    while True:
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        yield json.loads(line)
"""
SAY = """
def say(request):
    for line in request["lines"]:
        line, file = line["number"], str(line["number"])
        open(os.path.join(request["folder"], file), "wb").close()
        tell("sentence", id=request["id"], line=line, audio_s=1.0, took_s=0.5)
        tell("line", id=request["id"], line=line, file=file)
    tell("done", id=request["id"])
"""
SPEAKS = SAY + "for request in requests(): say(request)"
WAITS = (
    SAY
    + """
for request in requests():
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.01)
    say(request)
"""
)
FAILS = "for request in requests(): tell('failed', id=request['id'], error='cannot read this')"
UNREAD = FAILS.replace("failed", "line_failed") + "; tell('done', id=request['id'])"
DIES = "next(requests()); sys.exit(3)"
DEAF = "time.sleep(60)"

Make = Callable[..., SampleWorker]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes sample workers that are closed after the test."""
    workers = []

    def worker(body: str, *, sentences: tuple[str, ...] = ("Hello.",)) -> SampleWorker:
        command = [sys.executable, "-S", "-c", HEAD + body, str(tmp_path)]
        events = EventWriter(tmp_path / "events.jsonl")
        workers.append(SampleWorker(tmp_path, sentences, language="en", events=events, command=command))
        return workers[-1]

    yield worker
    for worker in workers:
        worker.close()


def idle(worker: SampleWorker) -> bool:
    worker.poll()
    return worker._speaking is None and worker._waiting is None


def test_what_was_spoken_becomes_events_of_the_run(tmp_path, make):
    worker = make(SPEAKS, sentences=("One.", "Two."))
    worker.request(4, tmp_path)
    eventually(lambda: idle(worker))
    worker.request(8, tmp_path)
    worker.close(wait_s=15)
    spoken = [(e["step"], e["sentence"], e["text"]) for e in events_of(tmp_path, "sample")]
    assert spoken == [(step, *one) for step in (4, 8) for one in ((1, "One."), (2, "Two."))]
    assert [(e["step"], e["path"]) for e in events_of(tmp_path, "sample")] == [
        (step, f"samples/step-0000000{step}-{number}.wav") for step in (4, 8) for number in (1, 2)
    ]
    assert sorted(path.suffix for path in (tmp_path / "samples").iterdir()) == [".log", *4 * [".wav"]]
    assert events_of(tmp_path, "warning") == []


def test_the_base_speaks_once_before_the_first_checkpoint(tmp_path, make):
    worker = make(SPEAKS)
    worker.request_base(tmp_path)
    eventually(lambda: idle(worker))
    worker.request(4, tmp_path)
    worker.close(wait_s=15)
    resumed = make(SPEAKS)
    resumed.request_base(tmp_path)
    assert idle(resumed)
    assert [event["step"] for event in events_of(tmp_path, "sample")] == [0, 4]


def test_training_waits_for_nothing_and_only_the_newest_request_is_kept(tmp_path, make):
    worker = make(WAITS)
    begun = time.perf_counter()
    for step in (1, 2, 3, 4):
        worker.request(step, tmp_path)
        for _ in range(100):
            worker.poll()
    assert time.perf_counter() - begun < 2
    (tmp_path / "samples" / "go").touch()
    worker.close(wait_s=15)
    assert [event["step"] for event in events_of(tmp_path, "sample")] == [1, 4]
    dropped = warnings_of(tmp_path)
    assert dropped == [f"no sample of step {step}: the one before is still being spoken" for step in (2, 3)]


@pytest.mark.parametrize(
    ("body", "reason"), [(FAILS, "cannot read this"), (UNREAD, "cannot read this"), (DIES, "ended (status 3)")]
)
def test_failures_are_warnings_and_after_some_no_more_is_tried(tmp_path, make, body, reason):
    worker = make(body)
    for step in range(1, MAX_FAILURES + 3):
        worker.request(step, tmp_path)
        eventually(lambda: idle(worker))
    warnings = warnings_of(tmp_path)
    assert len(warnings) == MAX_FAILURES
    assert all(f"no sample of step {n}: " in text and reason in text for n, text in enumerate(warnings, start=1))
    assert warnings[-1].endswith("no more samples are spoken in this run")


def test_a_program_that_cannot_be_started_is_a_warning(tmp_path):
    events = EventWriter(tmp_path / "events.jsonl")
    worker = SampleWorker(tmp_path, ["Hello."], language="en", events=events, command=[str(tmp_path / "nothing")])
    worker.request(1, tmp_path)
    assert idle(worker)
    assert "no sample of step 1" in events_of(tmp_path, "warning")[0]["message"]


def test_a_checkpoint_that_was_replaced_meanwhile_is_no_failure(tmp_path, make):
    worker = make(FAILS)
    for step in range(MAX_FAILURES + 2):
        worker.request(step, tmp_path / "gone")
        eventually(lambda: idle(worker))
    warnings = warnings_of(tmp_path)
    assert len(warnings) == MAX_FAILURES + 2 and all("was replaced" in text for text in warnings)


def test_a_worker_that_does_not_listen_is_ended(tmp_path, make, monkeypatch):
    monkeypatch.setattr("utils.jobs.json_lines.END_TIMEOUT_S", 0.2)
    worker = make(DEAF)
    worker.request(1, tmp_path)
    process = worker._process
    assert process is not None
    worker.close()
    assert process.returncode is not None
    assert "training ended before it was spoken" in events_of(tmp_path, "warning")[0]["message"]


def test_a_resumed_run_passes_on_no_old_samples(tmp_path, make):
    first = make(SPEAKS)
    first.request(1, tmp_path)
    first.close(wait_s=15)
    second = make(SPEAKS)
    second.request(2, tmp_path)
    second.close(wait_s=15)
    assert [event["step"] for event in events_of(tmp_path, "sample")] == [1, 2]


# The real process

TRAINER = """
import sys, time
from pathlib import Path
from utils.runs.log import EventWriter
from utils.training.samples import SampleWorker
run = Path(sys.argv[1])
worker = SampleWorker(run, ["Hello."], language="en", events=EventWriter(run / "events.jsonl"))
worker.request(1, next(run.glob("checkpoints/best-*")))
print(worker._process.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def trained(file_project: Project) -> Path:
    """The folder of a run on the tiny base."""
    return fine_tune(tiny_run(file_project, num_epochs=1, device="cpu")).folder


def seconds_of(path: Path) -> float:
    with wave.open(str(path)) as wav:
        return wav.getnframes() / wav.getframerate()


@pytest.mark.slow
def test_a_run_speaks_with_each_checkpoints_own_weights(trained):
    events = EventWriter(trained / "events.jsonl")
    worker = SampleWorker(trained, ["Yes.", "No."], language="en", events=events)
    checkpoints = Checkpoints(trained)
    best = checkpoints.best()
    assert best is not None
    worker.request_base(find_base("tiny").folder)
    eventually(lambda: idle(worker), timeout_s=90)
    worker.request(6, best)
    process = worker._process
    assert process is not None
    eventually(lambda: idle(worker), timeout_s=90)
    facts = psutil.Process(process.pid)
    assert facts.nice() == 10
    torch.manual_seed(0)
    gpt = load_gpt(find_base("tiny"))
    worker.request(7, save_best(checkpoints, 7, gpt, {}))
    worker.request(8, trained / "checkpoints" / "last-00000008")
    worker.close(wait_s=60)
    assert process.returncode == 0
    made = events_of(trained, "sample")
    assert [(event["step"], event["path"]) for event in made] == [
        (step, f"samples/step-{step:08d}-{number}.wav") for step in (0, 6, 7) for number in (1, 2)
    ]
    for event in made:
        assert seconds_of(trained / event["path"]) == pytest.approx(event["audio_s"], abs=1e-3)
        assert event["audio_s"] > 0 and event["took_s"] > 0
    before, best_one, untrained = ((trained / made[n]["path"]).read_bytes() for n in (0, 2, 4))
    assert best_one != before, "other weights, another sound"
    assert untrained == before, "a checkpoint with the base's weights sounds as the base"
    assert ["was replaced" in event["message"] for event in events_of(trained, "warning")] == [True]


def test_a_worker_that_listens_dies_with_a_trainer_that_is_killed(tmp_path):
    body = TRAINER.replace(
        'EventWriter(run / "events.jsonl"))',
        "EventWriter(run / \"events.jsonl\"), command=[sys.executable, '-S', '-c', sys.argv[2], str(run)])",
    ).replace('next(run.glob("checkpoints/best-*"))', "run")
    command = [sys.executable, "-c", body, str(tmp_path), HEAD + SPEAKS]
    trainer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert trainer.stdout is not None
    pid = int(trainer.stdout.readline())
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    eventually(lambda: not is_running(pid))
