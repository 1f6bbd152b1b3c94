"""How far a job is comes from its events: the phase, the share, the time left at the recent pace."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from utils import jobs
from utils.runs.progress import progress_of


def make_run(folder: Path, events: list[dict]) -> jobs.Job:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(event) for event in events]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return jobs.status(folder)


STARTED = {"time": 99.0, "kind": "started", "total_steps": 100, "config": {"num_epochs": 5}}


def test_a_resumed_run_is_not_taken_for_the_process_before_it(tmp_path):
    before = make_run(tmp_path / "run", [STARTED, *(step(n, 100.0 + n) for n in range(1, 41))])
    resumed = replace(before, state="starting", events_offset=before.events.stat().st_size)
    assert progress_of(resumed) is None, "nothing is known between the press and the first event"
    with before.events.open("a", encoding="utf-8") as log:
        log.writelines(json.dumps(event) + "\n" for event in (STARTED, step(31, 90_000.0), step(32, 90_010.0)))
    done = progress_of(resumed)
    assert (done.done, done.seconds_left) == (32, pytest.approx(680)), "the night between is no part of the pace"


def step(number: int, time: float) -> dict:
    return {"time": time, "kind": "step", "step": number, "epoch": number // 20}


def test_training_takes_its_pace_from_the_last_steps(tmp_path):
    # The first steps were slow; the last thirty took two seconds each.
    events = [STARTED, step(1, 100.0), *(step(n, 1000.0 + 2 * n) for n in range(2, 41))]
    done = progress_of(make_run(tmp_path / "run", events))
    assert (done.what, done.done, done.total, done.epoch, done.epochs) == ("training", 40, 100, 2, 5)
    assert done.seconds_left == pytest.approx(120)
    assert done.share == pytest.approx(0.4)


def test_a_phase_before_the_steps_is_told(tmp_path):
    events = [{"time": t, "kind": "progress", "what": "encoding clips", "done": t, "total": 40} for t in (10, 20, 30)]
    done = progress_of(make_run(tmp_path / "run", events))
    assert (done.what, done.done, done.total, done.seconds_left) == ("encoding clips", 30, 40, pytest.approx(10))


def test_a_phase_after_the_steps_is_told_too(tmp_path):
    events = [STARTED, step(1, 100.0), {"time": 101.0, "kind": "progress", "what": "reading", "done": 1, "total": None}]
    done = progress_of(make_run(tmp_path / "run", events))
    assert (done.what, done.total, done.share) == ("reading", None, None)


def test_a_job_that_has_ended_has_no_time_left(tmp_path):
    events = [STARTED, step(1, 100.0), step(2, 102.0), {"time": 103.0, "kind": "stopped"}]
    assert progress_of(make_run(tmp_path / "run", events)).seconds_left is None


def test_a_job_that_has_said_nothing_has_no_progress(tmp_path):
    assert progress_of(make_run(tmp_path / "run", [STARTED])) is None
