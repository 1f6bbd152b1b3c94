"""Saving beside training: a true copy, one at a time, and a disk that fails costs a warning, not the run."""

import errno
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tests.run_logs import events_of
from tests.saving import Disk
from utils.runs import checkpoints as state_module
from utils.runs import saver as saver_module
from utils.runs.checkpoints import Checkpoints, NotSaved, load_checkpoint, read_state, verify
from utils.runs.layout import MODEL_FILE, OPTIMIZER_FILE, checkpoints_of
from utils.runs.log import Event, EventWriter
from utils.runs.saver import Saver, Snapshot


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[Saver]:
    run_log = EventWriter(tmp_path / "events.jsonl")
    yield Saver(Checkpoints(tmp_path), run_log)
    run_log.close()


def snapshot(step: int, *, best_loss: float | None = None, value: float | None = None) -> Snapshot:
    weights = torch.full((50,), float(step if value is None else value))
    files = {MODEL_FILE: {"w": weights}, OPTIMIZER_FILE: {"w/m": weights.clone()}}
    return Snapshot(step=step, files=files, state={"epoch": 1}, best_loss=best_loss)


def warnings_of(folder: Path) -> list[Event]:
    return events_of(folder, "warning")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_training_goes_on_while_a_copy_is_written(saver, tmp_path, monkeypatch):
    go, real = threading.Event(), state_module.write_weights
    monkeypatch.setattr(state_module, "write_weights", lambda path, state: go.wait(10) and real(path, state))
    live = snapshot(3)
    saver.save(live)
    assert saver.poll() == [], "it returned before anything was written"
    for tensors in live.files.values():
        for tensor in tensors.values():
            tensor.fill_(99.0)
    go.set()
    (folder,) = saver.finish()
    assert load_checkpoint(folder)["w"].tolist() == [3.0] * 50, "what was trained since is not in it"
    event = events_of(tmp_path, "checkpoint")[0]
    assert event["what"] == "last" and event["save_s"] >= event["waited_s"] and event["bytes"] == 400


def test_a_second_save_waits_for_the_first(saver, tmp_path):
    for step in range(1, 6):
        saver.save(snapshot(step))
    assert [path.name for path in saver.finish()] == [f"step-0000000{step}" for step in range(1, 6)]
    assert names(tmp_path) == ["step-00000005"]


def test_without_memory_for_a_copy_training_waits(saver, monkeypatch):
    monkeypatch.setattr(saver_module, "MEMORY_SHARE", 0.0)
    saver.save(snapshot(1))
    assert saver._thread is None and len(saver.poll()) == 1
    assert saver.waited_s == pytest.approx(saver.save_s, rel=0.5, abs=0.05)


def test_what_came_before_a_save_counts_as_waiting(saver, tmp_path):
    saver.save(snapshot(1), begun=time.perf_counter() - 100)
    (_,) = saver.finish()
    event = events_of(tmp_path, "checkpoint")[0]
    assert event["save_s"] >= event["waited_s"] >= 100 and saver.waited_s >= 100


def test_a_failed_save_is_not_tried_again_while_another_one_is_under_way(saver, monkeypatch):
    disk, go = Disk(monkeypatch), threading.Event()
    monkeypatch.setattr(saver_module, "RETRY_S", 0.0)
    disk.fill()
    saver.save(snapshot(1), wait=True)
    saver.poll()
    assert saver.wants_retry
    disk.error = None
    real = state_module.write_weights
    monkeypatch.setattr(state_module, "write_weights", lambda path, state: go.wait(10) and real(path, state))
    saver.save(snapshot(2))
    assert not saver.wants_retry
    go.set()
    saver.join()
    assert not saver.wants_retry, "what came of it is not known yet"
    saver.finish()
    assert saver.failure is None


def test_the_best_shares_its_weights_with_the_last(saver, tmp_path):
    saver.save(snapshot(4, best_loss=1.5), wait=True)
    saver.finish()
    last, best = (tmp_path / "checkpoints" / name for name in ("step-00000004", "best-00000004"))
    assert (best / "model.safetensors").samefile(last / "model.safetensors")
    verify(best)
    assert not (best / "optimizer.safetensors").exists() and saver.best_loss == 1.5
    saver.save(snapshot(5), wait=True)
    saver.finish()
    assert names(tmp_path) == ["best-00000004", "step-00000005"]
    assert load_checkpoint(best)["w"][0] == 4.0


def test_where_files_cannot_have_two_names_the_best_is_a_copy(saver, tmp_path, monkeypatch):
    def refuse(self, target):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    saver.save(snapshot(4, best_loss=1.5), wait=True)
    saver.finish()
    verify(tmp_path / "checkpoints" / "best-00000004")


@pytest.mark.parametrize(
    ("number", "words", "advice"),
    [(errno.ENOSPC, "the disk is full", "free some space"), (errno.EIO, "the disk fails", "check the disk")],
)
def test_a_failing_disk_keeps_the_previous_checkpoint_is_told_once_and_forgiven_later(
    saver, tmp_path, monkeypatch, number, words, advice
):
    disk = Disk(monkeypatch)
    saver.save(snapshot(1, best_loss=2.0))
    saver.finish()
    disk.error = OSError(number, "No space left on device")
    for step in (2, 3):
        saver.save(snapshot(step, best_loss=1.0))
        assert saver.finish() == []
    assert isinstance(saver.failure, NotSaved) and (saver.saved_step, saver.best_loss) == (1, 2.0)
    assert names(tmp_path) == ["best-00000001", "step-00000001"], "nothing half-written stays"
    verify(tmp_path / "checkpoints" / "step-00000001")
    (warning,) = warnings_of(tmp_path)
    assert words in warning["message"] and "of step 1 is kept" in warning["message"] and advice in warning["message"]
    assert not saver.wants_retry
    monkeypatch.setattr(saver_module, "RETRY_S", 0.0)
    assert saver.wants_retry
    disk.error = None
    saver.save(snapshot(4))
    saver.finish()
    assert saver.failure is None and names(tmp_path) == ["best-00000001", "step-00000004"]
    assert "saving works again" in warnings_of(tmp_path)[-1]["message"]


def test_a_write_that_the_system_cuts_off_half_way_keeps_the_previous_checkpoint(saver, tmp_path):
    """A real limit of the system: files of this process end after 100 kB."""
    resource = pytest.importorskip("resource")
    saver.save(snapshot(1), wait=True)
    large = {MODEL_FILE: {"w": torch.ones(1_000)}, OPTIMIZER_FILE: {"w/m": torch.ones(100_000)}}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        saver.save(Snapshot(step=2, files=large, state={}, best_loss=None), wait=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    saver.finish()
    assert saver.failure is not None and "the disk fails (File too large)" in saver.failure.what
    assert names(tmp_path) == ["step-00000001"]
    verify(tmp_path / "checkpoints" / "step-00000001")
    saver.save(Snapshot(step=2, files=large, state={}, best_loss=None), wait=True)
    saver.finish()
    verify(tmp_path / "checkpoints" / "step-00000002")


def test_nothing_is_begun_that_the_disk_has_no_room_for(saver, tmp_path, monkeypatch):
    saver.save(snapshot(1), wait=True)
    saver.finish()
    usage = state_module.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(state_module.shutil, "disk_usage", lambda path: usage._replace(free=2**20 + 100))
    written = []
    monkeypatch.setattr(state_module, "write_weights", lambda path, state: written.append(path))
    saver.save(snapshot(2), wait=True)
    saver.finish()
    assert saver.failure is not None and "the disk is full" in saver.failure.what and written == []


def test_a_fault_of_our_own_is_not_taken_for_a_full_disk(saver):
    broken = Snapshot(step=1, files={MODEL_FILE: {"w": torch.ones(2)}}, state={"x": object()}, best_loss=None)
    saver.save(broken)
    with pytest.raises(TypeError, match="not JSON serializable"):
        saver.finish()


def test_leftovers_go_whole_ones_get_their_place_and_later_ones_step_aside(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=5)
    for step in (1, 2, 3):
        folder = checkpoints.write_last(step, {MODEL_FILE: {"w": torch.ones(1)}}, {})
    folder.rename(folder.with_name(".writing-step-00000003"))
    unfinished = folder.with_name(".writing-step-00000004")
    unfinished.mkdir()
    (unfinished / "model.safetensors").write_bytes(b"half")
    assert checkpoints.tidy() == [".writing-step-00000004"]
    assert checkpoints.last() == folder and read_state(folder)["step"] == 3
    assert checkpoints.set_aside_after(1) == ["left-step-00000002", "left-step-00000003"]
    checkpoints.write_last(3, {MODEL_FILE: {"w": torch.ones(1)}}, {})
    assert checkpoints.set_aside_after(1) == ["left-step-00000003-2"]
    assert [one.path.name for one in checkpoints_of(tmp_path)] == ["step-00000001"]


def test_some_older_checkpoints_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in range(8, 13):
        checkpoints.write_last(step, {MODEL_FILE: {"w": torch.ones(1)}}, {})
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == [
        f"step-000000{step}" for step in ("10", "11", "12")
    ]


DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool)


def test_tensors_of_every_type_and_layout_are_read_back_as_they_were(tmp_path):
    tensors = {f"t/{dtype}": torch.arange(12).reshape(3, 4).to(dtype) for dtype in DTYPES}
    tensors |= {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3), "strided": torch.arange(6.0).view(2, 3).t()}
    folder = Checkpoints(tmp_path).write_last(1, {MODEL_FILE: tensors}, {})
    verify(folder)
    read = safetensors.torch.load_file(folder / MODEL_FILE)
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype and torch.equal(read[name], tensor), name
