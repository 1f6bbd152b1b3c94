"""Query NVIDIA's driver about this machine's GPUs, and which of them PyTorch sees, without loading torch."""

import logging
import os
import platform
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pynvml

REASONS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver is installed (its library NVML is not here)",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is installed but not running; restart the computer",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the NVIDIA driver was updated while it was running; restart the computer"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: "this user may not ask the NVIDIA driver",
    pynvml.NVML_ERROR_GPU_IS_LOST: "the GPU has fallen off the bus; restart the computer",
}
"""Why there is no GPU, by the driver's answer."""

log = logging.getLogger(__name__)

Version = tuple[int, int]
"""(major, minor) of a compute capability or of CUDA."""

ARCHITECTURES: tuple[tuple[Version, str], ...] = (
    ((10, 0), "Blackwell"),
    ((9, 0), "Hopper"),
    ((8, 9), "Ada"),
    ((8, 0), "Ampere"),
    ((7, 5), "Turing"),
    ((7, 0), "Volta"),
    ((6, 0), "Pascal"),
    ((5, 0), "Maxwell"),
    ((3, 0), "Kepler"),
)
"""First compute capability of each architecture, newest first (NVIDIA, CUDA GPU compute capability)."""
VOLTA: Version = (7, 0)
"""First with matrix units for fp16."""
AMPERE: Version = (8, 0)
"""First with matrix units for bf16 and TF32."""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU at the moment of asking."""

    index: int
    """Number in the driver's order, that of nvidia-smi; `utils.hardware.gpu` knows PyTorch's."""
    name: str
    uuid: str = ""
    total_bytes: int
    """Memory of the GPU; the machine's own memory where `shares_memory`."""
    free_bytes: int
    used_bytes: int
    """By all processes and the driver."""
    shares_memory: bool = False
    """The GPU has no memory of its own and uses the machine's (Grace, Jetson)."""
    utilization: int | None = None
    """Share of the last moment in which a kernel ran, in percent; None when the driver does not report it."""
    temperature: int | None = None
    """Degrees Celsius; None when the driver does not report it."""
    capability: Version | None = None
    """Compute capability, such as (8, 9); None when the driver does not report it."""
    driver: str = ""
    """Version of the driver, such as 580.65.06."""
    cuda: Version | None = None
    """Newest CUDA version that the driver supports."""
    processes: dict[int, int | None] = field(default_factory=dict)
    """Bytes used by each process id that computes here; None where unreported (Windows, display mode)."""
    speed: int = 0
    """CUDA cores times their highest clock in MHz; 0 when the driver does not report it."""
    parts: tuple["Gpu", ...] = ()
    """The devices that the GPU is divided into (MIG), each with its own memory and the GPU's `index`."""

    @property
    def architecture(self) -> str:
        """Pascal, Volta, Turing, Ampere, ...; empty when the driver does not report the compute capability."""
        known = self.capability or (0, 0)
        return next((name for first, name in ARCHITECTURES if known >= first), "")


def find_gpus() -> tuple[list[Gpu], str]:
    """The NVIDIA GPUs of this machine in the driver's order, and why there are none or fewer than there could be.

    The driver's library is opened and closed each time: a driver that is updated or crashes while the page is open
    is then seen as it is.
    """
    try:
        pynvml.nvmlInit()
        try:
            count = pynvml.nvmlDeviceGetCount()
            if count == 0:
                return [], "the NVIDIA driver is running but sees no GPU"
            found, lost = [], []
            driver = _answer(pynvml.nvmlSystemGetDriverVersion) or ""
            version = _answer(pynvml.nvmlSystemGetCudaDriverVersion_v2) or _answer(
                pynvml.nvmlSystemGetCudaDriverVersion
            )
            cuda = divmod(version // 10, 100) if version else None
            for index in range(count):
                try:
                    found.append(_read(index, driver, cuda))
                except pynvml.NVMLError as error:
                    # One GPU that fell off the bus must not hide the others.
                    lost.append(f"GPU {index} does not answer: {_explained(error)}")
            return found, "; ".join(lost)
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return [], _explained(error)


def _read(index: int, driver: str, cuda: Version | None) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    capability = _answer(pynvml.nvmlDeviceGetCudaComputeCapability, handle)

    def device(handle: Any, name: str, memory: Any, **more: Any) -> Gpu:
        return Gpu(
            index=index,
            name=_answer(pynvml.nvmlDeviceGetName, handle) or name,
            uuid=_answer(pynvml.nvmlDeviceGetUUID, handle) or "",
            total_bytes=memory.total,
            free_bytes=memory.free,
            used_bytes=memory.used,
            capability=capability,
            driver=driver,
            cuda=cuda,
            processes=_processes(handle),
            **more,
        )

    # The MIG devices in the driver's order. A number that no device has is no end: there may be gaps.
    parts, mode = list[Gpu](), _answer(pynvml.nvmlDeviceGetMigMode, handle)
    is_divided = mode and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    for number in range((is_divided and _answer(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle)) or 0):
        # Whatever else a driver or a container refuses here must not cost the GPU itself.
        with suppress(pynvml.NVMLError):
            part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            parts.append(device(part, f"part {number} of GPU {index}", pynvml.nvmlDeviceGetMemoryInfo(part)))
    memory, shared = _answer(pynvml.nvmlDeviceGetMemoryInfo, handle), psutil.virtual_memory()
    used = shared.total - shared.available
    utilization = _answer(pynvml.nvmlDeviceGetUtilizationRates, handle)
    # Drivers before 570 know only the older of the two questions.
    asks = (pynvml.nvmlDeviceGetTemperatureV, pynvml.nvmlDeviceGetTemperature)
    temperatures = (_answer(ask, handle, pynvml.NVML_TEMPERATURE_GPU) for ask in asks)
    return device(
        handle,
        f"GPU {index}",
        memory or SimpleNamespace(total=shared.total, free=shared.available, used=used),
        shares_memory=memory is None,
        utilization=utilization.gpu if utilization else None,
        temperature=next((one for one in temperatures if one is not None), None),
        speed=(_answer(pynvml.nvmlDeviceGetNumGpuCores, handle) or 0)
        * (_answer(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM) or 0),
        parts=tuple(parts),
    )


def _processes(handle: Any) -> dict[int, int | None]:
    """Bytes by process id, compute and graphics together: a process that does both is named in both lists."""
    found: dict[int, int | None] = {}
    for ask in (pynvml.nvmlDeviceGetComputeRunningProcesses, pynvml.nvmlDeviceGetGraphicsRunningProcesses):
        for process in _answer(ask, handle) or []:
            known, used = found.get(process.pid), process.usedGpuMemory
            found[process.pid] = used if known is None else max(known, used or 0)
    return found


def _answer(ask: Callable[..., Any], *args: Any) -> Any:
    """The driver's answer, or None where this GPU or this driver has none."""
    try:
        return ask(*args)
    except (
        pynvml.NVMLError_NotSupported,
        pynvml.NVMLError_FunctionNotFound,
        pynvml.NVMLError_NoPermission,
        pynvml.NVMLError_NoData,
        pynvml.NVMLError_InvalidArgument,
        pynvml.NVMLError_Unknown,
    ) as error:
        log.debug("%s: %s", getattr(ask, "__name__", ask), error)
        return None


def _explained(error: pynvml.NVMLError) -> str:
    if platform.system() == "Darwin":
        return "Apple's GPU (MPS) is not supported: training and speech run on the processor"
    return REASONS.get(error.value, f"the NVIDIA driver answers: {error}")


def process_name(pid: int) -> str:
    """What a process is called: of Python, the module or script too, never its arguments.

    Empty when it has ended, or a container hides it.
    """
    name, args = "", list[str]()
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        name = process.name()
        args = process.cmdline() if name.startswith("python") else []
    if "-m" in args[:-1]:
        return f"{name} {args[args.index('-m') + 1]}"
    script = next((arg for arg in args[1:] if arg.endswith(".py")), "")
    return f"{name} {Path(script).name}" if script else name


def visible_gpus(gpus: Sequence[Gpu]) -> list[Gpu]:
    """The GPUs that PyTorch sees, `cuda:0` first; of a GPU that is divided (MIG), the part that it takes.

    Args:
        gpus: all of this computer, in the driver's order.

    Source: CUDA programming guide, CUDA environment variables: the first name that fits no GPU ends the list. Names
    that come twice leave nothing (torch.cuda._parse_visible_devices).
    """
    if os.environ.get("CUDA_DEVICE_ORDER", "").strip() == "PCI_BUS_ID":
        ordered = list(gpus)
    else:
        # CUDA does not publish its measure; arithmetic per second orders cards of unequal kinds as it does.
        ordered = sorted(gpus, key=lambda gpu: (gpu.speed, gpu.capability or (0, 0)), reverse=True)
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = [_taken(gpu) for gpu in ordered] if names is None else []
    for name in names.split(",") if names is not None else ():
        gpu = _named(name.strip(), ordered)
        if gpu is None:
            break
        if gpu in found:
            return []
        found.append(gpu)
    # A process sees one part of a divided GPU and then nothing else (NVIDIA MIG user guide, CUDA visible devices).
    return [gpu for gpu in found if gpu.uuid.startswith("MIG-")][:1] or found


def trained_on(gpus: Sequence[Gpu], local_rank: int | None = None) -> Gpu | None:
    """The GPU that a training in this environment takes; None when PyTorch sees none.

    Args:
        gpus: as of `visible_gpus`.
        local_rank: of the process among those of its run on this computer; LOCAL_RANK when not given.
    """
    rank = os.environ.get("LOCAL_RANK", "") if local_rank is None else str(local_rank)
    seen = visible_gpus(gpus)
    return seen[(int(rank) if rank.isdecimal() else 0) % len(seen)] if seen else None


def _named(name: str, ordered: Sequence[Gpu]) -> Gpu | None:
    """What one name of CUDA_VISIBLE_DEVICES stands for: a number, or the beginning of a long name that only one has."""
    if name.startswith(("GPU-", "MIG-")):
        every = [*ordered, *(part for gpu in ordered for part in gpu.parts)]
        fitting = [gpu for gpu in every if gpu.uuid.lower().startswith(name.lower())]
        return _taken(fitting[0]) if len(fitting) == 1 else None
    number = re.match(r"\+?(\d+)", name)
    return _taken(ordered[int(number[1])]) if number and int(number[1]) < len(ordered) else None


def _taken(gpu: Gpu) -> Gpu:
    """CUDA gives a process one part of a GPU that is divided."""
    return gpu.parts[0] if gpu.parts else gpu
