"""The switches of the optimizer: how its moments, weights and gradients are kept, and how a step shows it."""

import torch

from utils.config import TrainConfig
from utils.model.gpt import XttsGpt
from utils.model.split_weights import split_weights
from utils.training.optimizations.switch import MB, Behavior, Off, Seen, Trace
from utils.training.optimizer.adamw8bit import AdamW8bit
from utils.training.optimizer.offload import OffloadedAdamW
from utils.training.optimizer.precision import choose_precision, world_size
from utils.training.optimizer.sharding import is_sharded, own_bytes
from utils.training.optimizer.triton import triton_problem

NO_OPTIMIZER = "the model has no optimizer yet: make it with TrainingOptimizer.make_optimizer"


def _eight_bit(trace: Trace) -> Seen:
    states = trace.optimizer.state.values()
    tensors = [value for state in states for value in state.values() if isinstance(value, torch.Tensor)]
    num_bytes = sum(value.nbytes for value in tensors)
    dtypes = sorted({str(value.dtype).removeprefix("torch.") for value in tensors if value.ndim})
    observed = f"moments in {' and '.join(dtypes) or 'nothing yet'}, {num_bytes / MB:.1f} MB"
    if trace.device.type == "cuda" and isinstance(trace.optimizer, AdamW8bit):
        number = trace.optimizer.num_kernels
        how = f"by {number} kernels" if number else f"in PyTorch's operations: {triton_problem(trace.device)}"
        observed += f", updated {how}"
    return Seen(any(value.dtype == torch.uint8 for value in tensors), observed)


def _offloading(asked: TrainConfig, device: torch.device) -> bool | Off:
    if device.type == "cpu":
        return Off("training runs in the machine's own memory: there is nothing to move")
    return True


def _offloaded(trace: Trace) -> Seen:
    devices = {
        value.device.type
        for state in trace.optimizer.state.values()
        for name, value in state.items()
        if isinstance(value, torch.Tensor) and name != "step"
    }
    observed = f"moments on {', '.join(sorted(devices)) or 'no device'}"
    if not isinstance(trace.optimizer, OffloadedAdamW):
        return Seen(False, observed)
    return Seen(devices == {"cpu"}, f"{observed}; {trace.optimizer.staging_bytes / MB:.1f} MB of staging buffers")


def _splitting(asked: TrainConfig, device: torch.device) -> bool | Off:
    if choose_precision(asked.mixed_precision, device) != "bf16":
        return Off("products are not in bf16 here: there are no copies to do without")
    if world_size() > 1 and not asked.lora_rank:
        return Off("several processes would sum their gradients in bf16")
    return True


def _split(gpt: XttsGpt, effective: TrainConfig) -> None:
    if effective.split_weights:
        split_weights(gpt)


def _halves(trace: Trace) -> Seen:
    halves = [weight for weight in trace.model.parameters() if weight.dtype == torch.bfloat16]
    split, whole = (sum(weight.numel() for weight in some) for some in (halves, trace.model.parameters()))
    frozen = sum(weight.numel() for weight in halves if not weight.requires_grad)
    observed = f"{split / 1e6:.2f} of {whole / 1e6:.2f} million weights in two halves of 16 bits"
    if frozen and trace.device.type == "cuda":
        observed += f"; the lower halves of {frozen / 1e6:.2f} million that do not learn in the machine's memory"
    return Seen(split > 0 and trace.record.product_dtype == torch.bfloat16, observed)


def _releasing(asked: TrainConfig, device: torch.device) -> bool | Off:
    if world_size() > 1:
        return Off("several processes sum their gradients before they are applied")
    if choose_precision(asked.mixed_precision, device) == "fp16":
        return Off("fp16 has to see all gradients before any is applied; use bf16 or fp32")
    return True


def _released(trace: Trace) -> Seen:
    release = trace.release
    if release is None:
        return Seen(False, "gradients are held until all are there")
    observed = (
        f"{release.num_released} of {release.num_parameters} gradients freed inside the backward pass, the largest "
        f"{release.most_bytes / MB:.1f} MB; clipped by the norm of the step before"
    )
    return Seen(release.num_released == release.num_parameters, observed)


def _compressing(asked: TrainConfig, device: torch.device) -> str | Off:
    if world_size() == 1:
        return Off("one process sends no gradients")
    return asked.compress_gradients


def _compressed(trace: Trace) -> Seen:
    sent = trace.gradient_sum.sent if trace.gradient_sum else {}
    parts = [f"{size / MB:.1f} MB in {str(dtype).removeprefix('torch.')}" for dtype, size in sent.items()]
    return Seen(set(sent) == {torch.bfloat16}, f"{' and '.join(parts) or 'no gradients'} sent by each process a step")


def _sharding(asked: TrainConfig, device: torch.device) -> bool | Off:
    if world_size() == 1:
        return Off("one process keeps everything")
    if choose_precision(asked.mixed_precision, device) == "fp16":
        return Off("fp16 is scaled by each process for itself; use bf16 or fp32")
    return True


def _sharded(trace: Trace) -> Seen:
    states = trace.optimizer.state.values()
    moments = [value for state in states for name, value in state.items() if name != "step"]
    parts = []
    is_cut = is_sharded(trace.model)
    for what, tensors in (("weights", list(trace.model.parameters())), ("moments", moments)):
        own, whole = own_bytes(tensors)
        is_cut &= own < whole
        parts.append(f"{own / MB:.1f} of {whole / MB:.1f} MB of {what}")
    return Seen(is_cut, f"{' and '.join(parts)} in the first process")


BEHAVIORS = {
    # Applied where the optimizer is made: see `Switches.optimizer`.
    "eight_bit_optimizer": Behavior(observe=_eight_bit, only_ours=NO_OPTIMIZER),
    "offload_optimizer": Behavior(resolve=_offloading, observe=_offloaded, only_ours=NO_OPTIMIZER),
    "split_weights": Behavior(
        resolve=_splitting,
        apply=_split,
        observe=_halves,
        only_ours="only this project's optimizers update such weights",
    ),
    "gradient_release": Behavior(resolve=_releasing, observe=_released, only_ours=NO_OPTIMIZER),
    "compress_gradients": Behavior(
        resolve=_compressing,
        observe=_compressed,
        only_ours="only this project's trainer wraps models for several processes; use register_comm_hook",
    ),
    # Cut where the trainer is made, before its optimizer.
    "shard": Behavior(
        resolve=_sharding,
        observe=_sharded,
        only_ours="only this project's trainer cuts models; use torch.distributed.fsdp.fully_shard",
    ),
}
