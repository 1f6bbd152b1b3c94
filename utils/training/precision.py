"""Which data type the matrix products get on this device."""

import os
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs

from utils.config import Device, Precision
from utils.errors import UserError

AMPERE = (8, 0)
"""First CUDA compute capability with bf16 matrix units."""
VOLTA = (7, 0)
"""First CUDA compute capability with fp16 matrix units."""
PATIENCE = timedelta(hours=2)
"""So long processes wait for each other: the first one alone encodes a new dataset's clips, and for many of them NCCL's
own ten minutes are too short."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def choose_precision(precision: Precision, device: torch.device) -> str:
    """fp32, bf16 or fp16.

    Args:
        precision: what the user asked for; auto takes what the device has matrix units for.
        device: where training runs.

    Raises:
        UserError: fp16 on a CPU, which has neither fast kernels nor gradient scaling for it.
    """
    if precision == "fp16" and device.type == "cpu":
        raise UserError(
            what="mixed_precision fp16 needs a CUDA GPU", where="mixed_precision", fix="use bf16, fp32 or auto"
        )
    if precision != "auto":
        return precision
    if device.type == "cpu":
        return "bf16" if cpu_has_bf16() else "fp32"
    capability = torch.cuda.get_device_capability(device)
    return "bf16" if capability >= AMPERE else "fp16" if capability >= VOLTA else "fp32"


def make_accelerator(device: Device) -> Accelerator:
    """The device, CUDA or CPU, and the processes of a run.

    Raises:
        UserError: a CUDA GPU was asked for and there is none that torch can use.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            what="device cuda was asked for, but torch sees no CUDA GPU",
            where="device",
            fix="use --device auto or cpu, or check the driver with nvidia-smi",
        )
    if "WORLD_SIZE" not in os.environ:
        # accelerate keeps the first run's device for the whole process; each run chooses its own.
        AcceleratorState._reset_state(reset_partial_state=True)
    # Where there is no CUDA GPU, accelerate would take others that nothing here is made for, such as Apple's.
    on_cpu = device == "cpu" or not torch.cuda.is_available()
    return Accelerator(cpu=on_cpu, kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)])


def cpu_has_bf16() -> bool:
    """Whether this processor multiplies bf16 matrices in hardware (AVX-512 BF16 or AMX)."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
