"""Gradient checkpointing: blocks keep their input only and are computed again in the backward pass."""

import torch

from utils.config import TrainConfig
from utils.options import Checkpointing
from utils.training.switches.base import MB, Behavior, Off, Seen, Trace, blocks
from utils.training.switches.compile import compile_mode


def _checkpointing(asked: TrainConfig, device: torch.device) -> Checkpointing | Off:
    is_compiled = asked.compile != "off" and not isinstance(compile_mode(asked, device), Off)
    if asked.gradient_checkpointing == "selective" and is_compiled:
        return Off(
            "compiled blocks choose by themselves what to recompute, and selective mode cannot look into them; "
            "use full, or compile off"
        )
    return asked.gradient_checkpointing


def _recomputed(trace: Trace) -> Seen:
    record = trace.record
    if not record.recomputed:
        return Seen(False, "no block was recomputed")
    saved = (record.block_bytes - record.kept_bytes) / MB
    share = f"{record.recomputed} of {record.forward_runs} block passes recomputed"
    conditioning = f"{record.conditioning_recomputed} of the conditioning encoder"
    kept = f"{record.kept_bytes / MB:.1f} instead of {record.block_bytes / MB:.1f} MB kept a block ({saved:.1f} saved)"
    summary = f"{blocks(record.recomputed, record.forward_runs, trace)} recomputed"
    return Seen(True, f"{share} and {conditioning}; {kept}", summary)


# An option of the model, which `Optimizations.apply` sets.
CHECKPOINTING = Behavior(resolve=_checkpointing, observe=_recomputed)
