"""What each entry point does on each kind of machine, with a stub of the driver: docs/gpu.md has the same table."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest
import torch

import app
from tests.entry_points import CLAIMED, REFUSED, SPEAKING, EntryPoints, Reached
from tests.hardware.machines import GIB, Answers
from tests.run_logs import events_of, warnings_of
from tests.training.test_run import config_of
from utils import jobs
from utils.cli import synthesize
from utils.config import TrainConfig
from utils.errors import UserError
from utils.inference.speaker import Speaker
from utils.jobs.device import Claim
from utils.performance_utils import device as device_module
from utils.performance_utils.device import check_allocator, settle_device
from utils.runs.process import ProcessId
from utils.runs.record import JobRecord, read_record, write_record
from utils.training import train
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

    def install(*, visible: str | None = None, cuda: bool = False, **values) -> None:
        answers = Answers()
        answers.values |= {"DeviceGetUUID": lambda handle: f"GPU-{handle}", **values}
        answers.install(monkeypatch)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        monkeypatch.setattr("torch.cuda.is_available", lambda: cuda)

    return install


MACHINES = [
    # values, visible, device of auto, words about it, number of processes with 0
    (NO_DRIVER, None, "cpu", "", 1),
    (OLD_DRIVER, None, "cpu", "driver 550.54.14 .*too old.* 580 or newer.*cu12", 1),
    ({}, "", "cpu", "hides every GPU", 1),
    ({}, "1", "cuda:1", "", 1),
    ({}, None, "cuda:0", "", 2),
    ({"DeviceGetCudaComputeCapability": (6, 1)}, None, "cpu", "no kernels for .*sm_61.*cu126", 1),
    ({"DeviceGetCudaComputeCapability": (7, 5)}, None, "cuda:0", "", 2),
    ({"DeviceGetCudaComputeCapability": (8, 6)}, None, "cuda:0", "", 2),
]


@pytest.mark.parametrize(("values", "visible", "device", "words", "processes"), MACHINES)
def test_every_entry_point_takes_the_device_that_pytorch_can_use(
    machine, project, monkeypatch, values, visible, device, words, processes
):
    machine(visible=visible, cuda=values not in (NO_DRIVER, OLD_DRIVER) and visible != "", **values)
    entries, kind = EntryPoints(project, monkeypatch), device.split(":")[0]
    assert entries.devices("auto") == {**dict.fromkeys(CLAIMED, device), **dict.fromkeys(SPEAKING, kind)}
    settled, why = settle_device("auto")
    assert settled == kind and re.search(words, why, re.DOTALL) and bool(why) == bool(words)
    assert num_processes(TrainConfig(project="a", processes=0)) == processes
    wanted = {**dict.fromkeys(CLAIMED, device), **dict.fromkeys(SPEAKING, kind)}
    if kind == "cpu":
        # The recognizer needs an older driver than PyTorch, and says itself what it lacks.
        wanted = dict.fromkeys(wanted, REFUSED) | {"compare": "cpu", "prepare": "cuda:0"}
    if values is NO_DRIVER:
        # Without a driver there is nothing to name: the job's own process refuses, and the page offers no cuda.
        wanted |= {"page_trains": "cuda:0", "page_speaks": "cuda"}
    assert entries.devices("cuda") == wanted


def test_start_names_the_wheel_that_has_the_kernels(machine, monkeypatch, capsys):
    page = SimpleNamespace(share_url="", local_url="http://127.0.0.1:1/", block_thread=lambda: None)
    monkeypatch.setattr(app, "launched", lambda flags: page)
    monkeypatch.setattr(sys, "argv", ["app.py"])
    machine(DeviceGetCudaComputeCapability=(7, 0))
    assert app.main() == 0
    assert re.search(r"no kernels for .*Volta, sm_70.*torch==\S+\+cu126 ", capsys.readouterr().out, re.DOTALL)
    machine()
    assert app.main() == 0 and capsys.readouterr().out.startswith("Open http://127.0.0.1:1/")


def test_every_entry_point_leaves_a_gpu_to_the_run_that_has_it(machine, project, monkeypatch):
    machine(cuda=True)
    entries = EntryPoints(project, monkeypatch)
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as training:
        Claim("cuda:0", project.output).give(project.folder, "train", ProcessId.of(training.pid))
        speaking = dict.fromkeys((*SPEAKING, "evaluate", "compare"), "cpu")
        assert entries.devices("auto") == dict.fromkeys(CLAIMED, REFUSED) | speaking
        refused = dict.fromkeys((*CLAIMED, *SPEAKING), REFUSED) | {"compare": "cpu", "server": "cuda"}
        assert entries.devices("cuda") == refused
        decoder, facts = entries.fit("auto", is_asked=False)
        assert not decoder and "GPU cuda:0 is in use by the train job" in facts["decoder"]["kept"]
        training.kill()


def test_a_recognizer_beside_speech_on_a_gpu_keeps_its_way_back_to_the_cpu(machine, project, monkeypatch):
    machine(cuda=True)
    EntryPoints(project, monkeypatch)
    requested: list[str] = []

    def check(model: str, *, device: str) -> None:
        requested.append(device)
        raise Reached

    monkeypatch.setattr("utils.inference.speaker.word_check", check)
    loaded = SimpleNamespace(synthesizer=SimpleNamespace(), language="en")
    monkeypatch.setattr("utils.inference.model_cache.ModelCache.load", lambda self, **_: loaded)
    for device in ("auto", "cuda", "cpu"):
        with pytest.raises(Reached):
            Speaker("tiny", transcriber="tiny", output=project.output, device=device)
        words = ["--model", "tiny", "--text", "No.", "--language", "en", "--transcriber", "tiny", "--device", device]
        with pytest.raises(Reached):
            synthesize.main([*words, "--out", str(project.output / "no.wav")])
    assert requested == ["auto", "auto", "cuda", "cuda", "cpu", "cpu"]


def test_every_entry_point_names_who_has_a_gpu_that_is_full(machine, project, monkeypatch, capsys):
    def full(device: str) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    info = type("Info", (), {"total": 12 * GIB, "free": GIB // 2, "used": 23 * GIB // 2})
    machine(
        cuda=True, DeviceGetMemoryInfo=info, DeviceGetComputeRunningProcesses=[Answers.process(os.getpid(), 11 * GIB)]
    )
    works = EntryPoints(project, monkeypatch, full).works
    for name in ("train", "train_gpt", "preflight", "synthesize", "speaker"):
        with pytest.raises((UserError, SystemExit)) as caught:
            works[name]("auto")
        said = f"{caught.value} {capsys.readouterr().err}"
        assert "0.5 of 12.0 GB of NVIDIA GeForce RTX 4060 are free" in said, name
        assert f"(process {os.getpid()}) has 11.0 GB" in said, name


def test_the_notebook_trains_and_speaks_by_the_commands_at_auto():
    notebook = json.loads((ROOT / "docs" / "colab.ipynb").read_text(encoding="utf-8"))
    code = "".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    assert re.findall(r'studio\("(\w+)"', code) == ["prepare", "train", "export", "synthesize"]
    assert "device" not in code and "utils.cli.{command}" in code


def test_cuda_that_does_not_start_is_reported_in_its_own_words(machine, monkeypatch):
    """Such as in a container without the compute libraries, where the driver's NVML answers all the same."""

    def init() -> None:
        raise RuntimeError("Unexpected error from cudaGetDeviceCount()\nError 802")

    machine()
    monkeypatch.setattr("torch.cuda.init", init)
    assert settle_device("auto") == (
        "cpu",
        "computing on the CPU: PyTorch cannot use CUDA: Unexpected error from cudaGetDeviceCount()",
    )


def test_under_an_old_driver_a_run_records_the_cpu_and_warns(machine, project, monkeypatch):
    """And a run in fp32 gets the advice of `faster_precision`, which a CPU has none of."""
    machine(**OLD_DRIVER)
    monkeypatch.setattr(train, "faster_precision", lambda requested, device: f"{requested} on {device}")
    folder = fine_tune(config_of(project, device="auto", num_epochs=1)).folder
    assert read_record(folder).device == "cpu"
    (warning,) = [e for e in events_of(folder, "warning") if e["source"] == "device"]
    assert "550.54.14" in warning["message"] and "580" in warning["message"]
    assert events_of(folder, "started")[0]["device"] == "cpu"
    advice = warnings_of(folder, "precision")
    assert advice == ["fp32 on cpu"]


def test_a_job_started_for_a_gpu_that_cuda_cannot_use_holds_the_cpu_instead(machine, tmp_path):
    machine()
    folder = tmp_path / "voice" / "runs" / "1"
    folder.mkdir(parents=True)
    texts = {"kind": "train", "state": "running", "host": "", "cwd": "", "config": "", "device": "cuda:0"}
    record = JobRecord(command=(), started=0.0, pid=os.getpid(), **texts)
    write_record(folder, record)
    gpu, cpu = Claim("cuda:0", tmp_path), Claim("cpu", tmp_path)
    gpu.give(folder)
    with jobs.hold("train", device="cpu", output=tmp_path, folder=folder):
        jobs.register(folder, device="cpu", output=tmp_path)
        assert read_record(folder).device == "cpu"
        assert (gpu.named(), cpu.named()) == (None, (folder, "", None))
    assert cpu.named() is None


@pytest.mark.parametrize(("capability", "faster"), [((6, 1), ""), ((7, 5), "fp16"), ((8, 6), "bf16")])
def test_a_run_in_fp32_names_the_precision_that_is_recommended(capability, faster, monkeypatch):
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: capability)
    cuda = torch.device("cuda")
    assert faster_precision("fp32", cuda).startswith("matrix products" if faster else "")
    assert faster in faster_precision("fp32", cuda) and bool(faster_precision("fp32", cuda)) == bool(faster)
    assert choose_precision("auto", cuda) == (faster or "fp32")
    assert not faster_precision("bf16", cuda) and not faster_precision("fp32", torch.device("cpu"))


def test_expandable_segments_are_the_default_and_off_where_the_driver_has_none(monkeypatch):
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)  # as for a call from Python
    segments: list[str] = []

    def empty(*size: int, device: torch.device) -> None:
        if segments[-1].endswith("True"):
            raise RuntimeError("CUDA driver error: operation not supported")

    monkeypatch.setattr(device_module.torch, "empty", empty)
    monkeypatch.setattr("torch._C._accelerator_setAllocatorSettings", segments.append)
    assert "operation not supported" in check_allocator(torch.device("cuda"))
    assert segments == ["expandable_segments:True", "expandable_segments:False"]
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")
    assert not check_allocator(torch.device("cuda")) and len(segments) == 2, "what the user has set stays"


def test_the_table_of_the_docs_names_every_machine():
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
