"""The newest events of each kind and the curves of a growing log, for the price of what was appended."""

import math
import os
import random

import pytest

from tests.runs.test_log import line, path, steps_of, write_steps, written
from utils.errors import UserError
from utils.runs.follow import EventLog
from utils.runs.log import EventWriter, last_lines, read_events, tail

__all__ = ["path"]

# The newest of each kind


def test_the_newest_events_equal_the_end_of_the_log_while_it_grows(path):
    written(path, "")
    newest, writer = EventLog(path), EventWriter(path)
    assert newest.tail(3, kind="step") == []
    for step in range(1, 100):
        writer.write("step", step=step)
        if step % 7 == 0:
            writer.write("eval", step=step, loss=1.0)
        for kind in ("step", "eval", "sample"):
            assert newest.tail(5, kind=kind) == list(read_events(path, kind=kind))[-5:]


def test_the_newest_events_of_foreign_and_torn_lines(path):
    odd = '{"loss": {"kind": "eval"}, "kind": "step", "step": 2}\n{"time": 1.5, "kind": "eval", "lo\n[1]\n'
    written(path, line("step", step=1) + odd + line("eval", step=3) + '{"time": 1.5, "kind": "eval"')
    newest = EventLog(path)
    assert steps_of(newest.tail(9, kind="step")) == [1, 2]
    assert steps_of(newest.tail(9, kind="eval")) == [3]


# Curves


def test_a_short_curve_is_complete(path):
    written(path, line("eval", step=2, loss=0.1))
    write_steps(path, range(1, 6), loss=lambda step: 1.0 / step)
    assert EventLog(path).curve("step", ["loss", "lr"], 60) == {
        "step": [1, 2, 3, 4, 5],
        "loss": [1 / 1, 1 / 2, 1 / 3, 1 / 4, 1 / 5],
        "lr": [None] * 5,
    }


@pytest.mark.parametrize("num_steps", [1, 10, 999, 20_000])
@pytest.mark.parametrize("max_points", [8, 100, 500])
def test_a_long_curve_keeps_ends_and_extremes_within_its_size(path, num_steps, max_points):
    noise = random.Random(num_steps)
    losses = [noise.random() for _ in range(num_steps)]
    losses[num_steps // 3], losses[num_steps // 2] = 50.0, -50.0
    written(path, "")
    write_steps(path, range(1, num_steps + 1), loss=lambda step: losses[step - 1])
    curve = EventLog(path).curve("step", ["loss"], max_points)
    assert len(curve["step"]) == len(curve["loss"]) <= max_points
    assert curve["step"] == sorted(set(curve["step"]))
    assert (curve["step"][0], curve["step"][-1]) == (1, num_steps)
    assert (min(curve["loss"]), max(curve["loss"])) == (min(losses), max(losses))
    assert all(losses[step - 1] == loss for step, loss in zip(curve["step"], curve["loss"], strict=True))
    if num_steps == 20_000 and max_points == 500:
        # Spread over the whole run: no hole is larger than a few buckets.
        assert max(b - a for a, b in zip(curve["step"], curve["step"][1:], strict=False)) < 20_000 / 500 * 8


def test_after_a_resume_the_later_values_count(path):
    written(path, "")
    write_steps(path, range(1, 11), loss=float)
    write_steps(path, range(6, 13), loss=lambda step: step + 0.5)
    assert EventLog(path).curve("step", ["loss"])["loss"] == [1, 2, 3, 4, 5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5]


def test_steps_that_were_undone_and_not_done_again_are_not_shown(path):
    written(path, "")
    write_steps(path, range(1, 11), loss=float)
    write_steps(path, range(6, 8), loss=lambda step: step + 0.5)
    assert EventLog(path).curve("step", ["loss"])["loss"] == [1, 2, 3, 4, 5, 6.5, 7.5]


def test_a_growing_curve_equals_one_drawn_anew_also_through_resumes_and_another_log(path):
    written(path, "")
    log = EventLog(path)
    for number, steps in enumerate([range(1, 4), range(4, 200), range(150, 300), range(20, 25), range(25, 90)]):
        write_steps(path, steps, loss=lambda step, number=number: number + step / 1_000)  # type: ignore[misc]
        grown, fresh = log.curve("step", ["loss"], 40), EventLog(path).curve("step", ["loss"], 40)
        assert len(grown["step"]) <= 40
        for name in ("step", "loss"):
            assert (grown[name][0], grown[name][-1]) == (fresh[name][0], fresh[name][-1])
            assert (min(grown[name]), max(grown[name])) == (min(fresh[name]), max(fresh[name]))
    assert max(grown["loss"]) < 5
    written(path, line("step", step=7, loss=0.25))
    assert log.curve("step", ["loss"], 40) == {"step": [7], "loss": [0.25]}


def test_a_curve_with_gaps(path):
    written(path, line("memory", step=1, bytes=5) + line("memory", step=2) + line("memory", step=3, bytes=7))
    assert EventLog(path).curve("memory", ["bytes"]) == {"step": [1, 2, 3], "bytes": [5, None, 7]}


# What people edited


def test_a_named_pipe_in_place_of_a_log_is_empty_and_refused_by_a_writer(path):
    path.parent.mkdir()
    os.mkfifo(path)
    assert tail(path, 3) == EventLog(path).tail(3, kind="step") == last_lines(path, 3) == []
    with pytest.raises(UserError, match="named pipe"):
        EventWriter(path)


@pytest.mark.parametrize("value", [None, True, "7", [7], {"7": 7}, math.nan, math.inf, 10**400])
def test_what_is_no_number_is_not_drawn(path, value):
    written(
        path, line("step", step=1, loss=0.5) + line("step", step=value, loss=1.0) + line("step", step=2, loss=value)
    )
    assert EventLog(path).curve("step", ["loss"]) == {"step": [1, 2], "loss": [0.5, None]}
