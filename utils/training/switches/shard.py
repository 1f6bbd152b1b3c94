"""Sharded weights: FSDP2; see `utils.training.optimizer.sharding`."""

import torch

from utils.config import TrainConfig
from utils.training.optimizer.precision import choose_precision, world_size
from utils.training.optimizer.sharding import is_sharded, own_bytes
from utils.training.switches.base import MB, Behavior, Off, Seen, Trace


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


SHARD = Behavior(
    resolve=_sharding,
    observe=_sharded,
    only_ours="only this project's trainer cuts models; use torch.distributed.fsdp.fully_shard",
)
