"""What each entry point does on each kind of machine, with a stub of the driver: docs/gpu.md has the same table."""

import os
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest
import torch

from tests.hardware.machines import GIB, Answers
from tests.training.test_run import config_of
from utils import jobs
from utils.config import TrainConfig
from utils.errors import UserError
from utils.hardware import TORCH_ENVIRONMENT
from utils.inference.speaker import Speaker
from utils.jobs.device import Claim, wanted_device
from utils.performance_utils import device as device_module
from utils.performance_utils.device import check_allocator, settle_device
from utils.performance_utils.memory import memory_errors
from utils.project.paths import Project
from utils.runs.log import read_events
from utils.runs.record import JobRecord, read_record, write_record
from utils.training import preflight as measure_module
from utils.training.distributed import num_processes
from utils.training.switches.optim import choose_precision, faster_precision
from utils.training.train import fine_tune

ROOT = Path(__file__).parents[1]
OLD_DRIVER = {"SystemGetDriverVersion": "550.54.14", "SystemGetCudaDriverVersion_v2": 12_040}
NO_DRIVER = {"Init": pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Install a driver: two GPUs of 8 GB with compute capability 8.9 and driver 580 but for what is given."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def install(*, visible: str | None = None, cuda: bool = False, **told) -> None:
        answers = Answers()
        answers.told |= {"DeviceGetUUID": lambda handle: f"GPU-{handle}", **told}
        answers.install(monkeypatch)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        monkeypatch.setattr("torch.cuda.is_available", lambda: cuda)

    return install


MACHINES = [
    # told, visible, device of auto, words about it, number of processes with 0
    (NO_DRIVER, None, "cpu", "", 1),
    (OLD_DRIVER, None, "cpu", "driver 550.54.14 .*too old.* 580 or newer.*cu12", 1),
    ({}, "", "cpu", "hides every GPU", 1),
    ({}, "1", "cuda:1", "", 1),
    ({}, None, "cuda:0", "", 2),
    ({"DeviceGetCudaComputeCapability": (6, 1)}, None, "cpu", "no kernels for .*sm_61.*cu126", 1),
    ({"DeviceGetCudaComputeCapability": (7, 5)}, None, "cuda:0", "", 2),
    ({"DeviceGetCudaComputeCapability": (8, 6)}, None, "cuda:0", "", 2),
]


@pytest.mark.parametrize(("told", "visible", "device", "words", "processes"), MACHINES)
def test_claim_training_and_processes_agree_on_the_device(
    machine, told: dict, visible: str | None, device: str, words: str, processes: int
) -> None:
    machine(visible=visible, cuda=told is not NO_DRIVER and visible != "", **told)
    assert wanted_device("auto") == device
    settled, why = settle_device("auto")
    assert settled == device.split(":")[0]
    assert re.search(words, why, re.DOTALL) and bool(why) == bool(words)
    assert num_processes(TrainConfig(project="a", processes=0)) == processes
    if settled == "cpu":
        with pytest.raises(UserError, match="device cuda was requested, but"):
            settle_device("cuda")


def test_cuda_that_does_not_start_is_reported_in_its_own_words(machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as in a container without the compute libraries, where the driver's NVML answers all the same."""

    def init() -> None:
        raise RuntimeError("Unexpected error from cudaGetDeviceCount()\nError 802")

    machine()
    monkeypatch.setattr("torch.cuda.init", init)
    assert settle_device("auto") == (
        "cpu",
        "computing on the CPU: PyTorch cannot use CUDA: Unexpected error from cudaGetDeviceCount()",
    )


def test_under_an_old_driver_a_run_records_the_cpu_and_warns(machine, project: Project) -> None:
    machine(**OLD_DRIVER)
    folder = fine_tune(config_of(project, device="auto", num_epochs=1)).folder
    assert read_record(folder).device == "cpu"
    (warning,) = [e for e in read_events(folder / "events.jsonl", kind="warning") if e["source"] == "device"]
    assert "550.54.14" in warning["message"] and "580" in warning["message"]
    assert next(read_events(folder / "events.jsonl", kind="started"))["device"] == "cpu"


def test_a_job_started_for_a_gpu_that_cuda_cannot_use_holds_the_cpu_instead(machine, tmp_path: Path) -> None:
    machine()
    folder = tmp_path / "voice" / "runs" / "1"
    folder.mkdir(parents=True)
    texts = {"kind": "train", "state": "running", "host": "", "cwd": "", "config": "", "device": "cuda:0"}
    record = JobRecord(command=(), started=0.0, pid=os.getpid(), **texts)
    write_record(folder, record)
    gpu, cpu = Claim("cuda:0", tmp_path), Claim("cpu", tmp_path)
    gpu.give(folder)
    with jobs.hold("train", device="cpu", output=tmp_path, folder=folder):
        jobs.register(folder, "train", device="cpu", output=tmp_path)
        assert read_record(folder).device == "cpu"
        assert (gpu.holder(), cpu.holder()) == (None, folder)
    assert cpu.holder() is None


def test_a_full_gpu_is_named_with_who_has_it(machine) -> None:
    info = type("Info", (), {"total": 12 * GIB, "free": GIB // 2, "used": 23 * GIB // 2})
    machine(DeviceGetMemoryInfo=info, DeviceGetComputeRunningProcesses=[Answers.process(os.getpid(), 11 * GIB)])
    with pytest.raises(UserError) as caught, memory_errors("loading the model", "cuda"):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    assert "0.5 of 12.0 GB of NVIDIA GeForce RTX 4060 are free" in str(caught.value)
    assert f"(process {os.getpid()}) has 11.0 GB" in str(caught.value)


def test_a_gpu_that_another_run_has_is_refused(machine, tmp_path: Path) -> None:
    machine(cuda=True)
    with (
        jobs.hold("train", device="auto", output=tmp_path, folder=tmp_path),
        pytest.raises(UserError, match="GPU cuda:0 is in use by the train job"),
        jobs.hold("preflight", device="auto", output=tmp_path, folder=tmp_path),
    ):
        pass


@pytest.mark.parametrize(("capability", "faster"), [((6, 1), ""), ((7, 5), "fp16"), ((8, 6), "bf16")])
def test_a_run_in_fp32_names_the_precision_that_is_recommended(capability, faster: str, monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: capability)
    cuda = torch.device("cuda")
    assert faster_precision("fp32", cuda).startswith("matrix products" if faster else "")
    assert faster in faster_precision("fp32", cuda) and bool(faster_precision("fp32", cuda)) == bool(faster)
    assert choose_precision("auto", cuda) == (faster or "fp32")
    assert not faster_precision("bf16", cuda) and not faster_precision("fp32", torch.device("cpu"))


def test_a_speaker_computes_on_the_cpu_where_the_gpu_has_no_kernels(machine) -> None:
    machine(cuda=True, DeviceGetCudaComputeCapability=(6, 1))
    assert Speaker("tiny")._synthesizer.device.type == "cpu"
    with pytest.raises(UserError, match=r"device cuda was requested, but PyTorch .* has no kernels"):
        Speaker("tiny", device="cuda")


def test_expandable_segments_are_the_default_and_off_where_the_driver_has_none(monkeypatch) -> None:
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", TORCH_ENVIRONMENT["PYTORCH_ALLOC_CONF"])
    segments = ["expandable_segments:True"]

    def empty(*size: int, device: torch.device) -> None:
        if segments[-1].endswith("True"):
            raise RuntimeError("CUDA driver error: operation not supported")

    monkeypatch.setattr(device_module.torch, "empty", empty)
    monkeypatch.setattr("torch.cuda.memory._set_allocator_settings", segments.append)
    assert "operation not supported" in check_allocator(torch.device("cuda"))
    assert not check_allocator(torch.device("cuda"))
    assert segments == ["expandable_segments:True", "expandable_segments:False"]


def test_preflights_peak_includes_the_largest_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    peak = [0]

    def step(group: list) -> SimpleNamespace:
        peak[0] = max(peak[0], *(batch.num_bytes for batch in group))
        return SimpleNamespace(losses=SimpleNamespace(total=1.0), is_overflow=False)

    def batch(num_bytes: int) -> SimpleNamespace:
        packed = SimpleNamespace(gather_indices=torch.zeros(4), num_positions=4)
        return SimpleNamespace(
            num_bytes=num_bytes, packed=packed, audio_seconds=1.0, text_lengths=[3], code_lengths=[9]
        )

    for name, fake in {
        "synchronize": lambda: None,
        "reset_peak_memory_stats": lambda: peak.__setitem__(0, 0),
        "max_memory_reserved": lambda: 0,
    }.items():
        monkeypatch.setattr(f"torch.cuda.{name}", fake)
    monkeypatch.setattr(
        measure_module.TrainingOptimizer, "get_memory_stats", staticmethod(lambda: {"peak_bytes": peak[0]})
    )
    trainer = SimpleNamespace(
        device=torch.device("cuda"),
        step=step,
        gpt=None,
        optimizer=None,
        release=None,
        scaler=torch.amp.GradScaler("cpu"),
    )
    optimizations = SimpleNamespace(
        switches=SimpleNamespace(effective=SimpleNamespace(compile="off")), report=lambda *_, **__: {}
    )
    sizes = {True: [batch(900), batch(100)], False: [batch(100)]}
    loaders = SimpleNamespace(spread=lambda count, *, largest: sizes[largest], close=lambda: None)
    setup = SimpleNamespace(trainer=trainer, optimizations=optimizations, loaders=loaders)
    seen = measure_module._measured(setup, 1, warmup=1, steps=1)
    assert seen.peak_bytes == 900


def test_the_table_of_the_docs_names_every_machine() -> None:
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and " | " in line]
    for words in (
        "no driver",
        "driver below 580",
        "full",
        "another run",
        "hidden",
        "6.1",
        "7.5",
        "8.6",
        "hides every GPU",
    ):
        assert any(words in row for row in rows), words
