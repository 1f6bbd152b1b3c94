"""The switches of the optimizer: how its moments, weights and gradients are kept, and how a step shows it."""

import torch

from utils.config import TrainConfig
from utils.training.optimizations.switch import MB, Behavior, Off, Seen, Trace
from utils.training.optimizer.make import optimizer_problem
from utils.training.optimizer.precision import choose_precision, world_size
from utils.training.optimizer.sharding import is_sharded, own_bytes

NO_OPTIMIZER = "the model has no optimizer yet: make it with TrainingOptimizer.make_optimizer"


def _resolve_bits(asked: TrainConfig, device: torch.device) -> bool | Off:
    problem = optimizer_problem("AdamW8bit", device)
    return Off(problem) if problem else True


def _resolve_paged(asked: TrainConfig, device: torch.device) -> bool | Off:
    problem = optimizer_problem("PagedAdamW", device)
    return Off(problem) if problem else True


def _eight_bit(trace: Trace) -> Seen:
    tensors = _moments(trace)
    dtypes = sorted({str(value.dtype).removeprefix("torch.") for value in tensors})
    num_bytes = sum(value.nbytes for value in tensors)
    observed = f"moments in {' and '.join(dtypes) or 'nothing yet'}, {num_bytes / MB:.1f} MB"
    return Seen(any(value.dtype == torch.uint8 for value in tensors), observed)


def _paged(trace: Trace) -> Seen:
    tensors = _moments(trace)
    paged = sum(value.nbytes for value in tensors if getattr(value, "is_paged", False))
    return Seen(paged > 0, f"{paged / MB:.1f} of {sum(value.nbytes for value in tensors) / MB:.1f} MB of moments paged")


def _moments(trace: Trace) -> list[torch.Tensor]:
    values = (value for state in trace.optimizer.state.values() for value in state.values())
    return [value for value in values if isinstance(value, torch.Tensor) and value.ndim]


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
    "eight_bit_optimizer": Behavior(resolve=_resolve_bits, observe=_eight_bit, only_ours=NO_OPTIMIZER),
    "paged_optimizer": Behavior(resolve=_resolve_paged, observe=_paged, only_ours=NO_OPTIMIZER),
    # Cut where the trainer is made, before its optimizer.
    "shard": Behavior(
        resolve=_sharding,
        observe=_sharded,
        only_ours="only this project's trainer cuts models; use torch.distributed.fsdp.fully_shard",
    ),
}
