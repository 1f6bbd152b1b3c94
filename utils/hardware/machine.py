"""All facts that `recommend` and the page want of this machine, gathered in one place."""

import platform
from dataclasses import dataclass, field

from utils.hardware.gpu import Gpu, GpuSurvey, find_gpus
from utils.hardware.processor import Cpu, compiler, cpu
from utils.hardware.resources import Memory, memory
from utils.hardware.wheel import TorchBuild, gpu_problems, torch_build


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A computer that trains."""

    cpu: Cpu
    memory: Memory
    gpu: Gpu | None = None
    """The GPU to train on, whether or not PyTorch can use it yet."""
    gpu_reason: str = ""
    """Why there is no GPU, or not every one."""
    gpu_problems: list[str] = field(default_factory=list)
    """Why PyTorch cannot use `gpu`, each with the install that fixes it."""
    system: str = field(default_factory=platform.system)
    """Linux, Windows or Darwin."""
    compiler: str = ""
    """Path of the C++ compiler; empty when there is none."""

    @property
    def has_usable_gpu(self) -> bool:
        return self.gpu is not None and not self.gpu_problems


def this_machine() -> Machine:
    """The computer this runs on, asked anew each time."""
    return assemble(find_gpus(), torch_build(), cpu(), memory())


def assemble(survey: GpuSurvey, build: TorchBuild, processor: Cpu, free: Memory) -> Machine:
    """A machine of its parts; of several GPUs it takes the one that PyTorch can use, then the largest."""
    problems = {gpu.index: gpu_problems(gpu, build) for gpu in survey.gpus}
    best = max(survey.gpus, key=lambda gpu: (not problems[gpu.index], gpu.total_bytes), default=None)
    return Machine(
        cpu=processor,
        memory=free,
        gpu=best,
        gpu_reason=survey.reason,
        gpu_problems=problems[best.index] if best else [],
        compiler=compiler(),
    )
