"""Which data types speech is computed in, on this machine."""

import logging

import torch

from utils.errors import UserError
from utils.hardware.processor import cpu
from utils.options import SpeechPrecision
from utils.performance_utils.trials import half_precision_fault

AMPERE = (8, 0)

HALF: dict[SpeechPrecision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}

log = logging.getLogger(__name__)


def resolve_precision(wanted: SpeechPrecision, device: torch.device) -> SpeechPrecision:
    """The data type of the GPT's weights.

    Args:
        wanted: auto takes 16 bits where they are faster: float16 on a CPU, bfloat16 on a GPU of the Ampere generation
            or newer, float16 on Volta and Turing.
        device: where it computes.

    Raises:
        UserError: 8 bits on a GPU, or a type that the device has no fast kernels for.
    """
    if device.type == "cpu":
        return "fp16" if wanted == "auto" else wanted
    if wanted == "int8":
        raise UserError(what="8-bit weights are for CPUs only", fix="use --precision bf16 on a GPU")
    generation = torch.cuda.get_device_capability(device)
    if wanted == "bf16" and generation < AMPERE:
        raise UserError(what="this GPU has no bfloat16 products", fix="use --precision fp16 or auto")
    if wanted != "auto":
        return wanted
    half: SpeechPrecision = "bf16" if generation >= AMPERE else "fp16" if generation >= (7, 0) else "fp32"
    fault = half_precision_fault(device, HALF[half]) if half in HALF else ""
    if fault:
        log.warning("speaking in float32: %s failed its trial: %s", half, fault)
    return "fp32" if fault else half


def vocoder_in_bf16(precision: SpeechPrecision, device: torch.device) -> bool:
    """Whether the decoder computes in bfloat16: with less than 32 bits, where the processor multiplies it natively."""
    if precision == "fp32":
        return False
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= AMPERE
    return _multiplies_bf16()


def _multiplies_bf16() -> bool:
    # Emulated, it takes ten times as long as float32, and with Intel's AVX-512 alone twice as long.
    has_avx512 = torch.cpu._is_avx512_bf16_supported() and not cpu().is_intel
    return bool(torch.cpu._is_amx_tile_supported() or has_avx512 or cpu().has_bf16)
