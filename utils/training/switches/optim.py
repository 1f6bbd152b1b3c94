"""AdamW in its kinds, the data type of matrix products, and the accelerator of a run."""

import logging
import os
from importlib import import_module
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import GradientAccumulationPlugin
from torch import Tensor, nn
from torch.optim import Optimizer

from utils.errors import UserError
from utils.hardware.gpu import AMPERE, VOLTA
from utils.model.eager_adamw import EagerAdamW
from utils.options import ComputeDevice, Precision
from utils.performance_utils.device import cpu_has_bf16, settle_device

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


def choose_precision(precision: Precision, device: torch.device) -> str:
    """fp32, bf16 or fp16.

    Args:
        precision: what the user asked for; auto takes what the device multiplies faster than fp32.
        device: where training runs.

    Raises:
        UserError: fp16 on a CPU, which has neither fast kernels nor gradient scaling for it.
    """
    if device.type == "mps" and precision not in ("auto", "fp32"):
        raise UserError(
            what=f"Apple's GPU trains in fp32, not in {precision}", where="mixed_precision", fix="use fp32 or auto"
        )
    if device.type == "mps":
        return "fp32"
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


def make_accelerator(device: ComputeDevice) -> Accelerator:
    """The device and the processes of a run; nothing else of what `accelerate launch` can set.

    Raises:
        UserError: a device was asked for that cannot be had, or accelerate is set up to change the model.
    """
    device, _ = settle_device(device)
    if wrapped := _asked_of(UNSUPPORTED):
        raise UserError(
            what=f"accelerate is set up for {' and '.join(wrapped.values())}, which cannot train this model",
            where=", ".join(wrapped),
            fix="unset it, or launch plain processes: accelerate launch --multi_gpu, or torchrun",
        )
    # accelerate keeps a precision, and outside of a launcher the first run's device, for the whole process.
    AcceleratorState._reset_state(reset_partial_state="WORLD_SIZE" not in os.environ)
    accelerator = Accelerator(
        # Left to itself, accelerate would take a GPU that was not asked for.
        cpu=device == "cpu",
        # Omitted, these come from the environment: an fp32 run would compute in bf16, compiled.
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
        for name, switch in _asked_of(OURS).items():
            log.warning("%s=%s is not used: %s decides", name, os.environ[name], switch)
    return accelerator


def _asked_of(variables: dict[str, str]) -> dict[str, str]:
    """Those of the variables that ask for something."""
    return {name: what for name, what in variables.items() if os.environ.get(name, "").lower() not in NEUTRAL}


BETAS = (0.9, 0.96)
"""coqui-tts' XTTS recipe."""
EPS = 1e-8


def make_optimizer(model: nn.Module, *, learning_rate: float, weight_decay: float, kind: str = "AdamW") -> Optimizer:
    """AdamW over the parameters that learn; biases, norms, embeddings and the perceiver's latents are not decayed.

    Args:
        model: whose parameters to update.
        learning_rate, weight_decay: of AdamW.
        kind: AdamW is torch's, fused: it moves 28 bytes a parameter and step where the plain loop moves about 80.
            AdamW8bit, PagedAdamW and PagedAdamW8bit are bitsandbytes': moments in 8 bits, or in memory that moves to
            the machine's when the GPU is full.
    """
    groups = _groups(model, weight_decay)
    if kind == "AdamW":
        return EagerAdamW(groups, lr=learning_rate, betas=BETAS, eps=EPS, fused=True)
    made: Optimizer = getattr(import_module("bitsandbytes.optim"), kind)(groups, lr=learning_rate, betas=BETAS, eps=EPS)
    return made


def optimizer_problem(kind: str, device: torch.device) -> str | None:
    """Why bitsandbytes cannot update parameters on a device, from a trial update; None where it can."""
    if device.type != "cuda":
        return "8-bit AdamW needs a CUDA GPU; use LoRA" if "8bit" in kind else "paged AdamW needs a CUDA GPU"
    try:
        layer = nn.Linear(128, 128, device=device)
        layer(torch.ones(1, 128, device=device)).sum().backward()
        make_optimizer(layer, learning_rate=1e-3, weight_decay=0.0, kind=kind).step()
    except ImportError:
        return "bitsandbytes is not installed; run pip install -r requirements-8bit.txt"
    except Exception as error:  # noqa: BLE001 - whatever a package for another CUDA raises is the reason.
        return f"bitsandbytes does not work on this GPU: {error}"
    return None


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's tensors under `parameter/key` names: the order of parameter groups then does not matter."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        f"{names[id(parameter)]}/{key}": value if isinstance(value, Tensor) else torch.tensor(float(value))
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
        # bitsandbytes' tables of levels: the same for all parameters.
        if not key.startswith("qmap")
    }


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameters that are decayed and those that are not."""
    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    undecayed = {id(parameter) for embedding in embeddings for parameter in embedding.parameters()}
    decay: list[nn.Parameter] = []
    keep: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        plain = parameter.ndim < 2 or id(parameter) in undecayed or name.endswith("perceiver.latents")
        (keep if plain else decay).append(parameter)
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": keep, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
