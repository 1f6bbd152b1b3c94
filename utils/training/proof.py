"""What a training step really did: read from the operations that ran, not from the settings."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import ProfilerActivity, profile

from utils.model.gpt import XttsGpt

KERNELS = {
    "aten::_scaled_dot_product_flash_attention": "flash",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "flash (CPU)",
    "aten::_scaled_dot_product_efficient_attention": "memory-efficient",
    "aten::_scaled_dot_product_cudnn_attention": "cuDNN",
    "aten::_scaled_dot_product_attention_math": "math",
    "torch_attn::_varlen_attn": "varlen flash",
}
"""Operations that attention is dispatched to, and what people call them."""
EXPLICIT = "explicit softmax"
_SOFTMAX = "aten::_softmax"
"""Tells explicit attention apart: fused kernels have no softmax of their own."""


@dataclass(kw_only=True)
class StepRecord:
    """What one optimizer step did."""

    kernels: Counter[str] = field(default_factory=Counter)
    """How often each attention kernel ran, the conditioning encoder's calls included."""
    forward_runs: int = 0
    """Forward passes of single transformer blocks that the forward pass itself needs."""
    recomputed: int = 0
    """Forward passes of single transformer blocks made once more in the backward pass."""
    product_dtype: torch.dtype | None = None
    """Data type of the matrix products, seen at the code head."""
    stream_dtype: torch.dtype | None = None
    """Data type of the last block's output."""


@contextmanager
def record_step(gpt: XttsGpt) -> Iterator[StepRecord]:
    """Watch the operations of one step; the record is complete when the block ends.

    Args:
        gpt: the model that is trained; two small hooks are attached for the time of the step.
    """
    record = StepRecord()
    passes = 0

    def heads(module: torch.nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        nonlocal passes
        passes += 1
        record.product_dtype = output.dtype

    def stream(module: torch.nn.Module, inputs: tuple[Tensor]) -> None:
        record.stream_dtype = inputs[0].dtype

    hooks = [gpt.mel_head.register_forward_hook(heads), gpt.gpt.ln_f.register_forward_pre_hook(stream)]
    runs_before = gpt.block_runs
    try:
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            yield record
    finally:
        for hook in hooks:
            hook.remove()
    record.kernels = _kernels(Counter(event.name for event in seen.events()))
    record.forward_runs = passes * gpt.shape.layers
    record.recomputed = gpt.block_runs - runs_before - record.forward_runs


def saved_bytes(forward: Callable[[], Tensor]) -> int:
    """Memory that a forward pass keeps for its backward pass, in bytes; parameters and repeated storages count once.

    Args:
        forward: computes something that requires gradients; what it saves is measured, then dropped.
    """
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if not (tensor.is_leaf and tensor.requires_grad):
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        kept = forward()
    del kept
    return sum(storages.values())


def _kernels(calls: Counter[str]) -> Counter[str]:
    found = Counter({KERNELS[name]: count for name, count in calls.items() if name in KERNELS})
    if not found and calls[_SOFTMAX]:
        found[EXPLICIT] = calls[_SOFTMAX]
    return found
