"""The event log: nothing written is lost, readers cope with what a kill leaves, and memory does not grow with it."""

import json
import math
import os
import random
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from utils.errors import UserError
from utils.runs import log as log_module
from utils.runs.follow import KEPT, EventLog
from utils.runs.log import EventWriter, last_lines, read_events, tail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "events.jsonl"


def line(kind: str, **fields: Any) -> str:
    return json.dumps({"time": 1.5, "kind": kind, **fields}) + "\n"


def write_steps(path: Path, steps: Iterable[int], loss: Callable[[int], float] = float) -> None:
    with path.open("a", encoding="utf-8") as log:
        log.writelines(line("step", step=step, loss=loss(step)) for step in steps)


def written(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def newest(log: EventLog) -> list[int]:
    """The newest steps of a log that grows."""
    return steps_of(log.tail(KEPT, kind="step"))


def steps_of(events: Iterable[dict[str, Any]]) -> list[int]:
    return [event["step"] for event in events]


# Writing


def test_events_come_back_as_they_were_written(path):
    writer = EventWriter(path)
    writer.write("step", step=1, loss=0.5, text="ሰላም\nline", parts=[1, (2, math.nan)], lr=math.inf)
    writer.close()
    (event,) = read_events(path)
    assert event.pop("time") > 1e9
    assert event == {"kind": "step", "step": 1, "loss": 0.5, "text": "ሰላም\nline", "parts": [1, [2, None]], "lr": None}


def test_each_event_is_there_before_the_next_call(path):
    writer = EventWriter(path)
    for step in range(5):
        writer.write("step", step=step)
        assert steps_of(read_events(path)) == list(range(step + 1))


def test_a_torn_line_of_a_killed_writer_does_not_swallow_the_next_event(path):
    written(path, line("step", step=1) + '{"kind": "st')
    writer = EventWriter(path)
    writer.write("step", step=2)
    assert steps_of(read_events(path)) == [1, 2]


class Disk:
    """The log's file on a disk with so much room; it takes what fits and then refuses, as a real one does."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: bytearray) -> int:
        if self.room == 0:
            raise OSError(28, "No space left on device")
        count: int = self.file.write(data[: self.room])
        self.room -= count
        return count

    def close(self) -> None:
        self.file.close()


def on_full_disk(path: Path, room: int) -> tuple[EventWriter, Disk]:
    writer = EventWriter(path)
    disk = Disk(writer._file, room)
    writer._file = disk
    return writer, disk


@pytest.mark.parametrize("room", [0, 1, 40, 100])
def test_events_wait_while_the_disk_is_full_and_then_come_in_order(path, room):
    writer, disk = on_full_disk(path, room)
    for step in range(1, 6):
        writer.write("step", step=step)
    assert len(list(read_events(path))) < 5
    disk.room = 10_000
    writer.write("step", step=6)
    assert steps_of(read_events(path, kind="step")) == [1, 2, 3, 4, 5, 6]
    (warning,) = read_events(path, kind="warning")
    assert "events were written late" in warning["message"]


def test_what_waited_is_written_when_the_log_is_closed(path):
    writer, disk = on_full_disk(path, 0)
    writer.write("finished", step=9)
    disk.room = 10_000
    writer.close()
    assert steps_of(read_events(path, kind="finished")) == [9]


def test_a_disk_that_stays_full_is_told_at_the_end_with_the_number_of_lost_events(path):
    writer, _ = on_full_disk(path, 10)
    for step in range(3):
        writer.write("step", step=step)
    with pytest.raises(UserError, match="disk is full: the last 3 events"):
        writer.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_really_full_device(caplog):
    writer = EventWriter(Path("/dev/full"))
    writer.write("step", step=1)
    writer.write("step", step=2)
    assert len(caplog.records) == 1 and "disk is full" in caplog.text
    with pytest.raises(UserError, match="the last 2 events"):
        writer.close()


def test_memory_for_waiting_events_is_limited_and_the_limit_is_told(path, monkeypatch):
    monkeypatch.setattr(log_module, "MAX_HELD_BYTES", 1_000)
    writer, disk = on_full_disk(path, 0)
    accepted = 0
    with pytest.raises(UserError, match="can no longer be written"):
        for _ in range(100):
            writer.write("step", step=accepted)
            accepted += 1
    disk.room = 100_000
    writer.write("finished")
    assert steps_of(read_events(path, kind="step")) == list(range(accepted))


def test_another_error_of_the_disk_is_raised_at_once(path, monkeypatch):
    writer, disk = on_full_disk(path, 0)

    def fail(_: bytearray) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk, "write", fail)
    with pytest.raises(OSError, match="Input/output"):
        writer.write("step", step=1)


# Reading from the end

FOREIGN = [
    b"",
    b"\n\n",
    b"null\n[]\n17\n",
    b'{"no kind": 1}\n{"kind": 7}\n',
    b"\xff\xfe\x00\n",
    b'{"kind": "step", "step": 9',
    b"[" * 5_000 + b"\n",
]


@pytest.mark.parametrize("foreign", FOREIGN)
def test_torn_and_foreign_lines_are_skipped_from_either_end(path, foreign):
    written(path, line("step", step=1).encode() + foreign)
    assert steps_of(read_events(path)) == steps_of(tail(path, 9)) == newest(EventLog(path)) == [1]


def test_a_missing_log_has_no_events(path):
    assert list(read_events(path)) == tail(path, 3) == EventLog(path).tail(3, kind="step") == last_lines(path, 3) == []
    assert EventLog(path).curve("step", ["loss"]) == {"step": [], "loss": []}


def test_the_end_is_whole_lines_of_the_last_bytes(path, monkeypatch):
    lengths = random.Random(1)
    written(path, "".join(line("step", step=step, pad="x" * lengths.choice([0, 9, 700])) for step in range(300)))
    everything = list(read_events(path))
    for count in (0, 1, 2, 17, 300, 999):
        assert tail(path, count) == everything[len(everything) - min(count, 300) :]
    ends = [len(text) for text in path.read_bytes().splitlines(keepends=True)][::-1]
    for num_bytes in (ends[0] - 1, ends[0], ends[0] + 1, sum(ends[:9]), sum(ends[:9]) + 1):
        monkeypatch.setattr(log_module, "END_BYTES", num_bytes)
        whole = next(count for count in range(300) if sum(ends[: count + 1]) > num_bytes)
        assert tail(path, 300) == everything[300 - whole :], num_bytes


def test_the_end_from_a_byte_on(path):
    written(path, line("eval", step=1) + line("step", step=2))
    offset = path.stat().st_size
    write_steps(path, [3, 4])
    assert steps_of(tail(path, 5, start=offset)) == [3, 4]


def test_lines_without_end_are_passed_over_and_not_held_in_memory(path):
    written(path, line("step", step=1).encode() + b"x" * 30_000_000 + b"\n" + line("step", step=2).encode())
    tracemalloc.start()
    found = [tail(path, 5), list(read_events(path)), EventLog(path).tail(9, kind="step")]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [steps_of(events) for events in found] == [[2], [1, 2], [1, 2]]
    assert peak < 8_000_000


def test_the_end_of_a_long_log_takes_constant_memory(path):
    written(path, "".join(line("step", step=step, pad="x" * 1_000) for step in range(60_000)))
    tracemalloc.start()
    found = tail(path, 100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert steps_of(found) == list(range(59_900, 60_000))
    assert peak < 10_000_000


def test_the_end_of_any_text(tmp_path):
    path = written(tmp_path / "train.log", "one\r\ntwo\nthree")
    assert last_lines(path, 2) == ["two", "three"]


# Following


def test_a_log_that_grows_gives_each_event_once(path):
    written(path, "")
    log, seen = EventLog(path), []
    for start in (0, 3, 3, 10):
        write_steps(path, range(start, start + 2))
        seen += [start, start + 1]
        assert newest(log) == newest(log) == seen


def test_a_torn_line_is_given_once_it_is_complete(path):
    whole = line("step", step=2).encode()
    for cut in range(1, len(whole)):
        written(path, line("step", step=1).encode() + whole[:cut])
        log = EventLog(path)
        assert newest(log) == [1]
        with path.open("ab") as file:
            file.write(whole[cut:])
        assert newest(log) == [1, 2]


def test_a_torn_line_that_a_new_writer_closed_is_passed_over(path):
    written(path, line("step", step=1) + '{"kind": "st')
    log = EventLog(path)
    assert newest(log) == [1]
    EventWriter(path).write("step", step=2)
    assert newest(log) == [1, 2]


@pytest.mark.parametrize("how", ["removed", "truncated", "shorter", "longer", "same inode, longer"])
def test_another_log_in_its_place_is_read_from_the_beginning(path, how):
    written(path, "")
    write_steps(path, range(5))
    log = EventLog(path)
    newest(log)
    text = "".join(line("step", step=step, run="new") for step in range(100, 102 if how == "shorter" else 150))
    if how in ("removed", "truncated"):
        path.unlink() if how == "removed" else os.truncate(path, 0)
        assert newest(log) == []
        write_steps(path, range(100, 102))
    elif how == "same inode, longer":
        with path.open("r+") as file:
            file.write(text)
    else:
        path.unlink()
        written(path, text)
    assert newest(log)[:2] == [100, 101]
