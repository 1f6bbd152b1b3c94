"""Facts about this machine, and recommendations for it; without loading torch."""

from utils.hardware.environment import TORCH_ENVIRONMENT, keep_freed_memory
from utils.hardware.estimates import XTTS_V2, Checkpointing, MemoryEstimate, ModelSize, Step, estimate
from utils.hardware.gpu import Gpu, GpuSurvey, architecture, find_gpus, gpus
from utils.hardware.loader import LoaderSettings, loader_settings
from utils.hardware.machine import Machine, this_machine
from utils.hardware.processor import Cpu, compiler, cpu, usable_cpus
from utils.hardware.recommendations import USE_CASES, Recommendation, UseCase, memory_tier, recommend
from utils.hardware.resources import Memory, disk_free, memory, process_memory, shared_memory_free
from utils.hardware.wheel import TorchBuild, Wheel, best_wheel, gpu_problems, torch_build

__all__ = [
    "TORCH_ENVIRONMENT",
    "USE_CASES",
    "XTTS_V2",
    "Checkpointing",
    "Cpu",
    "Gpu",
    "GpuSurvey",
    "LoaderSettings",
    "Machine",
    "Memory",
    "MemoryEstimate",
    "ModelSize",
    "Recommendation",
    "Step",
    "TorchBuild",
    "UseCase",
    "Wheel",
    "architecture",
    "best_wheel",
    "compiler",
    "cpu",
    "disk_free",
    "estimate",
    "find_gpus",
    "gpu_problems",
    "gpus",
    "keep_freed_memory",
    "loader_settings",
    "memory",
    "memory_tier",
    "process_memory",
    "recommend",
    "shared_memory_free",
    "this_machine",
    "torch_build",
    "usable_cpus",
]
