"""Frozen conditioning: the conditioning encoder and the perceiver stay as they are."""

from utils.config import TrainConfig
from utils.model.gpt import XttsGpt
from utils.training.switches.base import Behavior, Seen, Trace


def _freeze(gpt: XttsGpt, effective: TrainConfig) -> None:
    if effective.freeze_conditioning:
        for part in (gpt.conditioning_encoder, gpt.conditioning_perceiver):
            part.requires_grad_(False)


def _frozen(trace: Trace) -> Seen:
    parts = (trace.model.conditioning_encoder, trace.model.conditioning_perceiver)
    learning = sum(p.numel() for part in parts for p in part.parameters() if p.requires_grad)
    return Seen(learning == 0, f"{learning / 1e6:.2f} million parameters of the conditioning encoder learn")


FREEZE = Behavior(apply=_freeze, observe=_frozen)
