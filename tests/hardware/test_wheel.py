"""A GPU that the installed PyTorch cannot use is never "no GPU": it comes with the install that fixes it."""

import platform

import pytest
import torch

from scripts import torch_for_gpu
from tests.hardware.machines import make_gpu, make_machine
from utils.hardware.wheel import WHEELS, TorchBuild, best_wheel, gpu_problems, torch_build

CU130 = TorchBuild(version="2.11.0+cu130", cuda=(13, 0))
ON_X86 = platform.machine().lower() in ("x86_64", "amd64")


@pytest.fixture(autouse=True)
def on_linux_with_nothing_hidden(monkeypatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")


def test_the_build_is_read_without_importing_torch():
    build = torch_build()
    assert build.version == torch.__version__
    assert (build.cuda and f"{build.cuda[0]}.{build.cuda[1]}") == torch.version.cuda


@pytest.mark.skipif(torch.version.cuda != "13.0" or not ON_X86, reason="another build is installed")
def test_the_table_of_kernels_is_that_of_the_pinned_wheel():
    wheel = next(wheel for wheel in WHEELS if wheel.cuda == (13, 0))
    built = torch._C._cuda_getArchFlags().split()
    assert {f"sm_{one.replace('.', '')}" for one in wheel.x86.split()} == set(built)


CU126_INSTALL = (
    "pip install torch==2.11.0+cu126 torchaudio==2.11.0+cu126 --index-url https://download.pytorch.org/whl/cu126"
)


@pytest.mark.parametrize(
    ("capability", "driver", "supported", "words"),
    [
        ((6, 1), "580.65.06", (13, 0), ["no kernels for Test GPU (Pascal, sm_61)", f"run: {CU126_INSTALL}"]),
        ((7, 0), "550.54.14", (12, 4), ["no kernels for Test GPU (Volta, sm_70)", f"run: {CU126_INSTALL}"]),
        ((7, 0), "470.82.01", (11, 4), ["update the NVIDIA driver to 525 or newer (not newer than 580", CU126_INSTALL]),
        ((8, 6), "550.54.14", (12, 4), ["driver 550.54.14 (CUDA 12.4) is too old", "to 580 or newer", "+cu128 "]),
        ((8, 6), "470.82.01", (11, 4), ["driver 470.82.01 (CUDA 11.4) is too old", "to 580 or newer"]),
        ((3, 7), "470.82.01", (11, 4), ["(Kepler, sm_37) is too old for PyTorch 2.11.0", "on the CPU"]),
        ((7, 5), "580.65.06", (13, 0), []),
        ((8, 9), "580.65.06", (13, 0), []),
        ((12, 1), "590.10", (13, 1), []),
    ],
)
def test_a_gpu_that_pytorch_cannot_use_comes_with_the_install_that_fixes_it(capability, driver, supported, words):
    problems = gpu_problems(make_gpu(8, capability, driver=driver, cuda=supported), CU130)
    assert len(problems) == bool(words)
    assert all(word in problems[0] for word in words)


def test_other_reasons_why_pytorch_does_not_see_a_gpu(monkeypatch):
    gpu = make_gpu(8, (8, 6), driver="580.65", cuda=(13, 0))
    without_cuda = gpu_problems(gpu, TorchBuild(version="2.11.0+cpu", cuda=None))
    assert "built without CUDA" in without_cuda[0] and "torch==2.11.0+cu130" in without_cuda[0]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "hides every GPU" in gpu_problems(gpu, CU130)[0]
    # The driver's CUDA version may be unknown; its own number then decides.
    assert best_wheel((8, 6), make_gpu(8, (8, 6), driver="530.30.02")).tag == "cu128"
    assert best_wheel((6, 1)).tag == "cu126"
    assert best_wheel((12, 0), make_gpu(8, (12, 0), driver="610.0")).tag == "cu130"


@pytest.mark.parametrize(
    ("gpu", "build", "installed", "printed"),
    [
        (make_gpu(8, (8, 9)), TorchBuild(version="2.11.0+cpu", cuda=None), "cu130", "driver 580 or newer"),
        (make_gpu(8, (6, 1), name="GTX 1080"), CU130, "cu126", "no kernels for GTX 1080 (Pascal, sm_61)"),
        (make_gpu(8, (8, 9)), CU130, "", ""),
        (make_gpu(8, (3, 5)), CU130, "", "too old for PyTorch"),
        (None, CU130, "", "no driver"),
    ],
)
def test_the_start_installs_the_build_that_the_gpu_needs(gpu, build, installed, printed, monkeypatch, capsys):
    calls: list[list[str]] = []
    problems = gpu_problems(gpu, build) if gpu else []
    machine = make_machine(gpu, gpu_problems=problems, gpu_reason="" if gpu else "no driver")
    monkeypatch.setattr(torch_for_gpu, "this_machine", lambda: machine)
    monkeypatch.setattr(torch_for_gpu, "torch_build", lambda: build)
    monkeypatch.setattr("subprocess.call", lambda command: calls.append(command) or 3)
    assert torch_for_gpu.main() == (3 if installed else 0)
    assert printed in capsys.readouterr().out
    index = ["--index-url", f"https://download.pytorch.org/whl/{installed}"]
    assert [(call[1:4], call[-2:]) for call in calls] == [(["-m", "pip", "install"], index)] * bool(installed)
