"""What is planned for is the GPU that training takes, which is neither the largest nor the driver's first."""

from dataclasses import replace

import pynvml
import pytest

from tests.hardware.machines import GIB, Answers, make_gpu
from utils.hardware import machine as machine_module
from utils.hardware.gpu import Gpu, find_gpus, visible_gpus
from utils.hardware.machine import Machine, this_machine
from utils.hardware.recommendations import recommend
from utils.hardware.resources import Memory
from utils.hardware.wheel import TorchBuild

SMALL = make_gpu(8, (8, 6), index=0, uuid="GPU-aa11", speed=5)
LARGE = make_gpu(24, (8, 6), index=1, uuid="GPU-aa22", speed=4)
FAST = make_gpu(12, (9, 0), index=2, uuid="GPU-bb33", speed=9)
PARTS = tuple(make_gpu(size, (9, 0), index=3, uuid=f"MIG-{size}") for size in (10, 20))
DIVIDED = make_gpu(80, (9, 0), index=3, uuid="GPU-cc44", speed=1, parts=PARTS)
GPUS = (SMALL, LARGE, FAST, DIVIDED)
BUILD = TorchBuild(version="2.11.0", cuda=(13, 0))


@pytest.mark.parametrize(
    ("visible", "order", "expected"),
    [
        (None, "", [PARTS[0]]),  # Beside a part, CUDA shows no other device.
        ("0,1,2", "", [FAST, SMALL, LARGE]),
        ("0,1,2", "PCI_BUS_ID", [SMALL, LARGE, FAST]),
        ("MIG-20,MIG-10", "", [PARTS[1]]),
        ("1,0", "", [SMALL, FAST]),
        ("1, 0", "PCI_BUS_ID", [LARGE, SMALL]),
        ("1gpu", "PCI_BUS_ID", [LARGE]),
        ("GPU-aa2,GPU-BB", "", [LARGE, FAST]),
        ("GPU-aa", "", []),  # Two begin so.
        ("MIG-20", "", [PARTS[1]]),
        ("GPU-cc44", "", [PARTS[0]]),
        ("2,7,0", "PCI_BUS_ID", [FAST]),
        ("0,-1,1", "PCI_BUS_ID", [SMALL]),
        ("0,0", "PCI_BUS_ID", []),
        ("", "", []),
        ("-1", "", []),
        ("none", "", []),
    ],
)
def test_gpus_are_seen_as_cuda_shows_them(visible, order, expected, monkeypatch):
    for name, value in (("CUDA_DEVICE_ORDER", order or None), ("CUDA_VISIBLE_DEVICES", visible)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert visible_gpus(GPUS) == expected


def machine_with(monkeypatch: pytest.MonkeyPatch, *gpus: Gpu, visible: str | None = None) -> Machine:
    """This machine with these GPUs, of which the environment shows some."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(machine_module, "find_gpus", lambda: (list(gpus), ""))
    monkeypatch.setattr(machine_module, "torch_build", lambda: BUILD)
    monkeypatch.setattr(machine_module, "memory", lambda: Memory(total_bytes=64 * GIB, available_bytes=48 * GIB))
    return this_machine()


@pytest.mark.parametrize(
    ("visible", "planned"),
    [
        (None, PARTS[0]),
        ("0", FAST),
        ("GPU-aa11", SMALL),
        ("GPU-aa22", LARGE),
        ("MIG-10", PARTS[0]),
        ("9", None),
        ("", None),
    ],
)
def test_recommendations_are_for_the_gpu_that_trains(visible, planned, monkeypatch):
    machine = machine_with(monkeypatch, *GPUS, visible=visible)
    found = recommend("production", machine)
    if planned is None:
        assert machine.gpu_problems and found.device == "cpu"
        assert "CUDA_VISIBLE_DEVICES" in found.problems[0]
    else:
        assert machine.gpu == planned and found == recommend("production", replace(machine, gpu=planned))
        assert f"{planned.total_bytes / GIB:.0f} GB" in found.reasons[0]


def test_a_gpu_beside_one_that_cannot_train_is_named(monkeypatch):
    pascal = make_gpu(24, (6, 1), index=0, uuid="GPU-old", speed=50)
    machine = machine_with(monkeypatch, pascal, LARGE)
    assert machine.gpu == pascal and machine.gpu_problems
    assert machine.gpu_problems[-1] == "to train on Test GPU, set CUDA_VISIBLE_DEVICES=GPU-aa22"


def test_the_parts_of_a_divided_gpu_are_read_from_the_driver(monkeypatch):
    def part(handle: int, number: int) -> str:
        if number == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return f"part {number}"

    answers = Answers()
    answers.values |= {
        "DeviceGetCount": 1,
        "DeviceGetMigMode": [1, 1],
        "DeviceGetMaxMigDeviceCount": 3,
        "DeviceGetMigDeviceHandleByIndex": part,
        "DeviceGetUUID": lambda handle: f"MIG-{handle}" if isinstance(handle, str) else "GPU-1",
    }
    answers.install(monkeypatch)
    (gpu,) = find_gpus()[0]
    assert gpu.speed == 3_072 * 3_105
    assert [(one.uuid, one.index, one.total_bytes) for one in gpu.parts] == [
        ("MIG-part 1", 0, 8 * GIB),
        ("MIG-part 2", 0, 8 * GIB),
    ]
