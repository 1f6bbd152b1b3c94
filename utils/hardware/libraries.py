"""CUDA libraries that a program does not find: which package has them, without loading torch."""

import re
from collections.abc import Iterator
from ctypes import CDLL
from importlib.util import find_spec
from pathlib import Path

from utils.errors import UserError
from utils.hardware.wheel import torch_build

FAULTS = (
    "cannot open shared object",
    "Could not load library",
    "cannot be loaded",
    "Unable to load any of",
    "WinError",
)
"""Parts of messages of the loader, CTranslate2, cuDNN 8, cuDNN 9 and Windows, in this order."""
NAME = re.compile(
    r"(?:lib)?(cublas|cudnn|cufft|curand|cusolver|cusparse|cudart|nvrtc|nccl|nvJitLink)"
    r"\w*?(?:64_|\.so\.)(\d+)"
)
"""Such as libcublasLt.so.12, cublas64_12.dll and libcudnn_ops.so.9.1.0: the library and its major version."""


def missing_library(error: BaseException) -> UserError | None:
    """Words for a CUDA library that could not be loaded, with the package that has it; None for another error."""
    text = str(error)
    found = NAME.search(text) if any(fault in text for fault in FAULTS) else None
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
    for folder in _folders():
        for file in (folder / name, folder.parent / "bin" / name):
            if file.is_file():
                try:
                    CDLL(str(file))
                except OSError:
                    continue
                return True
    return False


def _folders() -> Iterator[Path]:
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(root).glob("*/lib"))
