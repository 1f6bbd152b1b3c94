"""GPUs are described as the driver tells it, and where there is none there is a reason."""

import psutil
import pynvml
import pytest
import torch

from tests.hardware.machines import GIB, Answers
from utils.hardware.gpu import find_gpus
from utils.hardware.wheel import gpu_problems, torch_build


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "no NVIDIA driver is installed"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "installed but not running"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "restart the computer"),
        (pynvml.NVML_ERROR_UNKNOWN, "the NVIDIA driver answers: Unknown Error"),
    ],
)
def test_without_a_working_driver_there_is_no_gpu_but_a_reason(monkeypatch, error, reason):
    def fail() -> None:
        raise pynvml.NVMLError(error)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    monkeypatch.setattr(pynvml, "nvmlErrorString", lambda _: "Unknown Error", raising=False)
    found, why = find_gpus()
    assert found == [] and reason in why


def test_a_mac_says_what_its_gpu_is_used_for(monkeypatch):
    def fail() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert find_gpus()[1].startswith("Apple's GPU (MPS) is not supported")


@pytest.fixture
def driver() -> Answers:
    return Answers()


def test_a_gpu_is_described_as_the_driver_tells_it(monkeypatch, driver):
    driver.install(monkeypatch)
    first, second = find_gpus()[0]
    assert (first.index, second.index) == (0, 1)
    assert (first.name, first.architecture, first.capability) == ("NVIDIA GeForce RTX 4060", "Ada", (8, 9))
    assert (first.total_bytes, first.free_bytes, first.used_bytes) == (8 * GIB, 6 * GIB, 2 * GIB)
    assert (first.utilization, first.temperature) == (37, 61)
    assert (first.driver, first.cuda) == ("580.65.06", (13, 0))
    # Process 7 uses a GiB, the driver does not tell for 8, and 9 is not there.
    assert [first.processes.get(pid, 0) for pid in (7, 8, 9)] == [GIB, None, 0]


def test_what_a_driver_does_not_tell_is_none_and_the_rest_stays(monkeypatch, driver):
    unsupported = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    unknown = pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    driver.values |= {
        "DeviceGetUtilizationRates": unsupported,
        "DeviceGetTemperatureV": unknown,
        "DeviceGetTemperature": 44,
        "DeviceGetMemoryInfo": unsupported,
    }
    driver.install(monkeypatch)
    gpu = find_gpus()[0][0]
    assert gpu.utilization is None
    assert gpu.temperature == 44  # by the question that older drivers know
    assert gpu.shares_memory and gpu.total_bytes == psutil.virtual_memory().total


def test_a_lost_gpu_does_not_hide_the_others(monkeypatch, driver):
    lost = pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
    driver.values["DeviceGetHandleByIndex"] = lambda index: lost if index == 0 else index
    driver.install(monkeypatch)
    found, reason = find_gpus()
    assert [gpu.index for gpu in found] == [1]
    assert "GPU 0 does not answer: the GPU has fallen off the bus" in reason


@pytest.mark.gpu
def test_the_driver_and_torch_see_the_same_gpu():
    properties = torch.cuda.get_device_properties(0)
    found = [gpu for gpu in find_gpus()[0] if gpu.name == properties.name]
    assert found and found[0].capability == (properties.major, properties.minor)
    assert found[0].total_bytes == pytest.approx(properties.total_memory, rel=0.1)
    assert gpu_problems(found[0], torch_build()) == []
