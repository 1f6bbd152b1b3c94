"""Check whether the installed PyTorch supports a GPU, which installation does, and which package has a missing library.

Nothing here loads torch.

A PyTorch wheel is built for one CUDA version and holds machine code for some compute capabilities. It needs a driver of
the same CUDA generation: 525 or newer for CUDA 12, 580 or newer for CUDA 13.

Sources: pytorch/pytorch RELEASE.md of 2.11, "PyTorch CUDA Support Matrix" (pull request 175253), and for the wheel of
the pinned requirements `torch._C._cuda_getArchFlags()`; NVIDIA, CUDA Compatibility, "Minor Version Compatibility",
table 1 (drivers) and CUDA 12 release notes (528 on Windows); driver branch 580 is the last for Maxwell, Pascal and
Volta (NVIDIA, CUDA toolkit, driver and architecture matrix).
"""

import os
import platform
import re
from contextlib import suppress
from ctypes import CDLL
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from utils.errors import UserError
from utils.hardware.gpu import Gpu, Version

TORCH = "2.11.0"
"""The version that requirements.txt pins, of torch and torchaudio alike."""
LAST_DRIVER_BEFORE_TURING = 580
"""Newest driver branch that knows Maxwell, Pascal and Volta."""
LIBRARY_FAULTS = (
    "cannot open shared object",
    "Could not load library",
    "cannot be loaded",
    "Unable to load any of",
    "WinError",
)
"""Parts of messages of the loader, CTranslate2, cuDNN 8, cuDNN 9 and Windows, in this order."""
LIBRARY_NAME = re.compile(
    r"(?:lib)?(cublas|cudnn|cufft|curand|cusolver|cusparse|cudart|nvrtc|nccl|nvJitLink)"
    r"\w*?(?:64_|\.so\.)(\d+)"
)
"""Such as libcublasLt.so.12, cublas64_12.dll and libcudnn_ops.so.9.1.0: the library and its major version."""


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A published build of PyTorch 2.11."""

    cuda: Version
    x86: str
    """Compute capabilities that the Linux and Windows builds hold machine code for."""
    arm: str
    """The same of the builds for 64-bit Arm."""

    @property
    def tag(self) -> str:
        return f"cu{self.cuda[0]}{self.cuda[1]}"

    @property
    def install(self) -> str:
        """Command that installs it. The local version (+cu126) makes pip replace another build of the same version."""
        packages = " ".join(f"{name}=={TORCH}+{self.tag}" for name in ("torch", "torchaudio"))
        return f"pip install {packages} --index-url https://download.pytorch.org/whl/{self.tag}"

    def runs_on(self, capability: Version) -> bool:
        """Whether it holds machine code for this GPU: that of the same major version and the same or a lower minor."""
        built = self.arm if platform.machine().lower() in ("aarch64", "arm64") else self.x86
        versions = (tuple(map(int, one.split("."))) for one in built.split())
        return any(major == capability[0] and minor <= capability[1] for major, minor in versions)


WHEELS = (
    Wheel(cuda=(13, 0), x86="7.5 8.0 8.6 9.0 10.0 12.0", arm="8.0 9.0 10.0 11.0 12.0"),
    Wheel(cuda=(12, 8), x86="7.5 8.0 8.6 9.0 10.0 12.0", arm="8.0 9.0 10.0 12.0"),
    Wheel(cuda=(12, 6), x86="5.0 6.0 7.0 7.5 8.0 8.6 9.0", arm="8.0 9.0"),
)
"""The CUDA builds of PyTorch 2.11, the one that requirements.txt brings first."""


@dataclass(frozen=True, kw_only=True)
class TorchBuild:
    """The PyTorch that is installed here."""

    version: str
    """Such as 2.11.0+cu130; empty when there is none."""
    cuda: Version | None
    """CUDA version it was built for; None is a build without CUDA."""

    @property
    def wheel(self) -> Wheel | None:
        """The published build that this is, if it is one we know."""
        known = (wheel for wheel in WHEELS if wheel.cuda == self.cuda and self.version.startswith(TORCH))
        return next(known, None)


def torch_build() -> TorchBuild:
    """The installed PyTorch, from the text of its version.py: importing torch takes seconds and much memory."""
    text, spec = "", find_spec("torch")
    if spec is not None and spec.origin is not None:
        with suppress(OSError):
            text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    version = re.search(r"^__version__\b.*= '([^']+)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda\b.*= '(\d+)\.(\d+)", text, re.MULTILINE)
    return TorchBuild(version=version[1] if version else "", cuda=(int(cuda[1]), int(cuda[2])) if cuda else None)


def gpu_problems(gpu: Gpu, build: TorchBuild) -> list[str]:
    """Why the installed PyTorch cannot use this GPU, each with the install that fixes it; empty when it can."""
    found, shown = list[str](), os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is not None and shown.strip() in ("", "-1"):
        fix = "unset it, or name the GPU to use, such as 0"
        found.append(f"CUDA_VISIBLE_DEVICES is {shown!r}, which hides every GPU: {fix}")
    if gpu.capability is None:
        return found
    who = f"{gpu.name} ({gpu.architecture}, sm_{gpu.capability[0]}{gpu.capability[1]})"
    best = best_wheel(gpu.capability)
    if best is None:
        return [
            *found,
            f"{who} is too old for PyTorch {TORCH}: no build has kernels for it, so training runs on the CPU",
        ]
    if build.cuda is None:
        what = f"PyTorch {build.version} is built without CUDA" if build.version else "PyTorch is not installed"
        return [*found, f"{what} and cannot use {who}: {_fix(best, gpu)}"]
    if build.wheel is not None and not build.wheel.runs_on(gpu.capability):
        cuda = _dotted(build.cuda)
        return [*found, f"PyTorch {TORCH} for CUDA {cuda} has no kernels for {who}: {_fix(best, gpu)}"]
    if not driver_suffices(gpu, build.cuda):
        supports = f" (CUDA {_dotted(gpu.cuda)})" if gpu.cuda else ""
        problem = (
            f"the NVIDIA driver {gpu.driver or 'of this machine'}{supports} is too old for PyTorch built for CUDA "
            f"{_dotted(build.cuda)}: update the driver to {needed_driver(build.cuda)} or newer"
        )
        other = best_wheel(gpu.capability, gpu)
        found.append(f"{problem}; where that cannot be done, run: {other.install}" if other else problem)
    return found


def best_wheel(capability: Version, gpu: Gpu | None = None) -> Wheel | None:
    """The newest published build with kernels for a GPU; with `gpu`, the newest that its driver suffices for."""
    fitting = (wheel for wheel in WHEELS if wheel.runs_on(capability))
    return next((wheel for wheel in fitting if gpu is None or driver_suffices(gpu, wheel.cuda)), None)


def needed_driver(cuda: Version) -> int:
    """Oldest driver branch that runs programs built for any minor version of this CUDA generation."""
    if cuda[0] >= 13:
        return 580
    return 528 if platform.system() == "Windows" else 525


def driver_suffices(gpu: Gpu, cuda: Version) -> bool:
    """Whether a GPU's driver runs what was built for a CUDA version; also when the driver does not report its own."""
    if gpu.cuda is not None:
        return gpu.cuda[0] >= cuda[0]
    branch = gpu.driver.split(".")[0]
    return not branch.isdecimal() or int(branch) >= needed_driver(cuda)


def _fix(best: Wheel, gpu: Gpu) -> str:
    """The install, and the driver it needs where the present one is too old."""
    assert gpu.capability is not None
    wheel = best_wheel(gpu.capability, gpu)
    if wheel is not None:
        return f"run: {wheel.install}"
    before_turing = gpu.capability < (7, 5)
    newest = f" (not newer than {LAST_DRIVER_BEFORE_TURING}, the last for {gpu.architecture})" if before_turing else ""
    return f"update the NVIDIA driver to {needed_driver(best.cuda)} or newer{newest}, then run: {best.install}"


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def missing_library(error: BaseException) -> UserError | None:
    """Words for a CUDA library that could not be loaded, with the package that has it; None for another error."""
    text = str(error)
    found = LIBRARY_NAME.search(text) if any(fault in text for fault in LIBRARY_FAULTS) else None
    if found is None:
        return None
    library, major, cuda = found[1], int(found[2]), torch_build().cuda
    fix = "install the environment again from requirements.lock, which has the libraries of PyTorch"
    if library == "cudnn" and major < 9:
        fix = "run: pip install -U ctranslate2 faster-whisper, as older versions need cuDNN 8"
    elif library == "cudnn":
        fix = f"run: pip install nvidia-cudnn-cu{cuda[0] if cuda else 12}=={major}.*"
    elif library == "cublas" and (cuda is None or major != cuda[0]):
        # Beside torch's own of another CUDA version: CTranslate2 is built for CUDA 12.
        fix = f"run: pip install nvidia-cublas-cu{major}, and start again; or compute on the CPU (device cpu)"
    return UserError(what=f"the CUDA library {found[0]} was not found", where=text.splitlines()[0], fix=fix)


def load_library(name: str) -> bool:
    """Load a CUDA library from its package, for a program that looks for it in the system's folders only.

    Args:
        name: such as libcublas.so.12.

    Returns:
        Whether a package has it, and it could be loaded.
    """
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        for folder in sorted(Path(root).glob("*/lib")):
            for file in (folder / name, folder.parent / "bin" / name):
                with suppress(OSError):
                    if file.is_file():
                        CDLL(str(file))
                        return True
    return False
