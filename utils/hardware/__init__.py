"""Facts about this machine, and recommendations for it; without loading torch."""

from utils.hardware.environment import TORCH_ENVIRONMENT, keep_freed_memory
from utils.hardware.estimates import GIB, XTTS_V2, MemoryEstimate, ModelSize, estimate
from utils.hardware.gpu import Gpu, GpuSurvey, architecture, find_gpus, gpus
from utils.hardware.loader import LoaderSettings, loader_settings
from utils.hardware.machine import Machine, this_machine
from utils.hardware.processor import Cpu, compiler, cpu, usable_cpus
from utils.hardware.recommendations import (
    USE_CASES,
    MemoryFit,
    Recommendation,
    UseCase,
    memory_fit,
    memory_tier,
    recommend,
)
from utils.hardware.resources import Memory, disk_free, memory, process_memory, shared_memory_free
from utils.hardware.wheel import TorchBuild, Wheel, best_wheel, gpu_problems, torch_build

__all__ = [
    "GIB",
    "TORCH_ENVIRONMENT",
    "USE_CASES",
    "XTTS_V2",
    "Cpu",
    "Gpu",
    "GpuSurvey",
    "LoaderSettings",
    "Machine",
    "Memory",
    "MemoryEstimate",
    "MemoryFit",
    "ModelSize",
    "Recommendation",
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
    "memory_fit",
    "memory_tier",
    "process_memory",
    "recommend",
    "shared_memory_free",
    "this_machine",
    "torch_build",
    "usable_cpus",
]
