"""Collect all facts about this machine that `recommend` and the page need."""

import os
import platform
from dataclasses import dataclass, field

from utils.errors import UserError
from utils.hardware.gpu import Gpu, find_gpus, trained_on
from utils.hardware.processor import Cpu, compiler, cpu
from utils.hardware.resources import Memory, memory
from utils.hardware.wheel import gpu_problems, torch_build


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A computer that trains."""

    cpu: Cpu
    memory: Memory
    gpu: Gpu | None = None
    """The GPU that training takes in this environment, whether or not PyTorch can use it yet."""
    gpu_reason: str = ""
    """Why there is no GPU, or not every one."""
    gpu_problems: list[str] = field(default_factory=list)
    """Why PyTorch cannot use `gpu`, each with the install that fixes it; empty where there is none."""
    system: str = field(default_factory=platform.system)
    """Linux, Windows or Darwin."""
    compiler: str = ""
    """Path of the C++ compiler; empty when there is none."""


def cuda_refused(machine: Machine, problem: str) -> UserError:
    """The error that cuda was requested on a machine where PyTorch cannot use it."""
    return UserError(
        what=f"device cuda was requested, but {problem if machine.gpu else 'there is no NVIDIA GPU to use'}",
        where="device" if machine.gpu else f"device: {machine.gpu_reason or problem}",
        fix="use --device auto or cpu, or check the driver with nvidia-smi",
    )


def mps_refused(problem: str = "") -> UserError | None:
    """The error that Apple's GPU was requested where there is none; None where there is, and nothing else is wrong."""
    is_apple = platform.system() == "Darwin" and platform.machine() == "arm64"
    if is_apple and not problem:
        return None
    return UserError(
        what=f"device mps was requested, but {problem or 'this is no Mac with a GPU of Apple'}",
        where="device",
        fix="use --device auto or cpu",
    )


def missing_operation(error: BaseException) -> UserError | None:
    """Words for something that PyTorch has no kernel for on Apple's GPU; None for another error."""
    text = str(error)
    is_lacking = "MPS" in text and ("support" in text or "implemented" in text)
    if not is_lacking or not isinstance(error, RuntimeError | TypeError):
        return None
    fix = "use --device cpu, or set PYTORCH_ENABLE_MPS_FALLBACK=1, which computes what is missing on the CPU"
    return UserError(what="PyTorch cannot compute this on Apple's GPU", where=text.splitlines()[0][:200], fix=fix)


def this_machine() -> Machine:
    """The computer this runs on, queried each time; of several GPUs the one that training takes, not the best one."""
    (gpus, reason), build = find_gpus(), torch_build()
    taken = trained_on(gpus)
    # Where all are hidden, the page still says which GPU there would be.
    gpu = taken or max(gpus, key=lambda gpu: gpu.total_bytes, default=None)
    problems = gpu_problems(gpu, build) if gpu else []
    if gpu and taken is None and not problems:
        problems = [
            f"CUDA_VISIBLE_DEVICES is {os.environ.get('CUDA_VISIBLE_DEVICES')!r}, which names no GPU of this machine: "
            "unset it, or name the GPU to use, such as 0"
        ]
    if problems and taken:
        usable = [gpu for gpu in gpus if gpu != taken and not gpu_problems(gpu, build)]
        problems += [
            f"to train on {other.name}, set CUDA_VISIBLE_DEVICES={other.uuid or other.index}" for other in usable
        ]
    return Machine(
        cpu=cpu(),
        memory=memory(),
        gpu=gpu,
        gpu_reason=reason,
        gpu_problems=problems,
        compiler=compiler(),
    )
