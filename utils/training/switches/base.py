"""What a switch is made of: how it is resolved for a device, applied to a model, and seen in a step."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from utils.config import TrainConfig
from utils.hardware.gpu import AMPERE
from utils.model.gpt import XttsGpt
from utils.model.packing import Layout
from utils.switches import Switch
from utils.training.switches.record import StepRecord

MB = 1e6
GRAPHS = "CUDA graphs"
"""In `Switches.off`: compiled code runs without them."""


@dataclass(kw_only=True)
class Switches:
    """The switches of a run; whether they took effect, its proof says."""

    asked: TrainConfig
    effective: TrainConfig
    """What is tried: `asked` with what this device can have."""
    layout: Layout
    """How batches are laid out: rows, or one packed row for variable-length attention."""
    off: dict[str, str] = field(default_factory=dict)
    """By name in the event: what was asked for and cannot take effect here, with the reason."""
    without_flash_attn: str = ""
    """Why no kernel of the flash-attn packages is used, where one might be."""


class Off(NamedTuple):
    """A switch that cannot be had on a device."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What shows whether switches took effect."""

    switches: Switches
    record: StepRecord
    """What was watched of a step."""
    model: XttsGpt
    optimizer: torch.optim.Optimizer
    scaler: bool
    """Whether a gradient scaler is active."""
    loader: object
    """The training DataLoader."""

    @property
    def device(self) -> torch.device:
        """Where the model trains."""
        return next(self.model.parameters()).device


class Seen(NamedTuple):
    """What a trace showed of one switch."""

    is_on: bool
    observed: str
    summary: str = ""
    """The same in a few words for people who watch, where `observed` is long."""


@dataclass(frozen=True, kw_only=True)
class Behavior:
    """What one switch does."""

    observe: Callable[[Trace], Seen]
    resolve: Callable[[TrainConfig, torch.device], Any] | None = None
    """The value that takes effect on a device, or `Off`; the one that was asked for when there is no choice."""
    apply: Callable[[XttsGpt, TrainConfig], None] | None = None
    """Changes our model in place to the effective value."""
    asked: Callable[[Trace], bool | str] | None = None
    """What was asked for, where no field says it."""


Report = dict[str, dict[str, Any]]
"""By switch name: asked; state, on or off; observed, what was seen; reason, why it is off although it was asked for;
summary, what was seen in a few words, None where it is off."""


def state_of(switch: Switch, asked: Any, seen: Seen, off: str | None) -> dict[str, Any]:
    """A switch as in the event.

    Args:
        switch: which.
        asked: what was asked for.
        seen: what a step showed.
        off: why it cannot be on; what was seen is the reason when None.
    """
    asked = False if asked is None else asked
    is_missed = not seen.is_on and (asked == "auto" or asked not in (False, switch.off))
    return {
        "asked": asked,
        "state": "on" if seen.is_on else "off",
        "observed": seen.observed,
        "reason": (off or f"what ran shows: {seen.observed}") if is_missed else None,
        "summary": (seen.summary or seen.observed) if seen.is_on else None,
    }


def choose_layout(sdpa: bool, precision: str, device: torch.device, *, is_compiled: bool) -> Layout:
    """One packed row where attention can keep clips apart cheaply, rows elsewhere.

    On CUDA that takes the variable-length kernel: compute capability 8.0 and half precision. A CPU goes clip by clip,
    which compiled code would have to be made again for with each batch.
    """
    if not sdpa:
        return "rows"
    if device.type == "cuda":
        has_varlen = torch.cuda.get_device_capability(device) >= AMPERE and precision in ("bf16", "fp16")
        return "packed" if has_varlen else "rows"
    return "rows" if is_compiled else "packed"


def blocks(part: int, whole: int, trace: Trace) -> str:
    """Passes in blocks: a step of several micro-batches passes through each more than once."""
    layers = trace.model.shape.layers
    return f"{layers * part // max(whole, 1)} of {layers} blocks"
