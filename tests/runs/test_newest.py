"""The newest events of each kind: what the end of the log says, for the price of what was appended."""

import itertools
import os
import time
from pathlib import Path

import pytest

from tests.runs.test_log import line, steps_of, write_steps, written
from utils.runs.log import EventWriter, Newest, tail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "events.jsonl"


def test_the_newest_events_equal_the_end_of_the_log_while_it_grows(path: Path) -> None:
    written(path, "")
    newest, writer = Newest(path), EventWriter(path)
    assert newest.tail(3, kind="step") == [] and newest.first("step") is None
    for step in range(1, 100):
        writer.write("step", step=step)
        if step % 7 == 0:
            writer.write("eval", step=step, loss=1.0)
        for kind in ("step", "eval", "sample"):
            assert newest.tail(5, kind=kind) == tail(path, 5, kind=kind)
    assert newest.first("step")["step"] == 1 and newest.first("eval")["step"] == 7


def test_the_newest_events_of_foreign_and_torn_lines(path: Path) -> None:
    odd = '{"loss": {"kind": "eval"}, "kind": "step", "step": 2}\n{"time": 1.5, "kind": "eval", "lo\n[1]\n'
    written(path, line("step", step=1) + odd + line("eval", step=3) + '{"time": 1.5, "kind": "eval"')
    newest = Newest(path)
    assert steps_of(newest.tail(9, kind="step")) == [1, 2]
    assert steps_of(newest.tail(9, kind="eval")) == [3]
    assert newest.first("eval")["step"] == 3


@pytest.mark.parametrize("how", ["removed", "truncated", "another"])
def test_the_newest_events_of_another_log_in_its_place(path: Path, how: str) -> None:
    written(path, "")
    write_steps(path, range(5))
    newest = Newest(path)
    assert newest.tail(1, kind="step")
    if how == "removed":
        path.unlink()
    elif how == "truncated":
        os.truncate(path, 0)
    else:
        written(path, line("eval", step=7) * 20)
    assert newest.tail(1, kind="step") == [] and newest.first("step") is None


def test_asking_a_million_lines_again_and_again_takes_no_time(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    with log.open("w", encoding="utf-8") as file:
        file.writelines(itertools.repeat(line("step", step=1), 1_000_000))
    newest = Newest(log)
    begun = time.process_time()
    assert newest.tail(40, kind="sample") == []
    read = time.process_time() - begun
    begun = time.process_time()
    for _ in range(200):
        assert newest.tail(1, kind="optimizations") == [] and newest.tail(30, kind="step")
    assert time.process_time() - begun < read / 2, "each call reads the log anew"
