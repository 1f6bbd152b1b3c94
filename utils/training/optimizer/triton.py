"""Whether kernels can be written in Triton on this machine."""

import os
import platform
import shutil
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import torch

TRITON_CAPABILITY = (7, 0)
"""First CUDA compute capability that PyTorch tries Triton on, which writes the kernels (torch.utils._triton). Triton
itself promises 8.0 and newer, so that `recommend` advises it there only."""


def headers_problem() -> str | None:
    """Why nothing can be built that Python is to call; None when it can be tried."""
    found = (Path(sysconfig.get_path("include")) / "Python.h").is_file()
    return None if found else "no Python headers; install python3-dev"


def triton_problem(device: torch.device) -> str | None:
    """Why no kernel in Triton runs on this GPU; None when it can be tried."""
    capability = torch.cuda.get_device_capability(device)
    if capability < TRITON_CAPABILITY:
        return f"Triton has no kernels for compute capability {capability[0]}.{capability[1]}; it needs 7.0"
    if find_spec("triton") is None:
        return "Triton is not installed; it comes with torch on Linux, as triton-windows on Windows"
    names = [os.environ.get("CC", "cc"), "gcc", "clang"]
    if platform.system() != "Windows" and not any(map(shutil.which, names)):
        return "no compiler; install gcc"
    return headers_problem()
