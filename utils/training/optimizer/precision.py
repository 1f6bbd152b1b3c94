"""The data type of matrix products on a device, and the accelerator of a run."""

import logging
import os

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import GradientAccumulationPlugin

from utils.config import Device, Precision
from utils.errors import UserError
from utils.hardware.processor import cpu
from utils.performance_utils.device import settle_device

AMPERE = (8, 0)
"""First CUDA compute capability with bf16 matrix units."""
VOLTA = (7, 0)
"""First CUDA compute capability with fp16 matrix units."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
OURS = {
    "ACCELERATE_MIXED_PRECISION": "--mixed-precision",
    "ACCELERATE_DYNAMO_BACKEND": "--compile",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "--grad-accumulation",
}
"""What `accelerate launch` sets that has a switch here, which decides."""
UNSUPPORTED = {
    "ACCELERATE_USE_FSDP": "FSDP",
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "tensor or context parallelism",
    "ACCELERATE_FP8_BACKEND": "FP8",
}
"""What it sets that would wrap or replace the model, and its name for people."""
NEUTRAL = {"", "no", "false", "0", "1"}
"""Values of these variables that ask for nothing."""

log = logging.getLogger(__name__)


def world_size() -> int:
    """How many processes a launcher has started for this run; known before they have a process group."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def choose_precision(precision: Precision, device: torch.device) -> str:
    """fp32, bf16 or fp16.

    Args:
        precision: what the user asked for; auto takes what the device multiplies faster than fp32.
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


def faster_precision(requested: Precision, device: torch.device) -> str:
    """Advice for a run that computes in fp32 on a GPU with faster units; empty for any other."""
    if device.type != "cuda" or requested != "fp32" or (faster := choose_precision("auto", device)) == "fp32":
        return ""
    return (
        f"matrix products are computed in fp32; {faster} is recommended on this GPU: faster, and halves the "
        "memory of activations (--mixed-precision auto)"
    )


def make_accelerator(device: Device) -> Accelerator:
    """The device, CUDA or CPU, and the processes of a run; nothing else of what `accelerate launch` can set.

    Raises:
        UserError: a device was asked for that cannot be had, or accelerate is set up to change the model.
    """
    device, _ = settle_device(device)
    _require_supported()
    # accelerate keeps a precision, and outside of a launcher the first run's device, for the whole process.
    AcceleratorState._reset_state(reset_partial_state="WORLD_SIZE" not in os.environ)
    accelerator = Accelerator(
        # Left to itself, accelerate would also take GPUs that nothing here is made for, such as Apple's.
        cpu=device == "cpu",
        # Left out, these come from the environment: an fp32 run would compute in bf16, compiled.
        mixed_precision="no",
        dynamo_backend="no",
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
    )
    if device != accelerator.device.type:
        raise UserError(
            what=f"device {device} was asked for, but accelerate is set up for {accelerator.device}",
            where="ACCELERATE_USE_CPU, ACCELERATE_TORCH_DEVICE",
            fix="unset these variables (accelerate launch --cpu sets the first), or use --device auto",
        )
    if accelerator.is_main_process:
        for name, switch in _asked_of(OURS):
            log.warning("%s=%s is not used: %s decides", name, os.environ[name], switch)
    return accelerator


def _require_supported() -> None:
    asked = _asked_of(UNSUPPORTED)
    if asked:
        names = [name for name, _ in asked]
        raise UserError(
            what=f"accelerate is set up for {' and '.join(title for _, title in asked)}, which cannot train this model",
            where=", ".join(names),
            fix="unset it, or launch plain processes: accelerate launch --multi_gpu, or torchrun",
        )


def _asked_of(variables: dict[str, str]) -> list[tuple[str, str]]:
    return [(name, what) for name, what in variables.items() if os.environ.get(name, "").lower() not in NEUTRAL]


def cpu_has_bf16() -> bool:
    """Whether this processor multiplies bf16 matrices in hardware, and faster than float32 ones; see `Cpu.has_bf16`.

    torch reports what some systems do not.
    """
    has_avx512 = torch.cpu._is_avx512_bf16_supported() and not cpu().is_intel
    return bool(torch.cpu._is_amx_tile_supported() or has_avx512 or cpu().has_bf16)
