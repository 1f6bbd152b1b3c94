"""Two jobs never share a GPU, nor two trainings the CPU; the second one gets the name of the first."""

import os
import signal
import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.children import FINISHES, POLITE, SILENT, child, ended, eventually, started
from utils import jobs
from utils.config import Device, ExportConfig, TrainConfig
from utils.dataset.settings import PrepareConfig
from utils.errors import UserError
from utils.hardware.gpu import Gpu
from utils.jobs import device as device_module
from utils.jobs.device import Claim, free_device


def test_a_second_training_on_the_cpu_of_an_output_folder_is_refused(output, tmp_path):
    first = started(output, POLITE)
    with pytest.raises(
        UserError, match=f"^Training is already running: the CPU is in use by the train job '{first.name}'"
    ):
        started(output, SILENT, project="other")
    assert not (output / "other").exists()
    elsewhere = started(tmp_path / "elsewhere", SILENT)
    jobs.stop(elsewhere.folder)
    export = jobs.start("export", ExportConfig(project="voice", output=output), command=child(FINISHES))
    assert ended(export).state == "finished"
    jobs.stop(first.folder)
    ended(first)
    assert ended(started(output, FINISHES, project="other")).state == "finished"


def test_the_next_training_starts_as_soon_as_the_one_before_reads_finished(output):
    # Its process leaves the device a little later.
    first = started(output, f"{FINISHES}; rest(1.0)")
    eventually(lambda: jobs.status(first.folder).state == "finished")
    assert jobs.status(first.folder).process_alive
    second = started(output, FINISHES)
    assert not jobs.status(first.folder).process_alive
    assert ended(second).state == "finished"


def test_of_many_starts_at_once_one_wins(output):
    results: list[object] = []

    def attempt() -> None:
        try:
            results.append(started(output, SILENT))
        except UserError as error:
            results.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(result, jobs.Job) for result in results) == 1
    assert len(jobs.running(output)) == 1


def test_what_a_job_needs_is_freed_when_it_starts_and_not_when_it_is_refused(output):
    freed: list[bool] = []

    def free() -> None:
        freed.append(any(job.alive for job in jobs.running(output)))

    config = TrainConfig(project="voice", output=output, device="cpu")
    first = jobs.start("train", config, command=child(POLITE), before=free)
    assert freed == [False]
    with pytest.raises(UserError, match="the CPU is in use"):
        jobs.start("train", config, command=child(SILENT), before=free)
    assert len(freed) == 1
    jobs.stop(first.folder)
    ended(first)


GPUS = [Gpu(index=n, name="a", uuid=f"GPU-{n}{n}", total_bytes=1, free_bytes=1, used_bytes=0) for n in range(2)]


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """This computer has two, and none is hidden."""
    monkeypatch.setattr(device_module, "find_gpus", lambda: (GPUS, ""))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("requested", "visible", "found", "device"),
    [
        ("auto", None, GPUS, "cuda:0"),
        ("auto", None, [], "cpu"),
        ("auto", "", GPUS, "cpu"),
        ("auto", "-1", GPUS, "cpu"),
        ("auto", "1,0", GPUS, "cuda:1"),
        ("cuda", "GPU-1", GPUS, "cuda:1"),
        ("auto", "GPU-", GPUS, "cpu"),
        ("auto", "5", GPUS, "cpu"),
        ("auto", "MIG-5", [replace(GPUS[0], parts=(replace(GPUS[1], index=0, uuid="MIG-55"),))], "cuda:MIG-55"),
        ("auto", None, [GPUS[0], replace(GPUS[1], speed=9)], "cuda:1"),
        ("cuda", None, [], "cuda:0"),
        ("cpu", None, GPUS, "cpu"),
    ],
)
def test_the_device_a_job_is_going_to_take(requested, visible, found, device, monkeypatch):
    monkeypatch.setattr(device_module, "find_gpus", lambda: (found, ""))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert device_module.wanted_device(requested) == device


def test_a_gpu_is_one_for_all_output_folders(output, tmp_path, two_gpus, monkeypatch):
    first = started(output, POLITE, device="auto")
    assert first.device == "cuda:0"
    with pytest.raises(UserError, match=rf"the GPU cuda:0 is in use by the train job '{first.name}'"):
        started(tmp_path / "elsewhere", SILENT, device="cuda")
    on_cpu = started(output, SILENT, device="cpu")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    on_other = started(tmp_path / "elsewhere", SILENT, device="cuda")
    assert on_other.device == "cuda:1"
    for job in (first, on_cpu, on_other):
        jobs.stop(job.folder)
        assert ended(job).state == "stopped"


def test_a_preparation_has_the_gpu_for_itself_only_where_whisper_listens_on_it(output, two_gpus):

    def prepare(transcriber: str | None, device: Device) -> jobs.Job:
        config = PrepareConfig(
            project="voice",
            input=output,
            language="en",
            output=output,
            transcriber=transcriber,
            transcriber_device=device,
        )
        return jobs.start("prepare", config, command=child(POLITE))

    first = prepare("tiny", "auto")
    others = [prepare(None, "auto"), prepare("tiny", "cpu")]
    assert [job.device for job in (first, *others)] == ["cuda:0", None, None]
    with pytest.raises(UserError, match="is in use by the prepare job"):
        started(output, SILENT, device="cuda")
    for job in (first, *others):
        jobs.stop(job.folder)
        ended(job)


@pytest.mark.parametrize(
    ("visible", "rank", "device"),
    [(None, 1, "cuda:1"), ("1,0", 0, "cuda:1"), ("1,0", 1, "cuda:0"), ("GPU-1,GPU-0", 1, "cuda:0"), ("", 1, "cpu")],
)
def test_each_process_of_a_run_has_a_gpu_of_its_own(visible, rank, device, two_gpus, monkeypatch):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert device_module.wanted_device("auto", local_rank=rank) == device


def hold(kind: str, output: Path, device: str = "cuda") -> AbstractContextManager[None]:
    return jobs.hold(kind, device=device, output=output, folder=output / "voice")


def test_a_device_is_held_by_a_process_that_is_no_job_and_always_given_back(output, two_gpus):
    with pytest.raises(ValueError, match="fails"), hold("language", output):
        with pytest.raises(UserError, match="the GPU cuda:0 is in use by the language job 'voice'"):
            started(output, SILENT, device="cuda")
        with pytest.raises(UserError, match="in use by the language job"), hold("preflight", output):
            pass
        assert free_device("auto", output) == "cpu"
        with hold("language", output, device="cpu"), hold("preflight", output, device="cpu"):
            pass  # the CPU is shared, but for training
        raise ValueError("it fails")
    assert free_device("auto", output) == "cuda:0"
    job = started(output, SILENT, device="cuda")
    with pytest.raises(UserError, match="in use by the train job"), hold("preflight", output):
        pass
    jobs.stop(job.folder)


def test_what_a_process_starts_may_use_the_device_that_it_has(output, two_gpus):
    with hold("preflight", output):
        child = os.fork()
        if child == 0:
            with hold("preflight", output):
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        claim = Claim("cuda:0", output)
        assert claim.named() is not None, "the child did not take it away"


def test_a_run_that_is_registered_takes_over_what_its_process_holds_and_gives_it_back(output):
    run = output / "voice" / "runs" / "one"
    run.mkdir(parents=True)
    with hold("train", output, device="cpu"):
        jobs.register(run, device="cpu", output=output)
        with pytest.raises(UserError, match="in use by the train job 'one'"), hold("train", output, device="cpu"):
            pass
    # It failed before it could say so: the process lives, and the device is free all the same.
    with hold("train", output, device="cpu"):
        pass


def test_a_holder_that_was_killed_holds_nothing(output):
    child = os.fork()
    if child == 0:
        hold("train", output, device="cpu").__enter__()
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with hold("train", output, device="cpu"):
        pass
