"""Machines and a driver to test with where the real ones are not at hand."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from utils.hardware.gpu import Gpu
from utils.hardware.machine import Machine
from utils.hardware.processor import Cpu
from utils.hardware.resources import Memory

GIB = 1 << 30


def make_gpu(gib: float, capability: tuple[int, int], **more: Any) -> Gpu:
    values = {"index": 0, "name": "Test GPU", "total_bytes": round(gib * GIB), "used_bytes": 0} | more
    values.setdefault("free_bytes", values["total_bytes"] - values["used_bytes"])
    return Gpu(capability=capability, **values)


def make_machine(gpu: Gpu | None = None, **more: Any) -> Machine:
    values: dict[str, Any] = {
        "cpu": Cpu(model="Test CPU", physical_cores=8, usable_cpus=16, flags=frozenset({"avx512f"})),
        "memory": Memory(total_bytes=64 * GIB, available_bytes=48 * GIB),
        "system": "Linux",
        "compiler": "/usr/bin/g++",
    }
    return Machine(gpu=gpu, **values | more)


class Answers:
    """A driver with two GPUs of 8 GiB, standing in where no GPU is; a value that is an NVML error number is raised."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {
            "Init": None,
            "Shutdown": None,
            "DeviceGetCount": 2,
            "SystemGetDriverVersion": "580.65.06",
            "SystemGetCudaDriverVersion_v2": 13_000,
            "DeviceGetHandleByIndex": lambda index: index,
            "DeviceGetName": "NVIDIA GeForce RTX 4060",
            "DeviceGetUUID": "GPU-1",
            "DeviceGetMemoryInfo": type("Info", (), {"total": 8 * GIB, "free": 6 * GIB, "used": 2 * GIB}),
            "DeviceGetUtilizationRates": type("Rates", (), {"gpu": 37}),
            "DeviceGetTemperatureV": 61,
            "DeviceGetCudaComputeCapability": (8, 9),
            "DeviceGetComputeRunningProcesses": [self.process(7, GIB), self.process(8, None)],
            "DeviceGetGraphicsRunningProcesses": [],
            "DeviceGetNumGpuCores": 3_072,
            "DeviceGetMaxClockInfo": lambda handle, clock: 3_105,
            "DeviceGetMigMode": [0, 0],
        }

    @staticmethod
    def process(pid: int, used: int | None) -> Any:
        return type("Process", (), {"pid": pid, "usedGpuMemory": used})

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in self.values.items():
            monkeypatch.setattr(pynvml, f"nvml{name}", self._answer(value))

    @staticmethod
    def _answer(value: Any) -> Callable[..., Any]:
        def answer(*args: Any) -> Any:
            found = value(*args) if callable(value) and not isinstance(value, type) else value
            if isinstance(found, pynvml.NVMLError):
                raise found
            return found

        return answer
